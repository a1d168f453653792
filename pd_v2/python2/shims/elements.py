"""Arrays of one element as numbers: float(), int() and `%` took them, numpy refuses today."""

import sys


def number(kind, value):
    """`float(value)`, `int(value)`, or whatever else goes by that name."""
    return kind(value.reshape(-1)[0] if kind in (float, int) and _is_element(value) else value)


def fill(template, values):
    """`template % values` for a string as template."""
    if isinstance(values, tuple):
        return template % tuple(_Element(v) if _is_element(v) else v for v in values)
    return template % (_Element(values) if _is_element(values) else values)


class _Element:
    """An array that is a number where a format wants one, and itself where it wants text."""

    def __init__(self, array):
        self.array = array

    def __str__(self):
        return str(self.array)

    def __repr__(self):
        return repr(self.array)

    def __float__(self):
        return float(self.array.reshape(-1)[0])

    def __int__(self):
        return int(self.array.reshape(-1)[0])


def _is_element(value):
    numpy = sys.modules.get("numpy")
    return (
        numpy is not None
        and isinstance(value, numpy.ndarray)
        and value.size == 1
        and value.ndim > 0
        and value.dtype.kind in "biuf"
    )
