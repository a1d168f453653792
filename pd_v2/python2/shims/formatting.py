"""Formatting of floats, and arrays of one element in place of numbers.

float(), int() and `%` accepted such arrays, which numpy rejects now. str(), `%s` and `{}` of a
float gave 12 digits.
"""

import itertools
import re
import string
import sys

from pd_v2.python2.shims.text import ByteText, as_text, like, printed, shown

_WIDTH = re.compile(r"(.?[<>^])?([1-9]\d*)?")


def convert(kind, value):
    """`kind(value)`, where kind is float, int, str, type or what is bound to these names."""
    if kind is str:
        return value if type(value) is ByteText else printed(value)
    if kind is type:
        return str if type(value) is ByteText else type(value)
    if kind in (float, int) and isinstance(value, str) and "_" in value:
        kind(value.replace("_", "*"))  # raises a ValueError: 1_000 was no number
    return kind(value.reshape(-1)[0] if kind in (float, int) and _is_element(value) else value)


def format_percent(template, values):
    """`template % values`, which is no template unless it is a string."""
    if not isinstance(template, str):
        return template % values
    filled = _fill(template, values)
    return filled if filled.isascii() else like(filled, template, *_parts(values))


def _parts(values):
    """Return the values of a template of `%`."""
    if isinstance(values, dict):
        return values.values()
    return values if isinstance(values, tuple) else (values,)


def _fill(template, values):
    if isinstance(values, tuple):
        return template % tuple(map(_for_text, values))
    if type(values) is dict:
        return template % {key: _for_text(value) for key, value in values.items()}
    if isinstance(values, dict):
        return template % _Named(values)
    return template % _for_text(values)


def format_braces(template, *values, **named):
    """`template.format(...)`"""
    template, values = as_text(template), [*map(_in_braces, values)]
    named = {name: _in_braces(value) for name, value in named.items()}
    try:
        filled = template.format(*values, **named)
    except TypeError:
        filled = _Formatter().vformat(template, values, named)
    return filled if filled.isascii() else like(filled, template, *values, *named.values())


def format_value(value, spec=""):
    """`format(...)`"""
    return _Formatter().format_field(_in_braces(value), as_text(spec))


class _Formatter(string.Formatter):
    """Formats values without a format of their own, such as None and lists, by their text."""

    def __init__(self):
        self._numbers = itertools.count()

    def parse(self, template):
        """Number the fields, also `{.part}` and `{[0]}`, which string.Formatter does not."""
        for text, field, spec, conversion in super().parse(template):
            if field is not None and field[:1] in ("", ".", "["):
                field = f"{next(self._numbers)}{field}"
            yield text, field, spec, conversion

    def format_field(self, value, spec):
        has_format = type(value).__format__ is not object.__format__
        return format(value if has_format else printed(value), spec)


def _for_text(value):
    return _Element(value) if _is_element(value) else _rounded(value)


def _rounded(value):
    if type(value) is float:
        return _Float(value)
    return _Shown(value) if isinstance(value, set | frozenset | type) else value


def _in_braces(value):
    numpy = sys.modules.get("numpy")
    is_scalar = numpy is not None and isinstance(value, numpy.floating)
    return _NumpyFloat(value) if is_scalar else _rounded(value)


class _Shown:
    """A set or a type that is formatted as in Python 2."""

    def __init__(self, value):
        self._value = value

    def __str__(self):
        return printed(self._value)

    def __repr__(self):
        return shown(self._value)

    def __format__(self, spec):
        return format(str(self), spec)

    def __getattr__(self, name):
        return getattr(self._value, name)


class _Float(float):
    """A float that is formatted with 12 digits."""

    __slots__ = ()

    def __str__(self):
        return printed(float(self))

    def __format__(self, spec):
        width = _WIDTH.fullmatch(spec)
        if width is None:
            return float.__format__(self, spec)
        return format(str(self), spec if width[1] or not spec else ">" + spec)


class _NumpyFloat(float):
    """A scalar of numpy, which `{}` formats as a float, and `{!s}` as what it is."""

    def __init__(self, value):
        self._value = value

    def __str__(self):
        return str(self._value)

    def __repr__(self):
        return repr(self._value)

    def __format__(self, spec):
        return format(_Float(self), spec)

    def __getattr__(self, name):
        return getattr(self._value, name)


class _Named:
    """The values of a subclass of dict, which may compute them, by name."""

    def __init__(self, values):
        self.values = values

    def __getitem__(self, name):
        return _for_text(self.values[name])

    def __str__(self):
        return str(self.values)

    def __repr__(self):
        return repr(self.values)


class _Element:
    """An array of one element that formats as a number in %d and %f, and as an array in %s."""

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
