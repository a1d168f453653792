"""The reader protocol: a function without arguments that returns an iterable of samples."""

from pd_core.training.positions import reader_name

__all__ = ["reader_name", "require_reader", "wrapping"]


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
