"""Layers that give ids."""

import pd_core as pd

from .base import layer


@layer("maxid", "maxid_layer")
def max_id(scope, input, name=None, layer_attr=None):
    """Argmax of each row, the first of equal elements; `prob` is the largest element."""
    scope.size, scope.prob = input.size, pd.reduce_max(input, [1])
    return pd.arg_max(input, axis=1)


@layer("sampling_id", "sampling_id_layer")
def sampling_id(scope, input, name=None, layer_attr=None):
    """Draw a column of each row, with the row's probabilities."""
    scope.size = input.size
    draw = pd.unsqueeze(pd.uniform_random(pd.size_of(input, 0)), 1)
    below = pd.cast(pd.cum_sum(input, axis=1) <= draw, "int64")
    # the sum of a row may be rounded to less than the draw
    return pd.minimum(pd.reduce_sum(below, [1]), input.size - 1)


@layer("eos_id", "eos_layer", rows=())
def eos(scope, input, eos_id, name=None, layer_attr=None):
    """Return 1 for each id that equals `eos_id`, else 0."""
    if input.dtype.kind != "i":
        raise pd.DTypeError(f"{input.name!r} holds rows of numbers, no ids")
    scope.size, scope.config.eos_id = 2, eos_id
    return pd.cast(pd.equal(input, eos_id), "int64")
