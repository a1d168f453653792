"""Costs of a choice among very many classes that look at a few of them only."""

import numpy as np

from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.variable import constant, describe
from . import math as m
from .index import gather
from .matrix import matmul
from .mode import straight_through
from .random import uniform_random
from .reduce import reduce_sum
from .shape import concat, reshape, size_of, split, squeeze, unsqueeze

_HELD = 40.0  # a score of the tree is held within +-40, its gradient is not


def random_classes(shape, classes, distribution=None):
    """Fresh draws of 0 … classes - 1, int64, with the probabilities of a distribution [classes].

    Uniform where None. Sizes are numbers or a Variable, as of `uniform_random`.
    """
    if distribution is None:
        return m.cast(uniform_random(shape, 0.0, classes), np.int64)
    keep, other = _alias(_probabilities("random_classes", distribution, classes))
    column = m.cast(uniform_random(shape, 0.0, classes), np.int64)
    kept = m.less_than(uniform_random(shape), gather(constant(keep), column))
    return m.where(kept, column, gather(constant(other), column))


def _alias(probabilities):
    """The alias method (Walker 1977): column k is k with probability keep[k], else other[k]."""
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
    keep[small + large] = 1  # what rounding left over
    return keep.astype(np.float32), other


def _probabilities(who, distribution, classes):
    found = np.asarray(distribution, np.float64)
    if found.shape != (classes,) or (found < 0).any() or abs(found.sum() - 1) > 1e-5:
        raise ValueError(
            f"{who}: a distribution is {classes} probabilities that add up to 1, not "
            f"{found.size} numbers of sum {found.sum():g}"
        )
    return found


def nce_loss(inputs, label, weights, bias=None, samples=10, distribution=None):
    """Noise-contrastive estimation of a softmax over C classes (Gutmann & Hyvärinen 2010), [N, 1].

    A row x [D] scores class c by x · weights[c] + bias[c]; `inputs` [N, D] and `weights` [C, D]
    may be lists, whose products add up. The int label, [N] or [N, 1], is told from `samples`
    noise classes, which are drawn in every evaluation from `distribution`, C probabilities,
    uniform where None. With o the sigmoid of a score and k = samples * distribution[c], the label
    costs -ln(o / (o + k)), a noise class -ln(k / (o + k)).
    """
    inputs, weights, label = _checked("nce_loss", inputs, weights, label)
    if samples < 1:
        raise ValueError(f"nce_loss: at least one sample is drawn, not {samples}")
    classes = weights[0].dims[0]
    if distribution is not None:
        distribution = _probabilities("nce_loss", distribution, classes)
    drawn = concat([size_of(label, 0), constant(np.array([samples], np.int64))])
    noise = random_classes(drawn, classes, distribution)
    noise = refined(noise, (label.dims[0], samples))
    scores = _scores(inputs, weights, bias, concat([label, noise], 1))
    true, false = split(scores, [1, samples], 1)
    k = noise_k = constant(samples / classes, scores.dtype)
    if distribution is not None:
        expected = constant(distribution * samples, scores.dtype)
        k, noise_k = gather(expected, label), gather(expected, noise)
    # -ln(o / (o + k)) = ln(1 + k) + softplus(ln(k / (1 + k)) - score), also where k is 0
    more = m.log(m.add(k, 1.0))
    true = m.add(more, m.softplus(m.sub(m.sub(m.log(k), more), true)))
    false = m.log(m.add(m.div(m.sigmoid(false), noise_k), 1.0))
    return m.add(true, reduce_sum(false, [1], keep_dim=True))


def hierarchical_sigmoid(inputs, label, weights, bias=None):
    """-ln p of a label at the leaves of a binary tree (Morin & Bengio 2005), [N, 1].

    The C classes are the leaves C … 2C - 1 of the complete tree whose node n has the children 2n
    and 2n + 1; p is the product of the sigmoids of ±t on the way, minus to an even child. A row
    x [D] has t = x · weights[n - 1] + bias[n - 1], held within ±40; `inputs` [N, D] and `weights`
    [C - 1, D] may be lists, whose products add up. The int label is [N] or [N, 1].
    """
    inputs, weights, label = _checked("hierarchical_sigmoid", inputs, weights, label)
    classes = weights[0].dims[0] + 1
    steps = np.int64(2) ** np.arange((2 * classes - 1).bit_length() - 1)
    leaf = m.add(label, classes)
    child, parent = m.div(leaf, steps), m.div(leaf, steps * 2)
    inside = m.greater_than(parent, 0)
    scores = _scores(inputs, weights, bias, m.sub(m.maximum(parent, 1), 1))
    scores = straight_through(m.clip(scores, -_HELD, _HELD), scores)
    odd = m.cast(m.sub(child, m.mul(parent, 2)), scores.dtype)
    costs = m.sub(m.softplus(scores), m.mul(odd, scores))
    return reduce_sum(m.where(inside, costs, 0.0), [1], keep_dim=True)


def _checked(who, inputs, weights, label):
    """Inputs and weights as lists that fit, labels as int64 [N, 1]."""
    inputs, weights = (
        [constant(v) for v in (x if isinstance(x, (list, tuple)) else [x])]
        for x in (inputs, weights)
    )
    if len(inputs) != len(weights):
        raise ShapeError(f"{who}: {len(inputs)} inputs for {len(weights)} weights")
    for x, w in zip(inputs, weights, strict=True):
        if x.rank != 2 or w.rank != 2 or x.dims[1] != w.dims[1] or isinstance(w.dims[0], str):
            raise ShapeError(
                f"{who}: takes rows [N, D] and weights [classes, D], not "
                f"{describe(x)} and {describe(w)}"
            )
    rows = {w.dims[0] for w in weights}
    if len(rows) > 1:
        raise ShapeError(f"{who}: the weights have {sorted(rows)} rows")
    label = constant(label)
    if label.dtype.kind not in "iu":
        raise DTypeError(f"{who}: labels are integers, not {describe(label)}")
    if label.rank not in (1, 2) or (label.rank == 2 and label.dims[1] != 1):
        raise ShapeError(f"{who}: labels are [N] or [N, 1], not {describe(label)}")
    label = m.cast(label, np.int64)
    return inputs, weights, unsqueeze(label, 1) if label.rank == 1 else label


def _scores(inputs, weights, bias, rows):
    """x · weights[r] + bias[r] for the rows [N, M] of the weights that each x looks at, [N, M]."""
    total = None
    for x, w in zip(inputs, weights, strict=True):
        product = squeeze(matmul(gather(w, rows), unsqueeze(x, 2)), 2)
        total = product if total is None else m.add(total, product)
    return total if bias is None else m.add(total, gather(reshape(bias, [-1]), rows))
