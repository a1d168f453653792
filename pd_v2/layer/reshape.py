"""Layers that repeat, reshape, transpose, rotate and select rows."""

import numpy as np

import pd_core as pd

from ..activation import Linear
from .base import layer


@layer("featmap_expand", "repeat_layer", Linear)
def repeat(scope, input, num_repeats, as_row_vector=True, act=None, name=None, layer_attr=None):
    """act of each row `num_repeats` times: a b a b, with `as_row_vector=False` a a b b."""
    scope.config.num_filters = num_repeats
    if not as_row_vector:
        scope.config.user_arg = "as_col_vec"
    axis = 1 if as_row_vector else 2
    copies = [1, num_repeats, 1] if as_row_vector else [1, 1, num_repeats]
    expanded = pd.expand(pd.unsqueeze(input, axis), copies)
    return pd.reshape(expanded, [-1, input.size * num_repeats])


@layer("resize", "resize")
def resize(scope, input, size, name=None):
    """Reshape the whole batch to rows of `size`."""
    scope.levels = ()
    return pd.reshape(input, [-1, size])


@layer("trans", "trans_layer")
def trans(scope, input, name=None, layer_attr=None):
    """Transpose the whole batch [rows, size].

    As in 2017 the layer's size stays that of the input, so that later layers fit only batches of
    `size` rows.
    """
    scope.size, scope.levels = input.size, ()
    return pd.transpose(input)


@layer("rotate", "rotate_layer")
def rotate(scope, input, height, width, name=None, layer_attr=None):
    """Rotate each channel by 90 degrees clockwise; the recorded geometry is that of the input."""
    if height < 1 or width < 1 or input.size % (height * width):
        raise pd.ShapeError(
            f"{input.name!r} is {input.size} wide, which is no image of {height} x {width} pixels"
        )
    columns = np.arange(input.size).reshape(-1, height, width)
    rotated = np.rot90(columns, -1, axes=(1, 2))
    scope.set_geometry(height, width)
    return pd.gather(input, rotated.reshape(-1), axis=1)


@layer("multiplex", "multiplex_layer", several=True, rows=())
def multiplex(scope, input, name=None, layer_attr=None):
    """Select row i from the layer that id i names; the first input holds the ids, from 0."""
    if len(input) < 3:
        raise pd.GraphError(f"a multiplex has ids and at least two layers, not {len(input)} inputs")
    index, *choices = input
    if index.dtype.kind != "i":
        raise pd.DTypeError(f"{index.name!r} holds rows of numbers, no ids")
    for x in choices:
        if x.dtype.kind == "i":
            raise pd.DTypeError(f"{x.name!r} holds ids, no rows of numbers")
        if x.size != choices[0].size:
            raise pd.ShapeError(
                f"{choices[0].name!r} is {choices[0].size} wide, {x.name!r} {x.size}"
            )
    rows = pd.squeeze(pd.size_of(index, 0), 0)
    indices = index * rows + pd.arange(rows)
    return pd.gather(pd.concat(choices, axis=0), indices)
