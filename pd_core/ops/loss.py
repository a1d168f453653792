"""Costs, one number a row, and the classification error."""

import numpy as np

from ..graph.broadcast import broadcast_dims
from ..graph.checks import whole
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import composite
from ..graph.variable import constant, describe
from . import math as m
from .index import gather, gather_elements
from .reduce import arg_max, log_softmax, reduce_mean, reduce_sum
from .shape import expand, size_of, unsqueeze


def cross_entropy(probability, label):
    """-ln p[label] of each row: probabilities [N, C] and int labels [N] or [N, 1] give [N, 1].

    A label that is no class, such as -1, is an error on a CPU, and gives an infinite cost on a GPU.
    The cost of a softmax and its gradient are taken in log space, so that no underflow of p is
    seen. For higher derivatives where p underflows, use `softmax_cross_entropy`.
    """
    index = _labels("cross_entropy", probability, label)
    return _cost_of_class(log_probability(probability), index)


def softmax_cross_entropy(logits, label):
    """-ln softmax(logits)[label] of each row: [N, C] and int labels [N] or [N, 1] give [N, 1].

    A label that is no class, such as -1, is an error on a CPU, and gives an infinite cost on a GPU.
    """
    index = _labels("softmax_cross_entropy", logits, label)
    return _cost_of_class(log_softmax(logits), index)


def _cost_of_class(rows, index):
    """The negative of the element of each row at its label.

    GatherElements alone takes -1 for the last class. So the sign is looked up by the label too: in
    a table with an entry for each class, from which CPUs refuse to read beyond and GPUs read 0.
    """
    picked, classes = gather_elements(rows, index, axis=1), rows.dims[1]
    if index.value is not None and (index.value >= 0).all():
        return -picked
    count = whole([classes]) if isinstance(classes, int) else size_of(rows, 1)
    sign = expand(m.cast(-1.0, rows.dtype), count)
    return picked / gather(sign, m.where(m.less_than(index, 0), count, index))


def binary_cross_entropy(probability, target):
    """-(t ln p + (1 - t) ln(1 - p)), elementwise.

    The cost of a sigmoid and its gradient are taken in log space. For higher derivatives where p
    is 0 or 1 in float32, use `sigmoid_cross_entropy`.
    """
    probability = constant(probability)
    target = constant(target, probability.dtype)
    dims = broadcast_dims(probability.dims, target.dims)
    if dims is None:
        raise ShapeError(
            f"binary_cross_entropy: {describe(probability)} against {describe(target)}"
        )
    types = [(dims, probability.dtype)]
    return composite("BinaryCrossEntropy", probability, target, types=types)


def binary_cross_entropy_grad(probability, target, dy):
    """dy (p - t) / (p (1 - p)), the gradient of the binary cross-entropy in p."""
    types = [(dy.dims, dy.dtype)]
    return composite("BinaryCrossEntropyGrad", probability, target, dy, types=types)


def log_probability(probability):
    """ln p; the logarithm of a softmax is taken without forming p."""
    probability = constant(probability)
    types = [(probability.dims, probability.dtype)]
    return composite("LogProbability", probability, types=types)


def log_probability_grad(probability, dy):
    """dy / p, the gradient of `log_probability`."""
    return composite("LogProbabilityGrad", probability, dy, types=[(dy.dims, dy.dtype)])


def sigmoid_cross_entropy(logits, target):
    """softplus(z) - t z: the binary cross-entropy of sigmoid(z), without overflow."""
    return m.softplus(logits) - logits * target


def square_error(x, target):
    """Sum over each row of (x - target)^2: [N, D] gives [N, 1]."""
    return reduce_sum(m.square(x - target), [1], keep_dim=True)


def classification_error(probability, label):
    """Share of rows whose largest entry is not at the label, a scalar."""
    index = _labels("classification_error", probability, label)
    wrong = m.logical_not(m.equal(arg_max(probability, 1, keep_dim=True), index))
    return reduce_mean(m.cast(wrong, "float32"))


def _labels(name, rows, label):
    """Labels as int64 [N, 1]."""
    rows, label = constant(rows), constant(label)
    if label.dtype.kind != "i":
        raise DTypeError(f"{name}: labels are integers, not {describe(label)}")
    if rows.rank != 2 or label.rank not in (1, 2) or (label.rank == 2 and label.dims[1] != 1):
        raise ShapeError(
            f"{name}: takes rows [N, C] and labels [N] or [N, 1], not "
            f"{describe(rows)} and {describe(label)}"
        )
    counts = [d for d in (rows.dims[0], label.dims[0]) if isinstance(d, int)]
    if len(set(counts)) > 1:
        raise ShapeError(f"{name}: {counts[0]} rows, but {counts[1]} labels")
    label = m.cast(label, np.int64)
    return unsqueeze(label, 1) if label.rank == 1 else label
