"""What a reader is: a function without arguments that returns an iterable of samples."""


def require_reader(who, reader):
    """Raise TypeError unless `reader` can be called."""
    if callable(reader):
        return
    message = f"{who}: a reader is a function that returns samples, got {type(reader).__name__}"
    if hasattr(reader, "__next__"):
        message += "\n  hint: pass the reader itself, not the samples that calling it returns"
    raise TypeError(message)
