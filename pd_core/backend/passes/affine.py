"""A number per channel times an image plus another, in one pass over the image."""

import numpy as np

from ...graph.node import apply
from ...graph.rewrite import is_output_of
from ...graph.variable import constant
from .windows import reshape


class ChannelAffine:
    """The rule that puts BatchNormalization in the place of a Mul and an Add per channel.

    With mean 0, variance 1 and epsilon 0 it computes just that. `uses` counts who reads a variable.
    """

    def __init__(self, uses):
        self.uses = uses

    def __call__(self, node, inputs):
        if node.op_type != "Add" or node.outputs[0].dtype != np.float32:
            return None
        for k, product in enumerate(inputs):
            offset, alone = inputs[1 - k], self.uses[node.inputs[k]] == 1
            for x, factor in _products(product) if alone else ():
                if _per_channel(x, factor, offset):
                    return (_affine(x, factor, offset, node.outputs[0].dims),)
        return None


def _products(v):
    """(a, b) and (b, a) where v is a b."""
    return (v.node.inputs, v.node.inputs[::-1]) if is_output_of(v, "Mul") else ()


def _per_channel(x, *columns):
    """Whether all columns hold a number for each channel of the image x, and nothing else."""
    if x.rank < 3 or not isinstance(x.dims[1], int):
        return False
    column = (x.dims[1], *[1] * (x.rank - 2))
    return all(v.dims in (column, (1, *column)) for v in columns)


def _affine(x, factor, offset, dims):
    channels = x.dims[1]
    zeros, ones = (constant(np.full(channels, v), x.dtype) for v in (0.0, 1.0))
    factor, offset = (reshape(v, [channels]) for v in (factor, offset))
    return apply("BatchNormalization", x, factor, offset, zeros, ones, epsilon=0.0, known=dims)
