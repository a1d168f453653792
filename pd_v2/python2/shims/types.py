"""The string types of Python 2, to be called and used in isinstance()."""

import sys

from pd_v2.python2.shims.text import Binary, as_bytes, decode, printed


def is_instance(value, kinds):
    """`isinstance(...)`: numpy.int64 was a subclass of int."""
    return isinstance(value, kinds) or (is_numpy_int(value) and isinstance(0, kinds))


def is_numpy_int(value):
    """Return whether a value is a numpy.int64, which was a subclass of int."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.int64


class _Kind(type):
    """Metaclass of a name for one or several types: instances of these are instances of it."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.kinds)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, cls.kinds)

    def __eq__(cls, other):
        return other is cls or other is cls.kinds[0]

    def __hash__(cls):
        return hash(cls.kinds[0])


class basestring(metaclass=_Kind):
    """Any string."""

    kinds = (str, bytes)


class unicode(metaclass=_Kind):
    """Text, which str is too: `unicode(value)`, `unicode(string, encoding, errors)`."""

    kinds = (str,)

    def __new__(cls, value="", encoding=None, errors="strict"):
        if encoding is not None or errors != "strict":
            return decode(value, encoding or "ascii", errors)
        to_unicode = getattr(value, "__unicode__", None)
        return to_unicode() if to_unicode else printed(value)


class bytes_of(metaclass=_Kind):
    """`bytes`, which was str, so that text is an instance of it."""

    kinds = (bytes, str)

    def __new__(cls, value=""):
        return Binary(as_bytes(value if isinstance(value, str | bytes) else str(value)))


class bytearray_of(metaclass=_Kind):
    """`bytearray`, which took a string."""

    kinds = (bytearray,)

    def __new__(cls, value=b"", *encoding):
        return bytearray(value, *encoding) if encoding else bytearray(as_bytes(value))
