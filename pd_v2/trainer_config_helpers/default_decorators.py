"""Defaults for the arguments of functions that make layers."""

import functools
import inspect

from .. import build

__all__ = ["wrap_name_default"]


def wrap_name_default(name_prefix=None, name_param="name"):
    """A decorator: without a name the function gets `__<prefix>_0__`, `__<prefix>_1__`, …

    `name_param` is the argument that is the name, the prefix by default the function's own name.
    As in 2017 every decorated function counts for itself.
    """

    def wrap(function):
        prefix, signature = name_prefix or function.__name__, inspect.signature(function)
        counter = object()

        @functools.wraps(function)
        def call(*args, **kwargs):
            given = signature.bind_partial(*args, **kwargs).arguments
            if {**given, **kwargs}.get(name_param) is None:
                counters = build.current().naming.counters
                kwargs[name_param] = f"__{prefix}_{counters[counter]}__"
                counters[counter] += 1
            return function(*args, **kwargs)

        return call

    return wrap
