"""Batch normalization of images that are position-major."""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable
from ..passes.normalization import elements_of_channel
from .elementwise import Pointwise
from .image import Image


def batch_norm(
    node: Node, x: Image, inputs: Inputs, pointwise: Pointwise
) -> tuple[Image, Variable, Variable, Variable]:
    """Return the normalized image, mean and biased variance of each channel, and their elements.

    The variance is that of centred values, as for plain images.
    """
    _, scale, shift = inputs
    mean = _mean(x.rows)
    centred = x.rows - pointwise.row(mean, x)
    variance = _mean(apply("Mul", centred, centred, known=x.rows.dims))
    factor = scale / ops.sqrt(variance + node.attributes["epsilon"])
    y = centred * pointwise.row(factor, x) + pointwise.row(shift, x)
    return x.like(y), mean, variance, elements_of_channel(x.rows, x.channels)


def _mean(rows):
    """The mean of each channel: over positions first, whose rows are contiguous."""
    _, n, channels = rows.dims
    y = apply("ReduceMean", rows, np.array([0]), keepdims=0, known=(n, channels))
    return apply("ReduceMean", y, np.array([0]), keepdims=0, known=(channels,))
