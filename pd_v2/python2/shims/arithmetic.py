"""Python 2's arithmetic: floor division, round() half away from zero, a fixed hash()."""

import builtins
import math
import operator
import sys
from decimal import ROUND_HALF_UP, Decimal, localcontext

from pd_v2.python2.shims.text import as_bytes

_WORD = 0xFFFF_FFFF_FFFF_FFFF


def divide(a, b):
    """`a / b`, without `from __future__ import division`."""
    if _is_integer(a) and _is_integer(b):
        return a // b
    method = getattr(type(a), "__div__", None)
    quotient = NotImplemented if method is None else method(a, b)
    return a / b if quotient is NotImplemented else quotient


def divide_in_place(a, b):
    """Return the value that `a /= b` assigns to a."""
    are_integers = _is_integer(a) and _is_integer(b)
    return (operator.ifloordiv if are_integers else operator.itruediv)(a, b)


def _is_integer(value):
    """Return whether a value is an int, or a numpy array or scalar of integers."""
    if isinstance(value, int):
        return True
    numpy = sys.modules.get("numpy")
    is_array = numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)
    return is_array and value.dtype.kind in "iub"


def coerce(a, b):
    """`coerce(...)`: both numbers in the wider of their types."""
    kinds = [int, float, complex]
    if not all(isinstance(x, tuple(kinds)) for x in (a, b)):
        raise TypeError("number coercion failed")
    kind = max((next(k for k in kinds if isinstance(x, k)) for x in (a, b)), key=kinds.index)
    return kind(a), kind(b)


def round_away(number, ndigits=0):
    """`round(...)`: rounds half away from zero, to a float."""
    if not math.isfinite(number):
        return float(number)
    exact, unit = Decimal(float(number)), Decimal(1).scaleb(-ndigits)
    with localcontext(prec=800):  # enough for all digits of any float
        return float((exact / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit)


def octal(number):
    """`oct(...)`: written as 0755."""
    return builtins.oct(number).replace("0o", "0") if number else "0"


def hash_fixed(value):
    """`hash(...)`: the same in every process for strings, numbers and tuples of them."""
    if isinstance(value, str | bytes):
        return _hash_of_bytes(as_bytes(value))
    if type(value) is tuple:
        return _hash_of_tuple(value)
    if type(value) is int:
        return _hash_of_int(value)
    if type(value) is float:
        return _hash_of_float(value)
    return builtins.hash(value)


def _hash_of_bytes(data):
    if not data:
        return 0
    result = data[0] << 7
    for byte in bytes(data):
        result = (1000003 * result & _WORD) ^ byte
    return _signed(result ^ len(data))


def _hash_of_int(number):
    """Return an int of 64 bits itself; of a longer one, the sum of its digits, rotated."""
    if -(1 << 63) <= number < 1 << 63:
        return _signed(number)
    result, size = 0, abs(number)
    for place in range((size.bit_length() - 1) // 30, -1, -1):
        digit = size >> 30 * place & (1 << 30) - 1
        result = (result << 30 | result >> 34) + digit & _WORD
        result += result < digit
    return _signed(-result if number < 0 else result)


def _hash_of_float(number):
    """Return the hash of an equal int, or of the exponent and two parts of the mantissa."""
    if not math.isfinite(number):
        return 0 if math.isnan(number) else int(math.copysign(314159, number))
    if number.is_integer():
        return _hash_of_int(int(number))
    mantissa, exponent = math.frexp(number)
    high = math.trunc(mantissa * 2.0**31)
    low = math.trunc((mantissa * 2.0**31 - high) * 2.0**31)
    return _signed(high + low + (exponent << 15))


def _hash_of_tuple(values):
    result, factor = 0x345678, 1000003
    for remaining in range(len(values) - 1, -1, -1):
        item = hash_fixed(values[len(values) - 1 - remaining]) & _WORD
        result = (result ^ item) * factor & _WORD
        factor += 82520 + 2 * remaining & _WORD
    return _signed(result + 97531)


def _signed(word):
    word &= _WORD
    number = word - (1 << 64) if word >> 63 else word
    return -2 if number == -1 else number
