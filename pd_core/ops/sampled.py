"""Costs of a softmax over very many classes, of which each row reads a few only."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, static
from . import math as m
from .activation import sigmoid, softplus
from .control import as_list
from .gather import chosen, gather, rows_of, within
from .matrix import matmul
from .mode import straight_through
from .random import uniform_random
from .reduce import reduce_sum
from .shape import concat, reshape, size_of, split, squeeze, unsqueeze
from .sizes import TargetShape
from .sparse import SparseRows

_LIMIT = 40.0  # scores of the tree are clipped to +-40, as by 2017's softrelu; gradients are not


@op
def random_classes(
    shape: TargetShape, classes: int, distribution: ArrayLike | None = None
) -> Variable:
    """Draw from 0 … classes - 1, int64, with the probabilities of a distribution [classes].

    Uniform if None; a fresh draw in every evaluation. `shape` is as for `uniform_random`.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.
        distribution: [classes], which adds up to 1.

    Returns:
        Int64, of this shape.

    Raises:
        ShapeError: a size is negative.
        ValueError: the distribution has another size or sum.
    """
    if distribution is None:
        return m.cast(uniform_random(shape, 0.0, classes), np.int64)
    keep, other = _alias(_probabilities("random_classes", distribution, classes))
    column = m.cast(uniform_random(shape, 0.0, classes), np.int64)
    kept = uniform_random(shape) < gather(constant(keep), column)
    return m.where(kept, column, gather(constant(other), column))


def _alias(probabilities):
    """Table of the alias method (Walker 1977): column k gives k with probability keep[k], else
    other[k]."""
    keep = probabilities * len(probabilities)
    other = np.arange(len(probabilities))
    small = [k for k in other if keep[k] < 1]
    large = [k for k in other if keep[k] >= 1]
    while small and large:
        low, high = small.pop(), large[-1]
        other[low] = high
        keep[high] -= 1 - keep[low]
        if keep[high] < 1:
            small.append(large.pop())
    keep[small + large] = 1  # left over by rounding
    return keep.astype(np.float32), other


def _probabilities(who, distribution, classes):
    p = np.asarray(distribution, np.float64)
    if p.shape != (classes,) or (p < 0).any() or abs(p.sum() - 1) > 1e-5:
        raise ValueError(
            f"{who}: a distribution is {classes} probabilities that add up to 1, not "
            f"{p.size} numbers of sum {p.sum():g}"
        )
    return p


@op
def nce_loss(
    inputs: Operand | Sequence[Operand],
    label: Operand | SparseRows,
    weights: Operand | Sequence[Operand],
    bias: Operand | None = None,
    samples: int = 10,
    distribution: ArrayLike | None = None,
) -> Variable:
    """Noise-contrastive estimation of a softmax over C classes (Gutmann & Hyvärinen 2010), [N, 1].

    A row x [D] scores class c by x · weights[c] + bias[c]; `inputs` [N, D] and `weights` [C, D]
    may be lists, whose products add up. The int label, [N] or [N, 1], is discriminated from
    `samples` noise classes, which are drawn in every evaluation from `distribution`, C
    probabilities, uniform if None. With o the sigmoid of a score and k = samples * distribution[c],
    the label costs -ln(o / (o + k)), a noise class -ln(k / (o + k)).

    A row may have several labels, or none: the columns of SparseRows, each with a cost of its own.
    A label outside 0 … C-1 is an OutOfRange error on a CPU.

    Args:
        inputs: floats [N, D], or a list of such.
        label: integers [N] or [N, 1], or SparseRows.
        weights: floats [C, D], or a list of such.
        bias: [C], or None.
        samples: a positive integer.
        distribution: [C], which adds up to 1.

    Returns:
        [N, 1].

    Raises:
        DTypeError: the labels are no integers.
        ShapeError: labels, inputs and weights do not fit each other.
        ValueError: there is no sample, or the distribution has another size or sum.
    """
    several = label if isinstance(label, SparseRows) else None
    labels: Any = label.columns if isinstance(label, SparseRows) else label
    xs, matrices, label = _checked(inputs, weights, labels)
    if samples < 1:
        raise ValueError(f"nce_loss: at least one sample is drawn, not {samples}")
    (classes,) = static([rows_of(matrices[0])])
    label = within(label, classes)
    p = None
    if distribution is not None:
        p = _probabilities("nce_loss", distribution, classes)
    drawn = concat([size_of(xs[0], 0), constant(np.array([samples], np.int64))])
    noise = random_classes(drawn, classes, p)
    noise = refined(noise, (xs[0].dims[0], samples))
    if several is None:
        scores = _scores(xs, matrices, bias, concat([label, noise], 1))
        true, false = split(scores, [1, samples], 1)
    else:
        repeated = [several.segments.repeat(x) for x in xs]
        true = _scores(repeated, matrices, bias, label)
        false = scores = _scores(xs, matrices, bias, noise)
    k = noise_k = constant(samples / classes, scores.dtype)
    if p is not None:
        expected = constant(p * samples, scores.dtype)
        k, noise_k = gather(expected, label), gather(expected, noise)
    # -ln(o / (o + k)) = ln(1 + k) + softplus(ln(k / (1 + k)) - score), also where k is 0
    log_k1 = m.log(k + 1.0)
    true = log_k1 + softplus(m.log(k) - log_k1 - true)
    true = true if several is None else several.segments.sum(true)
    false = m.log(sigmoid(false) / noise_k + 1.0)
    return true + reduce_sum(false, [1], keep_dim=True)


@op
def hierarchical_sigmoid(
    inputs: Operand | Sequence[Operand],
    label: Operand,
    weights: Operand | Sequence[Operand],
    bias: Operand | None = None,
) -> Variable:
    """Hierarchical softmax: -ln p of a label in a binary tree (Morin & Bengio 2005), [N, 1].

    The C classes are the leaves C … 2C - 1 of the complete tree whose node n has the children 2n
    and 2n + 1; p is the product of the sigmoids of ±t along the path, minus to an even child. A row
    x [D] has t = x · weights[n - 1] + bias[n - 1], clipped to ±40; `inputs` [N, D] and `weights`
    [C - 1, D] may be lists, whose products add up. The int label is [N] or [N, 1]; one outside
    0 … C-1 is an OutOfRange error on a CPU.

    Args:
        inputs: floats [N, D], or a list of such.
        label: integers [N] or [N, 1].
        weights: floats [C - 1, D], or a list of such.
        bias: [C - 1], or None.

    Returns:
        [N, 1].

    Raises:
        DTypeError: the labels are no integers.
        ShapeError: labels, inputs and weights do not fit each other.
    """
    xs, matrices, label = _checked(inputs, weights, label)
    classes = static([rows_of(matrices[0])])[0] + 1
    powers = np.int64(2) ** np.arange((2 * classes - 1).bit_length() - 1)
    leaf = chosen(label, classes) + classes
    child, parent = m.quotient(leaf, powers), m.quotient(leaf, powers * 2)
    inside = parent > 0
    scores = _scores(xs, matrices, bias, m.maximum(parent, 1) - 1)
    scores = straight_through(m.clip(scores, -_LIMIT, _LIMIT), scores)
    odd = m.cast(child - parent * 2, scores.dtype)
    costs = softplus(scores) - odd * scores
    return reduce_sum(m.where(inside, costs, 0.0), [1], keep_dim=True)


def _checked(
    inputs: Operand | Sequence[Operand], weights: Operand | Sequence[Operand], label: Operand
) -> tuple[list[Variable], list[Variable], Variable]:
    """Return inputs and weights as lists that fit each other, and labels as int64 [N, 1]."""
    xs, matrices = as_list(inputs), as_list(weights)
    if len(xs) != len(matrices):
        raise ShapeError(f"{len(xs)} inputs for {len(matrices)} weights")
    for x, w in zip(xs, matrices, strict=True):
        if x.rank != 2 or w.rank != 2 or x.dims[1] != w.dims[1] or isinstance(w.dims[0], str):
            raise ShapeError(
                f"takes rows [N, D] and weights [classes, D], not {describe(x)} and {describe(w)}"
            )
    rows = {rows_of(w) for w in matrices}
    if len(rows) > 1:
        raise ShapeError(f"the weights have {sorted(rows)} rows")
    label = constant(label)
    if label.dtype.kind not in "iu":
        raise DTypeError(f"labels are integers, not {describe(label)}")
    if label.rank not in (1, 2) or (label.rank == 2 and label.dims[1] != 1):
        raise ShapeError(f"labels are [N] or [N, 1], not {describe(label)}")
    label = m.cast(label, np.int64)
    return xs, matrices, unsqueeze(label, 1) if label.rank == 1 else label


def _scores(inputs, weights, bias, rows):
    """Compute x · weights[r] + bias[r], [N, M], at the rows r [N, M] of the weights of each x."""
    total: Any = None
    for x, w in zip(inputs, weights, strict=True):
        product = squeeze(matmul(gather(w, rows), unsqueeze(x, 2)), 2)
        total = product if total is None else total + product
    return total if bias is None else total + gather(reshape(bias, [-1]), rows)
