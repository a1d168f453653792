"""Sizes beyond which a file is refused, each adjustable by an environment variable."""

import os


def limit(variable, default):
    """A number of bytes: that of an environment variable, or the default."""
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.isdecimal():
        raise ValueError(f"{variable} is a number of bytes, not {text!r}")
    return int(text)


def raise_hint(variable):
    """The hint of an error message that says how to raise a limit."""
    return f"\n  hint: set the environment variable {variable} to a larger number of bytes"
