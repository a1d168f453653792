"""Numbers of Python 2: `/` of integers floors, round() is away from zero, hash() is fixed."""

import builtins
import math
import operator
import sys
from decimal import ROUND_HALF_UP, Decimal, localcontext

from pd_v2.python2.shims.text import as_bytes

_WORD = 0xFFFF_FFFF_FFFF_FFFF


def divide(a, b):
    """`a / b`, where no `from __future__ import division` was."""
    return a // b if _is_integer(a) and _is_integer(b) else a / b


def divide_in_place(a, b):
    """What `a /= b` assigns to a."""
    whole = _is_integer(a) and _is_integer(b)
    return (operator.ifloordiv if whole else operator.itruediv)(a, b)


def _is_integer(value):
    """An int, or an array of integers or one element of it: numpy's division floored as well."""
    if isinstance(value, int):
        return True
    numpy = sys.modules.get("numpy")
    is_array = numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)
    return is_array and value.dtype.kind in "iub"


def round_away(number, ndigits=0):
    """`round(...)`: halves away from zero, and the result is a float."""
    if not math.isfinite(number):
        return float(number)
    exact, unit = Decimal(float(number)), Decimal(1).scaleb(-ndigits)
    with localcontext(prec=800):  # enough for all digits of any float
        return float((exact / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit)


def octal(number):
    """`oct(...)`: 0755."""
    return builtins.oct(number).replace("0o", "0") if number else "0"


def hash_fixed(value):
    """`hash(...)`: the same in every process for strings, numbers and tuples of them."""
    if isinstance(value, str | bytes):
        return _hash_of_bytes(as_bytes(value))
    if type(value) is tuple:
        return _hash_of_tuple(value)
    return builtins.hash(value)


def _hash_of_bytes(data):
    if not data:
        return 0
    result = data[0] << 7
    for byte in bytes(data):
        result = (1000003 * result & _WORD) ^ byte
    return _signed(result ^ len(data))


def _hash_of_tuple(values):
    result, factor = 0x345678, 1000003
    for left in range(len(values) - 1, -1, -1):
        item = hash_fixed(values[len(values) - 1 - left]) & _WORD
        result = (result ^ item) * factor & _WORD
        factor += 82520 + 2 * left & _WORD
    return _signed(result + 97531)


def _signed(word):
    word &= _WORD
    number = word - (1 << 64) if word >> 63 else word
    return -2 if number == -1 else number
