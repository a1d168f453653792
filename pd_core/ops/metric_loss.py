"""Losses of distances and orders, for embeddings and rankings: one number a row."""

from ..graph.checks import differ
from ..graph.errors import GraphError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, describe
from . import math as m
from .activation import relu
from .loss import pair
from .reduce import reduce_sum


@op
def contrastive_loss(x: Operand, y: Operand, same: Operand, margin: float = 1.0) -> Variable:
    """Contrastive loss of pairs [..., D] at a distance d: [..., 1] (Hadsell et al. 2006).

    It is d^2 / 2 where `same` [..., 1] is 1, and max(0, margin - d)^2 / 2 where it is 0.

    Args:
        x: floats [..., D].
        y: floats [..., D].
        same: numbers [..., 1], 1 or 0.

    Returns:
        [..., 1].

    Raises:
        ShapeError: the shapes differ.
    """
    a, b = _pair(x, y)
    squares, together = pair(reduce_sum(m.square(a - b), [-1], keep_dim=True), same)
    apart = relu(margin - m.sqrt(squares + 1e-12))  # a distance of 0 has a gradient too
    return 0.5 * (together * squares + (1.0 - together) * m.square(apart))


@op
def triplet_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
) -> Variable:
    """max(0, |anchor - positive| - |anchor - negative| + margin) of rows [..., D]: [..., 1].

    The p-norm is taken of the difference + epsilon, as by PyTorch (Balntas et al. 2016).

    Args:
        anchor: floats [..., D].
        positive: floats [..., D].
        negative: floats [..., D].
        p: the order of the norm, 1 or more.

    Returns:
        [..., 1].

    Raises:
        GraphError: p is below 1.
        ShapeError: the shapes differ.
    """
    if p < 1:
        raise GraphError(f"the order of a norm is 1 or more, not {p}")
    near, far = (_distance(anchor, other, p, epsilon) for other in (positive, negative))
    return relu(near - far + margin)


def _distance(x, y, p, epsilon):
    x, y = _pair(x, y)
    difference = x - y + epsilon
    if p == 2:
        return m.sqrt(reduce_sum(m.square(difference), [-1], keep_dim=True))
    if p == 1:
        return reduce_sum(abs(difference), [-1], keep_dim=True)
    return reduce_sum(abs(difference) ** float(p), [-1], keep_dim=True) ** (1.0 / p)


@op
def cosine_embedding_loss(x: Operand, y: Operand, label: Operand, margin: float = 0.0) -> Variable:
    """Loss of the cosine of pairs [..., D]: [..., 1], PyTorch's.

    It is 1 - cos where the label [..., 1] is 1, and max(0, cos - margin) where it is -1.

    Args:
        x: floats [..., D].
        y: floats [..., D].
        label: numbers [..., 1], 1 or -1.

    Returns:
        [..., 1].

    Raises:
        ShapeError: the shapes differ.
    """
    a, b = _pair(x, y)
    product, *squares = (
        reduce_sum(v, [-1], keep_dim=True) for v in (a * b, m.square(a), m.square(b))
    )
    cosine = product / m.sqrt((squares[0] + 1e-12) * (squares[1] + 1e-12))
    cosine, label = pair(cosine, label)
    return m.where(label > 0.0, 1.0 - cosine, relu(cosine - margin))


@op
def margin_ranking_loss(x: Operand, y: Operand, label: Operand, margin: float = 0.0) -> Variable:
    """max(0, margin - label (x - y)), elementwise: x is to be above y where the label is 1,
    below where it is -1.

    Args:
        x: floats of any shape.
        y: floats in this shape.
        label: numbers in this shape, 1 or -1.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: the shapes differ.
    """
    a, b = _pair(x, y)
    difference, label = pair(a - b, label)
    return relu(margin - label * difference)


def _pair(x, y):
    """Return two Variables of the same shape."""
    x, y = pair(x, y)
    if differ(x, y):
        raise ShapeError(f"{describe(x)} beside {describe(y)}")
    return x, y
