"""Default arguments for functions that build layers."""

import functools
import inspect

from .. import build

__all__ = ["wrap_name_default"]


def wrap_name_default(name_prefix=None, name_param="name"):
    """Return a decorator that fills in a name: `__<prefix>_0__`, `__<prefix>_1__`, …

    `name_param` is the argument that takes the name; the prefix defaults to the function's name.
    As in 2017 every decorated function has a counter of its own.
    """

    def wrap(function):
        prefix, signature = name_prefix or function.__name__, inspect.signature(function)
        counter = object()

        @functools.wraps(function)
        def call(*args, **kwargs):
            arguments = signature.bind_partial(*args, **kwargs).arguments
            if {**arguments, **kwargs}.get(name_param) is None:
                counters = build.current().naming.counters
                kwargs[name_param] = f"__{prefix}_{counters[counter]}__"
                counters[counter] += 1
            return function(*args, **kwargs)

        return call

    return wrap
