"""The error that `raise` with several parts raises, the parts of an error, and StopIteration."""


def raised(kind, value=None, traceback=None):
    """`raise kind, value, traceback`: value is an argument, a tuple of them, or the error."""
    while isinstance(kind, tuple) and kind:
        kind = kind[0]
    error = _error(kind, value)
    return error if traceback is None else error.with_traceback(traceback)


def _error(kind, value):
    if isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        return kind
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        name = type(kind).__name__
        raise TypeError(
            f"exceptions must be old-style classes or derived from BaseException, not {name}"
        )
    if isinstance(value, kind):
        return value
    if value is None:
        return kind()
    return kind(*value) if isinstance(value, tuple) else kind(value)


def parts(value):
    """Return the arguments of an error, for `e[0]` and `a, b = e`; any other value as it is."""
    is_error = isinstance(value, BaseException) and not hasattr(value, "__getitem__")
    return value.args if is_error else value


def ending(generator):
    """Yield what a generator yields; a StopIteration inside it ends it."""
    try:
        yield from generator
    except RuntimeError as error:
        if not isinstance(error.__cause__, StopIteration) or generator.gi_frame is not None:
            raise
