"""Batch normalisation by the statistics of the batch, in ONNX operators."""

import numpy as np

from ...graph.node import apply, refined
from ...graph.variable import constant
from .windows import reshape


def batch_norm(node, inputs, sizes, seed):
    """The result, the mean and the biased variance of each channel.

    The variance is that of centred values: a difference of mean squares would cancel.
    """
    x, scale, shift = inputs
    channels = x.dims[1]
    axes = np.array([0, *range(2, x.rank)])
    column = [1, channels] + [1] * (x.rank - 2)
    mean = apply("ReduceMean", x, axes)
    centred = apply("Sub", x, mean)
    variance = apply("ReduceMean", apply("Mul", centred, centred), axes)
    epsilon = constant(node.attributes["epsilon"], x.dtype)
    deviation = apply("Sqrt", apply("Add", variance, epsilon))
    factor = apply("Div", reshape(scale, column), deviation)
    offset = apply("Sub", reshape(shift, column), apply("Mul", mean, factor))
    y = apply("Add", apply("Mul", x, factor), offset)
    y = refined(y, x.dims)
    return (y, reshape(mean, [channels]), reshape(variance, [channels]))
