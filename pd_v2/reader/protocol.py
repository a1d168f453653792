"""The reader protocol: a function without arguments that returns an iterable of samples."""

import functools
import inspect
import os

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


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


def reader_name(reader):
    """Return the name of a reader for errors: its original function, with file and line."""
    reader = inspect.unwrap(reader)
    while isinstance(reader, functools.partial):
        reader = inspect.unwrap(reader.func)
    name = getattr(reader, "__qualname__", type(reader).__name__)
    code = getattr(reader, "__code__", None)
    if code is None:
        return name
    if code.co_filename.startswith(_PACKAGE):
        return name.partition(".")[0]
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"
