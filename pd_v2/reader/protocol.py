"""What a reader is: a function without arguments that returns an iterable of samples."""

import functools
import inspect
import os

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def require_reader(who, reader):
    """Raise TypeError unless `reader` can be called."""
    if callable(reader):
        return
    message = f"{who}: a reader is a function that returns samples, got {type(reader).__name__}"
    if hasattr(reader, "__next__"):
        message += "\n  hint: pass the reader itself, not the samples that calling it returns"
    raise TypeError(message)


def wrapping(reader, read):
    """The reader `read`, which is made from `reader` alone and called like it in errors."""
    read.__wrapped__ = reader
    return read


def reader_name(reader):
    """The name of a reader in errors: the function that it was made from, with file and line."""
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
