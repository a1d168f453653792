"""Scale and shift per channel in one pass over the image."""

import numpy as np

from ...graph.node import Node, apply
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, constant
from .context import Context, Outputs
from .windows import reshape_dims


def channel_affine(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Replace a Mul and an Add per channel by one BatchNormalization.

    With mean 0, variance 1 and epsilon 0 it computes just that.
    """
    if node.op_type != "Add" or node.outputs[0].dtype != np.float32:
        return None
    for k, product in enumerate(inputs):
        shift = inputs[1 - k]
        if context.uses[node.inputs[k]] != 1:
            continue
        for x, scale in _factors(product):
            if _per_channel(x, scale, shift):
                return (_affine(x, scale, shift, node.outputs[0].dims),)
    return None


def _factors(v):
    """(a, b) and (b, a) where v is a product a b."""
    return (v.node.inputs, v.node.inputs[::-1]) if is_output_of(v, "Mul") else ()


def _per_channel(x, *columns):
    """Whether all columns hold one number for each channel of the image x."""
    if x.rank < 3 or not isinstance(x.dims[1], int):
        return False
    column = (x.dims[1], *[1] * (x.rank - 2))
    return all(v.dims in (column, (1, *column)) for v in columns)


def _affine(x, scale, shift, dims):
    channels = x.dims[1]
    zeros, ones = (constant(np.full(channels, v), x.dtype) for v in (0.0, 1.0))
    scale, shift = (reshape_dims(v, [channels]) for v in (scale, shift))
    return apply("BatchNormalization", x, scale, shift, zeros, ones, epsilon=0.0, known=dims)
