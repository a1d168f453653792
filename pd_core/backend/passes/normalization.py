"""Normalization by the statistics of the batch, or of each row, in ONNX operators."""

import numpy as np

from ... import ops
from ...graph.node import Node, apply, rebuilt, refined
from ...graph.variable import Inputs, Variable, constant, static
from ...ops.shape import product_of_sizes
from .context import Context, Outputs
from .windows import reshape_dims


def batch_norm(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to the normalized image, mean and biased variance of each channel, and their elements.

    The variance is that of centred values: E[x²] - E[x]² would cancel where the mean is large.
    """
    x, scale, shift = inputs
    channels = int(x.dims[1])
    axes = np.array([0, *range(2, x.rank)])
    column = [1, channels] + [1] * (x.rank - 2)
    if node.attributes.get("synchronized"):
        mean, variance, count = _over_ranks(x, axes, column)
    else:
        count = elements_of_channel(x, channels)
        mean = apply("ReduceMean", x, axes)
        centred = x - mean
        variance = apply("ReduceMean", centred * centred, axes)
    deviation = ops.sqrt(variance + node.attributes["epsilon"])
    factor = reshape_dims(scale, column) / deviation
    offset = reshape_dims(shift, column) - mean * factor
    y = apply("Add", apply("Mul", x, factor), offset)
    y = refined(y, x.dims)
    return (y, reshape_dims(mean, [channels]), reshape_dims(variance, [channels]), count)


def elements_of_channel(x: Variable, channels: int) -> Variable:
    """Return the number of elements that a channel's mean is taken over, a scalar of x's dtype."""
    elements = ops.reshape(product_of_sizes(x, range(x.rank)), [])
    return ops.cast(elements, x.dtype) * (1.0 / channels)


def standardize(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to (x - mean) / sqrt(variance + epsilon) over the last axes, and that factor."""
    (x,) = inputs
    axes = np.arange(node.attributes["axis"], x.rank)
    centred = x - apply("ReduceMean", x, axes)
    variance = apply("ReduceMean", centred * centred, axes)
    factor = 1.0 / ops.sqrt(variance + node.attributes["epsilon"])
    return (refined(centred * factor, x.dims), refined(factor, node.outputs[1].dims))


def by_layer_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute `standardize` by LayerNormalization: on a CPU one pass, which returns the factor."""
    (x,), (_, factor) = inputs, node.outputs
    axis = node.attributes["axis"]
    if x.dtype != np.float32 or not all(isinstance(d, int) for d in x.dims[axis:]):
        return None
    ones = constant(np.ones(static(x.dims[axis:])), x.dtype)
    known = [x.dims, factor.dims, factor.dims]
    attributes = {"axis": axis, "epsilon": node.attributes["epsilon"]}
    y, _, factor = apply("LayerNormalization", x, ones, outputs=3, known=known, **attributes)
    return y, factor


def _over_ranks(x, axes, column):
    """The mean and variance over the batches of all ranks, and how many elements each is of."""
    channels = x.dims[1]
    own = ops.reshape(elements_of_channel(x, channels), [1])
    sums = reshape_dims(apply("ReduceSum", x, axes), [channels])
    total = ops.sum_over_ranks(ops.concat([sums, own], 0))
    count = ops.slice(total, [channels], [channels + 1], [0])
    divisor = ops.where(count > 0.0, count, 1.0)
    mean = reshape_dims(ops.slice(total, [0], [channels], [0]) / divisor, column)
    centred = x - mean
    squares = reshape_dims(apply("ReduceSum", centred * centred, axes), [channels])
    variance = reshape_dims(ops.sum_over_ranks(squares) / divisor, column)
    return mean, variance, ops.reshape(count, [])


def own_statistics(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Pass copies of running statistics to a BatchNormalization in training mode.

    ONNX Runtime 1.31 writes the new ones over the old ones, wherever those are read again: over the
    array that a caller feeds, too. It leaves out an Identity, and keeps a Sum of one operand.
    """
    statistics = inputs[3:5]
    if not node.attributes.get("training_mode", 0) or all(map(_is_copy, statistics)):
        return None
    copies = [apply("Sum", v, known=v.dims) for v in statistics]
    return list(rebuilt(node, (*inputs[:3], *copies)).outputs)


def _is_copy(v: Variable) -> bool:
    return v.node is not None and v.node.op_type == "Sum" and len(v.node.inputs) == 1
