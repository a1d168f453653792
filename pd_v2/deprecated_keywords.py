"""Keyword arguments of earlier releases, accepted besides those of the signature."""

import functools

__all__ = ["deprecated_keywords"]


def deprecated_keywords(**earlier):
    """Return a decorator: the function also takes these keywords, which its signature omits.

    Each is mapped to the keyword that replaces it, or to a function that turns its value into a
    dict of current keywords, empty if it has no effect.
    """

    def wrap(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if not earlier.keys().isdisjoint(kwargs):
                kwargs = _translated(function, earlier, kwargs)
            return function(*args, **kwargs)

        call.deprecated_keywords = {**getattr(function, "deprecated_keywords", {}), **earlier}
        return call

    return wrap


def _translated(function, earlier, kwargs):
    keywords = {name: value for name, value in kwargs.items() if name not in earlier}
    for name in earlier.keys() & kwargs.keys():
        target, value = earlier[name], kwargs[name]
        for current, v in ({target: value} if isinstance(target, str) else target(value)).items():
            if current in keywords:
                raise TypeError(f"{function.__name__}(): {name!r} and {current!r} are the same")
            keywords[current] = v
    return keywords
