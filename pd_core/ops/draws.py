"""Random integers, classes, orders and waiting times, made of the uniform draws of `random`."""

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import axis_of, floats, whole
from ..graph.errors import ShapeError
from ..graph.node import refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .copies import move_axis
from .gather import one_hot
from .mode import straight_through
from .order import top_k
from .random import uniform_random
from .reduce import arg_max, cum_sum, reduce_sum, softmax
from .shape import reshape, shape_of, size_of, slice, unsqueeze
from .sizes import TargetShape, shape_operand, whole_number

_NUMBERS = 2**24  # that a uniform draw can be


@op
def randint(shape: TargetShape, low: int | Variable, high: int | Variable) -> Variable:
    """Random integers of [low, high), int64, at most 2^24 of them, drawn anew in every evaluation.

    `shape` is a list of sizes, some of which may be Variables, or an integer Variable. Of bounds
    that only runs know nothing checks that there is an integer between them.

    Args:
        shape: sizes, Variables among them, or an integer Variable.
        low: an integer, or an integer Variable of one element.
        high: the same.

    Returns:
        Int64, of this shape.

    Raises:
        DTypeError: a bound is no integer.
        ShapeError: a size is negative, or a bound has several elements.
        ValueError: there is no integer from low to high, or more than 2^24.
    """
    first, end = whole_number(low, "low"), whole_number(high, "high")
    if first.value is not None and end.value is not None:
        least, most = int(first.value.item()), int(end.value.item())
        if not 0 < most - least <= _NUMBERS:
            raise ValueError(f"randint: {least} … {most} are not 1 to {_NUMBERS} integers")
        return m.cast(uniform_random(shape, 0.0, most - least), np.int64) + least
    number = end - first
    drawn = m.cast(uniform_random(shape) * m.cast(number, np.float32), np.int64)
    # a product of float32 may be rounded up to the number itself
    return m.minimum(drawn, number - 1) + first


@op
def exponential_random(
    shape: TargetShape, scale: float = 1.0, dtype: DTypeLike = "float32"
) -> Variable:
    """Exponential random numbers of the mean `scale`, drawn anew in every evaluation.

    `shape` is a list of sizes, some of which may be Variables, or an int64 Variable.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of this shape and dtype.

    Raises:
        ShapeError: a size is negative.
    """
    return m.cast(m.log(1.0 - uniform_random(shape)) * -float(scale), dtype)


@op
def categorical(logits: Operand) -> Variable:
    """Draw a class from each distribution softmax(logits) [..., C]: int64 [...].

    Computed as the largest of the logits plus Gumbel noise (Gumbel 1954); -inf is never drawn.

    Args:
        logits: floats [..., C].

    Returns:
        Int64 [...].

    Raises:
        DTypeError: the logits are no floats.
        ShapeError: they have no axis.
    """
    logits = _floats(logits)
    return arg_max(logits + _gumbel(logits), -1)


@op
def gumbel_softmax(
    logits: Operand, tau: float = 1.0, *, hard: bool = False, axis: int = -1
) -> Variable:
    """Draw from softmax(logits) along an axis, relaxed to have a gradient (Jang et al. 2017).

    It is softmax((logits + Gumbel noise) / tau), the nearer to one class the smaller tau is. With
    `hard` the value is one-hot, and the gradient that of the relaxed one.

    Args:
        logits: floats of any shape.
        tau: the temperature, above 0.

    Returns:
        Of the shape and dtype of the logits.

    Raises:
        DTypeError: the logits are no floats.
        ShapeError: they have no such axis.
        ValueError: tau is not above 0.
    """
    x: Variable = _floats(logits)
    axis = axis_of(x, axis)
    if not tau > 0:
        raise ValueError(f"gumbel_softmax: tau is above 0, not {tau}")
    y = softmax((x + _gumbel(x)) * (1.0 / tau), axis)
    if not hard:
        return y
    classes = x.dims[axis]
    chosen = one_hot(arg_max(y, axis), classes if isinstance(classes, int) else size_of(y, axis))
    chosen = m.cast(move_axis(chosen, -1, axis), y.dtype)
    return straight_through(refined(chosen, y.dims), y)


@op
def multinomial(probability: Operand, count: int | Variable, *, replacement: bool) -> Variable:
    """Draw `count` classes from each distribution [..., C]: int64 [..., count].

    Rows hold probabilities or other weights, not negative, of any positive sum. Without
    replacement the classes of a row differ, in the order in which they are drawn: each is drawn
    from those that are left (Efraimidis & Spirakis 2006). There must be `count` of positive weight.

    Args:
        probability: floats [..., C].
        count: an integer, or an integer Variable of one element.

    Returns:
        Int64 [..., count].

    Raises:
        DTypeError: the weights are no floats, or the count is no integer.
        ShapeError: they have no axis, or too few classes for different ones.
        ValueError: the count is below 1.
    """
    weight, number = _floats(probability), whole_number(count, "the count")
    classes, known = weight.dims[-1], None if number.value is None else int(number.value.item())
    if known is not None and known < 1:
        raise ValueError(f"multinomial: draws 1 class or more, not {known}")
    if not replacement:
        if known is not None and isinstance(classes, int) and known > classes:
            raise ShapeError(f"{known} different classes of {describe(weight)}")
        return top_k(m.log(weight) + _gumbel(weight), number)[1]
    sums = cum_sum(weight, weight.rank - 1)
    lead = [d if isinstance(d, int) else size_of(weight, a) for a, d in enumerate(weight.dims[:-1])]
    u = uniform_random(shape_operand([*lead, number]), dtype=weight.dtype)
    total = slice(sums, [-1], [np.iinfo(np.int64).max], [-1])
    below = unsqueeze(sums, -2) <= unsqueeze(u * total, -1)
    return reduce_sum(m.cast(below, np.int64), [-1])


@op
def permutation(count: Operand) -> Variable:
    """Draw a random order of 0 … count-1, int64 [count]; count may be an int64 Variable.

    Sorts uniform numbers of 24 bits: beyond some thousand elements a few of them are equal, and
    stay in order.

    Args:
        count: an integer, or an int64 Variable.

    Returns:
        Int64 [count].

    Raises:
        DTypeError: the count is no integer.
        ShapeError: the count is negative, or no scalar.
    """
    number = whole(count)
    if number.value is None:
        size = reshape(number, [1])
        return top_k(uniform_random(size), size)[1]
    if number.value.size != 1:
        raise ShapeError(f"the count is one number, not {describe(number)}")
    known = int(number.value.item())
    if known < 0:
        raise ShapeError(f"a size is not negative, {known}")
    return top_k(uniform_random([known]), known)[1]


def _gumbel(x):
    """Draw Gumbel noise in the shape of x, -ln(-ln u)."""
    wide = x.dtype if x.dtype.itemsize > 2 else np.float32  # in 16 bits some draws would be 1
    u = uniform_random(list(x.dims) if x.is_static else shape_of(x), dtype=wide)
    return refined(m.cast(-m.log(-m.log(u)), x.dtype), x.dims)


def _floats(x):
    x = constant(x)
    if not x.rank:
        raise ShapeError(f"takes distributions [..., C], not {describe(x)}")
    return floats(x)
