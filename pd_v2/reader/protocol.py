"""The reader protocol: a function without arguments that returns an iterable of samples."""

import operator

from pd_core.training.positions import reader_name

__all__ = ["reader_name", "require_reader", "whole_number", "wrapping"]


def require_reader(who, reader):
    """Raise TypeError unless `reader` is callable."""
    if callable(reader):
        return
    message = f"{who}: a reader is a function that returns samples, got {type(reader).__name__}"
    if hasattr(reader, "__next__"):
        message += "\n  hint: pass the reader itself, not the samples that calling it returns"
    raise TypeError(message)


def wrapping(reader, read):
    """Return `read`, marked as derived from `reader`, whose name it takes in errors."""
    read.__wrapped__ = reader
    return read


def whole_number(what, value):
    """Return a number of samples as an int; 1e4 is one, too. TypeError names `what` it is of."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {value!r}") from None
