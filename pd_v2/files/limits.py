"""Sizes beyond which a file is refused, each adjustable by an environment variable."""

import os


def limit(variable, default):
    """Return a number of bytes: the value of an environment variable, or the default."""
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.isdecimal():
        raise ValueError(f"{variable} is a number of bytes, not {text!r}")
    return int(text)


def raise_hint(variable):
    """Return the hint of an error message that a limit can be raised."""
    return f"\n  hint: set the environment variable {variable} to a larger number of bytes"
