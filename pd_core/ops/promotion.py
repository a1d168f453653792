"""Element types of operands: what becomes of numbers and arrays beside a Variable.

Numbers and arrays are weak, as Python's numbers are in NumPy and PyTorch: they take the dtype of
the Variable beside them. Only where they are of a higher kind (bool < integer < float), the
Variable takes theirs: int64 * 0.5 is float32. Two Variables are never converted.
"""

import numpy as np
from numpy.typing import DTypeLike

from ..graph.arrays import as_array, common_dtype, rank_of
from ..graph.errors import DTypeError
from ..graph.inference import element_type
from ..graph.node import apply
from ..graph.variable import Operand, Variable, constant

_NUMBERS = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float32)}
_FLOAT = 2  # the rank of floats


def match_dtypes(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Convert a number or array to the dtype of the Variable beside it, or that to a higher kind.

    DTypeError if the dtype does not hold a number.
    """
    weak_a, weak_b = _is_weak(a), _is_weak(b)
    if (not weak_a and not weak_b) or isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)):
        return a, b
    p, q = _dtype(a), _dtype(b)
    if rank_of(p) != rank_of(q):
        dtype = p if rank_of(p) > rank_of(q) else q
    elif weak_a != weak_b:
        dtype = q if weak_a else p
    elif type(a) in _NUMBERS or type(b) in _NUMBERS:
        dtype = q if type(a) in _NUMBERS else p
    else:
        dtype = common_dtype(p, q) or p
    return as_dtype(a, dtype), as_dtype(b, dtype)


def fractional(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Return the operands of a true division: as of arithmetic, but integers alone as float32."""
    if any(isinstance(x, (str, bytes)) or rank_of(_dtype(x)) == _FLOAT for x in (a, b)):
        return match_dtypes(a, b)
    return as_dtype(a, np.float32), as_dtype(b, np.float32)


def comparable(a: Operand, b: Operand, order: bool = True) -> tuple[Operand, Operand]:
    """Return the operands of a comparison: as of arithmetic, but whole numbers keep their digits.

    An integer is compared with a number or array of floats in float64, as by NumPy; where the
    order counts, bools are compared as bytes.
    """
    if _is_whole_beside_weak_float(a, b) or _is_whole_beside_weak_float(b, a):
        return as_dtype(a, np.float64), as_dtype(b, np.float64)
    a, b = match_dtypes(a, b)
    if not order:
        return a, b
    if isinstance(a, Variable) and isinstance(b, Variable) and a.dtype == b.dtype == np.bool_:
        return as_dtype(a, np.uint8), as_dtype(b, np.uint8)
    return a, b


def as_dtype(x: Operand, dtype: DTypeLike) -> Variable:
    """Return an operand in a dtype: a Variable cast, a number or array if the dtype holds it."""
    if isinstance(x, Variable) and not x.literal:
        return x if x.dtype == dtype else apply("Cast", x, to=element_type(dtype))
    try:
        return constant(x, dtype)
    except DTypeError as error:
        hint = f"\n  hint: cast() the {np.dtype(dtype)} beside it to {_dtype(x)}"
        raise DTypeError(f"{error}{hint}") from None


def _is_whole_beside_weak_float(x, other):
    if not _is_weak(other) or type(x) in _NUMBERS or isinstance(other, (str, bytes)):
        return False
    return rank_of(_dtype(other)) == _FLOAT > rank_of(_dtype(x))


def _is_weak(x):
    """Whether x is a number or an array, which is a leaf where values are at hand."""
    return x.literal if isinstance(x, Variable) else True


def _dtype(x):
    """The dtype that an operand has as a constant of its own."""
    known = _NUMBERS.get(type(x))
    if known is not None:
        return known
    dtype = x.dtype if isinstance(x, (Variable, np.ndarray, np.generic)) else as_array(x).dtype
    return _NUMBERS[float] if dtype == np.float64 and not isinstance(x, Variable) else dtype
