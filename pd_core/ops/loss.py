"""Losses, one number a row, and the classification error."""

import numpy as np

from ..graph.broadcast import broadcast_dims
from ..graph.checks import axis_of, differ, whole
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.node import composite
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .activation import softplus
from .gather import gather, gather_elements, within
from .promotion import as_dtype
from .reduce import arg_max, log_softmax, reduce_mean, reduce_sum
from .scores import are_scores, warn_of_scores
from .shape import arange, expand, ones_like, reshape, size_of, squeeze, unsqueeze


@op
def cross_entropy(probability: Operand, label: Operand, axis: int = -1) -> Variable:
    """-ln p[label] of each row: probabilities [N, C] and int labels [N] or [N, 1] give [N, 1].

    A label outside 0 … C-1, such as -1, is an OutOfRange error on a CPU and gives an infinite loss
    on a GPU.
    For p = softmax(z) the loss and its gradient are computed in log space, from z, so that p may
    underflow. For higher derivatives where it does, use `softmax_cross_entropy`, which also says
    what `axis` is. That is the loss of scores, too (PyTorch's `cross_entropy`): here they would
    have the loss NaN or below 0, and those that come from a layer are warned of.

    Args:
        probability: floats [N, C]; with another `axis`, that of the classes.
        label: integers [N] or [N, 1], the classes.

    Returns:
        [N, 1], of the dtype of the probabilities.

    Raises:
        DTypeError: the labels are no integers.
        ShapeError: the labels do not fit the rows.
    """
    index, axis = _labels(probability, label, axis)
    warn_of_scores("cross_entropy", constant(probability), "softmax_cross_entropy")
    return _negative_log_likelihood(log_probability(probability), index, axis)


@op
def softmax_cross_entropy(
    logits: Operand,
    label: Operand,
    weight: Operand | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Variable:
    """-ln softmax(logits)[label] of each row: [N, C] and int labels [N] or [N, 1] give [N, 1].

    Classes are along an axis, of size 1 in the result: logits [B, T, C] and labels [B, T] or
    [B, T, 1] give [B, T, 1]; with axis=1, [N, C, H, W] and [N, H, W] give [N, 1, H, W]. Instead of
    labels a target may hold the probability of each class: floats in the shape of the logits.

    A label outside 0 … C-1, such as -1, is an OutOfRange error on a CPU and gives an infinite loss
    on a GPU; but a row with the label `ignore_index` has a loss of 0. The loss of a class c is
    multiplied by weight[c]. Label smoothing mixes the target with the uniform distribution over
    all classes, in this proportion (Szegedy et al. 2016).

    Args:
        logits: floats [N, C]; with another `axis`, that of the classes.
        label: integers [N] or [N, 1], or floats in the shape of the logits.
        weight: [C], a factor for each class.
        ignore_index: a label whose rows cost 0.
        label_smoothing: within [0, 1].

    Returns:
        [N, 1], of the dtype of the logits.

    Raises:
        GraphError: label_smoothing is outside [0, 1], or ignore_index is given with probabilities.
        DTypeError: the labels are no integers.
        ShapeError: labels or weights do not fit the logits.
        ValueError: the target is the scores of a layer, which come first.
    """
    if not 0 <= label_smoothing <= 1:
        raise GraphError(f"label_smoothing is within [0, 1], not {label_smoothing}")
    log_p, target = log_softmax(logits, axis), constant(label)
    weight = None if weight is None else as_dtype(weight, log_p.dtype)
    soft = target.dtype.kind == "f" and not differ(target, log_p)
    if soft and are_scores(target):
        raise ValueError(
            "softmax_cross_entropy: the scores come first, and the label is the scores of a layer"
        )
    if soft and ignore_index is not None:
        raise GraphError("ignore_index is for labels, not for probabilities")
    if soft:
        losses, axis = _weighted_by_class(-log_p, weight, axis), axis_of(log_p, axis)
        loss = reduce_sum(m.cast(target, log_p.dtype) * losses, [axis], keep_dim=True)
    else:
        loss = _weighted_log_likelihood(log_p, target, weight, ignore_index, axis)
    if not label_smoothing:
        return loss
    losses = _weighted_by_class(-log_p, weight, axis)
    uniform = reduce_mean(losses, [axis], keep_dim=True)
    if ignore_index is not None:
        ignored = m.equal(_labels(log_p, target, axis)[0], ignore_index)
        uniform = m.where(ignored, 0.0, uniform)
    return loss * (1.0 - label_smoothing) + uniform * label_smoothing


@op
def negative_log_likelihood(
    log_probability: Operand,
    label: Operand,
    weight: Operand | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
) -> Variable:
    """Return -weight[label] log_p[label] of each row of log-probabilities [N, C], [N, 1].

    Labels, [N] or [N, 1], and the other arguments are those of `softmax_cross_entropy`.

    Args:
        log_probability: floats [N, C]; with another `axis`, that of the classes.
        label: integers [N] or [N, 1].
        weight: [C], a factor for each class.
        ignore_index: a label whose rows cost 0.

    Returns:
        [N, 1], of the dtype of the log-probabilities.

    Raises:
        DTypeError: the log-probabilities are no floats, or the labels no integers.
        ShapeError: labels or weights do not fit the rows.
    """
    log_p = constant(log_probability)
    if log_p.dtype.kind != "f":
        raise DTypeError(f"log-probabilities are floats, not {describe(log_p)}")
    weight = None if weight is None else as_dtype(weight, log_p.dtype)
    return _weighted_log_likelihood(log_p, label, weight, ignore_index, axis)


@op
def label_weights(
    label: Operand, weight: Operand | None = None, ignore_index: int | None = None
) -> Variable:
    """Return weight[label] of int labels, 0 for `ignore_index`, in the shape of the labels.

    Without a weight it is 1; with weights [C] a label outside 0 … C-1 is an OutOfRange error on a
    CPU. Weighted means of losses are divided by the sum of these.

    Args:
        label: integers of any shape.
        weight: [C], a factor for each class.
        ignore_index: a label of weight 0.

    Returns:
        Of the shape of the labels.

    Raises:
        DTypeError: the labels are no integers.
        ShapeError: the weights are no vector.
    """
    label, weight = constant(label), None if weight is None else constant(weight)
    if label.dtype.kind not in "iu":
        raise DTypeError(f"labels are integers, not {describe(label)}")
    if weight is not None and weight.rank != 1:
        raise ShapeError(f"weights are [C], one of each class, not {describe(weight)}")
    label = m.cast(label, np.int64)
    ones = ones_like(m.cast(label, np.float32 if weight is None else weight.dtype))
    if ignore_index is None:
        return ones if weight is None else _weights_of(label, weight)
    ignored = m.equal(label, ignore_index)
    rows = ones if weight is None else _weights_of(m.where(ignored, 0, label), weight)
    return m.where(ignored, 0.0, rows)


def _weights_of(label, weight):
    return gather(weight, within(label, _classes(weight, 0)))


def _weighted_by_class(losses, weight, axis):
    """Multiply the losses of each class by its weight."""
    if weight is None:
        return losses
    axis = _check_weight(losses, weight, axis)
    return losses * reshape(weight, [-1, *[1] * (losses.rank - 1 - axis)])


def _weighted_log_likelihood(log_p, label, weight, ignore_index, axis):
    index, axis = _labels(log_p, label, axis)
    if weight is not None:
        _check_weight(log_p, weight, axis)
    if ignore_index is None:
        loss = _negative_log_likelihood(log_p, index, axis)
        return loss if weight is None else loss * gather(weight, index)
    ignored = m.equal(index, ignore_index)
    index = m.where(ignored, 0, index)
    loss = _negative_log_likelihood(log_p, index, axis)
    return m.where(ignored, 0.0, loss if weight is None else loss * gather(weight, index))


def _check_weight(rows, weight, axis):
    """Check that there is a weight for each class; return their axis."""
    axis = axis_of(rows, axis)
    if weight.dims != (rows.dims[axis],):
        raise ShapeError(f"weights {describe(weight)} for the classes of {describe(rows)}")
    return axis


def _negative_log_likelihood(log_p, index, axis):
    """Return -log_p of each row at its label."""
    picked = gather_elements(log_p, index, axis=axis)
    if index.value is not None and (index.value >= 0).all():
        return -picked
    # GatherElements alone reads -1 as the last class. So the sign is looked up by the label too,
    # in a table of one entry per class: beyond its end CPUs refuse to read, and GPUs read 0.
    classes = _classes(log_p, axis)
    sign = expand(m.cast(-1.0, log_p.dtype), classes)
    return picked / gather(sign, within(index, classes))


def _classes(rows, axis):
    """The number of classes as a vector of one."""
    classes = rows.dims[axis]
    return whole([classes]) if isinstance(classes, int) else size_of(rows, axis)


def pair(x: Operand, target: Operand) -> tuple[Variable, Variable]:
    """Return outputs and their targets, which may be integers or bools, as floats of one type.

    Targets [N] beside outputs [N, 1] are a column, and [N, 1] beside [N] a vector: broadcast they
    would be N^2 pairs.
    """
    x = constant(x)
    x = x if x.dtype.kind == "f" else m.cast(x, np.float32)
    target = constant(target, x.dtype)
    if target.dtype.kind in "iub":
        target = m.cast(target, x.dtype)
    column, vector = (x, target) if x.rank > target.rank else (target, x)
    if vector.rank and column.rank == vector.rank + 1 and column.dims[-1] == 1:
        sizes = [
            (n, k)
            for n, k in zip(column.dims, vector.dims, strict=False)
            if isinstance(n, int) and isinstance(k, int) and n != k
        ]
        if not sizes:
            target = unsqueeze(target, -1) if column is x else squeeze(target, -1)
        elif not any(1 in both for both in sizes):
            raise ShapeError(f"{describe(x)} beside {describe(target)}")
    return x, target


@op
def binary_cross_entropy(probability: Operand, target: Operand) -> Variable:
    """-(t ln p + (1 - t) ln(1 - p)), elementwise, where 0 ln 0 is 0.

    For p = sigmoid(z) the loss and its gradient are computed in log space, from z. For higher
    derivatives where p is 0 or 1 in float32, use `sigmoid_cross_entropy`.

    Args:
        probability: floats of any shape.
        target: numbers or bools in the shape of the probabilities.

    Returns:
        Of the shape and dtype of the probabilities.

    Raises:
        ShapeError: the shapes differ.
    """
    probability, target = pair(probability, target)
    warn_of_scores("binary_cross_entropy", probability, "sigmoid_cross_entropy")
    dims = broadcast_dims(probability.dims, target.dims)
    if dims is None:
        raise ShapeError(f"{describe(probability)} against {describe(target)}")
    types = [(dims, probability.dtype)]
    return composite("BinaryCrossEntropy", probability, target, types=types)


@op
def binary_cross_entropy_grad(probability: Variable, target: Variable, dy: Variable) -> Variable:
    """Gradient of the binary cross-entropy in p: dy (p - t) / (p (1 - p))."""
    types = [(dy.dims, dy.dtype)]
    return composite("BinaryCrossEntropyGrad", probability, target, dy, types=types)


@op
def log_probability(probability: Operand) -> Variable:
    """ln p; for p = softmax(z) it is computed from z as log_softmax.

    Args:
        probability: floats of any shape.

    Returns:
        Of the shape and dtype of the probabilities.
    """
    probability = constant(probability)
    types = [(probability.dims, probability.dtype)]
    return composite("LogProbability", probability, types=types)


@op
def log_probability_grad(probability: Variable, dy: Variable) -> Variable:
    """Gradient of `log_probability` in p: dy / p."""
    return composite("LogProbabilityGrad", probability, dy, types=[(dy.dims, dy.dtype)])


@op
def sigmoid_cross_entropy(
    logits: Operand, target: Operand, pos_weight: Operand | None = None
) -> Variable:
    """Binary cross-entropy of sigmoid(z), without overflow: softplus(z) - t z.

    With weights p of positive targets it is (1 - t) softplus(z) + p t softplus(-z).

    Args:
        logits: floats of any shape.
        target: numbers or bools in the shape of the logits.
        pos_weight: p, numbers that broadcast to that shape, such as [C] beside [N, C].

    Returns:
        Of the shape and dtype of the logits.

    Raises:
        ShapeError: the shapes differ, or the weights do not broadcast.
        ValueError: the target is the scores of a layer, which come first.
    """
    logits, target = pair(logits, target)
    if are_scores(target):
        raise ValueError(
            "sigmoid_cross_entropy: the scores come first, and the target is the scores of a layer"
        )
    if pos_weight is None:
        return softplus(logits) - logits * target
    p = as_dtype(pos_weight, logits.dtype)
    if broadcast_dims(p.dims, logits.dims) != logits.dims:
        raise ShapeError(f"pos_weight {describe(p)} does not broadcast to {describe(logits)}")
    # the terms of a positive and a negative target share softplus(-z) = softplus(z) - z
    return (1.0 - target) * logits + (1.0 + (p - 1.0) * target) * softplus(-logits)


@op
def square_error(x: Operand, target: Operand) -> Variable:
    """Squared error of each row, the sum of (x - target)^2: [N, D] gives [N, 1].

    Args:
        x: numbers [N, D].
        target: numbers [N, D].

    Returns:
        [N, 1].

    Raises:
        ShapeError: x has one axis only, or the shapes differ.
    """
    x, target = pair(x, target)
    if x.rank < 2:
        raise ShapeError(f"takes rows [N, D], not {describe(x)}")
    return reduce_sum(m.square(x - target), [1], keep_dim=True)


@op
def huber_loss(x: Operand, target: Operand, delta: float = 1.0) -> Variable:
    """d^2 / 2 up to a distance d = |x - target| of delta, linear beyond (Huber 1964), elementwise.

    With delta = 1 it is the smooth L1 loss.

    Args:
        x: floats of any shape.
        target: numbers in the shape of x.
        delta: a positive number.

    Returns:
        Of the shape and dtype of x.

    Raises:
        GraphError: delta is not positive.
        ShapeError: the shapes differ.
    """
    if delta <= 0:
        raise GraphError(f"delta is positive, not {delta}")
    distance = m.abs(m.sub(*pair(x, target)))
    linear = delta * (distance - 0.5 * delta)
    return m.where(distance <= delta, 0.5 * m.square(distance), linear)


@op
def kl_divergence(log_probability: Operand, target: Operand) -> Variable:
    """KL(target || p) of distributions along the last axis, sum t (ln t - ln p): [..., C] to [...].

    The first operand is ln p; target holds probabilities, and t ln t is 0 for t = 0.

    Args:
        log_probability: floats [..., C].
        target: floats [..., C], probabilities.

    Returns:
        [...], without the last axis.

    Raises:
        ShapeError: the shapes differ.
    """
    log_p, target = pair(log_probability, target)
    terms = target * (m.log(m.where(target > 0.0, target, 1.0)) - log_p)
    return reduce_sum(terms, [-1])


@op
def classification_error(probability: Operand, label: Operand) -> Variable:
    """Error rate: the fraction of rows [..., C] whose argmax is not the label, a scalar.

    A label outside 0 … C-1 is an OutOfRange error on a CPU.

    Args:
        probability: numbers [..., C].
        label: integers [...] or [..., 1].

    Returns:
        A scalar.

    Raises:
        DTypeError: the labels are no integers.
        ShapeError: the labels do not fit the rows.
    """
    index, axis = _labels(probability, label)
    classes = _classes(constant(probability), axis)
    index = gather(arange(classes), within(index, classes))  # a label that is no class is refused
    wrong = m.logical_not(m.equal(arg_max(probability, axis, keep_dim=True), index))
    return reduce_mean(m.cast(wrong, "float32"))


def _labels(rows, label, axis=-1):
    """Return (int64 labels of size 1 along the axis of the classes, this axis from the front)."""
    rows, label = constant(rows), constant(label)
    if label.dtype.kind not in "iu":
        raise DTypeError(f"labels are integers, not {describe(label)}")
    axis = axis_of(rows, axis) if rows.rank else 0
    column = label.rank == rows.rank and rows.rank and label.dims[axis] == 1
    if rows.rank < 2 or not (column or label.rank == rows.rank - 1):
        raise ShapeError(
            f"takes labels of the shape of {describe(rows)} without its axis {axis}, or of size 1 "
            f"along it, not {describe(label)}"
        )
    label = m.cast(label, np.int64)
    label = label if column else unsqueeze(label, axis)
    for k, (size, count) in enumerate(zip(rows.dims, label.dims, strict=True)):
        if k != axis and isinstance(size, int) and isinstance(count, int) and size != count:
            raise ShapeError(f"{size} rows, but {count} labels along axis {k}")
    return label, axis
