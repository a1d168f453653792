"""Products of matrices."""

import numpy as np

from ..graph.checks import axis_of, numbers
from ..graph.errors import ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from .gather import gather
from .math import cast
from .promotion import match_dtypes
from .reduce import reduce_sum
from .shape import unsqueeze


@op
def matmul(a: Operand, b: Operand) -> Variable:
    """Matrix product [..., n, k] x [..., k, m] -> [..., n, m]; leading axes broadcast.

    Integers keep their dtype and wrap around, as those of `*` and `+`.

    Args:
        a: numbers [..., n, k], or a vector [k].
        b: numbers [..., k, m], or a vector [k].

    Raises:
        DTypeError: an operand is bool or text, or the dtypes differ.
        ShapeError: the inner sizes differ, or the others do not broadcast.
    """
    a, b = (constant(v) for v in match_dtypes(a, b))
    if a.dtype == b.dtype and a.dtype.kind in "iu" and a.dtype.itemsize < 4:  # ONNX has none
        return cast(apply("MatMul", cast(a, np.int32), cast(b, np.int32)), a.dtype)
    return apply("MatMul", a, b)


@op
def det(x: Operand) -> Variable:
    """Determinants of the matrices [..., n, n].

    Args:
        x: floats [..., n, n].

    Returns:
        [...], of the dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: the matrices are not square.
    """
    return apply("Det", x)


@op
def cross(a: Operand, b: Operand, axis: int = -1) -> Variable:
    """Cross product of vectors of 3 elements along an axis, broadcast.

    Args:
        a: numbers [..., 3].
        b: numbers [..., 3] of the same dtype and rank.
        axis: the axis of the vectors.

    Returns:
        [..., 3], of the dtype of a.

    Raises:
        DTypeError: an operand is bool or text, or the dtypes differ.
        ShapeError: the axis has not 3 elements, or the operands do not broadcast.
    """
    a, b = (numbers(v) for v in match_dtypes(a, b))
    for v in (a, b):
        if v.dims[axis_of(v, axis)] != 3:
            raise ShapeError(f"takes vectors of 3 elements along axis {axis}, not {describe(v)}")
    (a1, a2), (b1, b2) = ([gather(v, k, axis) for k in ([1, 2, 0], [2, 0, 1])] for v in (a, b))
    return a1 * b2 - a2 * b1


@op
def einsum(equation: str, *inputs: Operand) -> Variable:
    """Sum of products in Einstein's notation: `"ij,jk->ik"` is the matrix product.

    The axes that `...` stands for are broadcast, as those of `+`, and summed if `->` is not
    followed by any.

    Args:
        equation: terms of letters with commas between, and the result behind `->`.
        inputs: Variables or arrays, one for each term.

    Raises:
        ShapeError: an operand does not fit its term, sizes of one letter differ, or it is no
            equation.
    """
    variables = [constant(x) for x in inputs]
    _check_equation(equation, variables)
    left, arrow, result = equation.replace(" ", "").partition("->")
    variables, axes = _of_one_ellipsis(equation, variables)
    if not (axes and arrow and "..." in left and "..." not in result):
        return apply("Einsum", *variables, equation=equation)
    every = apply("Einsum", *variables, equation=f"{left}->...{result}")
    return reduce_sum(every, list(range(axes)))


def _of_one_ellipsis(equation, variables):
    """Give the operands as many axes at their `...` as the one with the most, in ONNX the same.

    Returns:
        The operands, and this number of axes.
    """
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(terms) != len(variables):
        return variables, 0  # ONNX tells another number of terms
    hidden = [
        x.rank - len(t) + 3 if "..." in t else 0 for t, x in zip(terms, variables, strict=True)
    ]
    most = max(hidden)
    places = [
        range(t.find("..."), t.find("...") + most - n) for t, n in zip(terms, hidden, strict=True)
    ]
    wide = [
        unsqueeze(x, list(new)) if "..." in t and 0 <= n < most else x
        for x, t, n, new in zip(variables, terms, hidden, places, strict=True)
    ]
    return wide, most


def _check_equation(equation, variables):
    """Refuse what ONNX's inference accepts, or does not come back from."""
    text = equation.replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    for term in (*terms, result):
        letters = term.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ShapeError(
                f"{equation!r} is no equation: {term!r} has other signs than letters and one ..."
            )
    repeated = [letter for letter in result if letter.isalpha() and result.count(letter) > 1]
    if arrow and repeated:
        raise ShapeError(f"{equation!r} has {repeated[0]!r} twice in its result")
    sizes: dict[str, tuple[int, Variable]] = {}
    for term, x in zip(terms, variables, strict=False):  # ONNX tells another number of terms
        before, dots, after = term.partition("...")
        if len(before) + len(after) > x.rank or (not dots and len(before) != x.rank):
            continue  # ONNX tells another rank
        dims = [*x.dims[: len(before)], *x.dims[x.rank - len(after) :]]
        for letter, size in zip(before + after, dims, strict=True):
            if not isinstance(size, int) or size == 1:
                continue  # 1 is broadcast
            known, first = sizes.setdefault(letter, (size, x))
            if size != known:
                raise ShapeError(
                    f"{equation!r}: {letter!r} is {known} in {describe(first)}, and {size} in "
                    f"{describe(x)}"
                )
