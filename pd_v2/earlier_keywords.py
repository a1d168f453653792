"""Keywords of earlier releases, accepted beside those of a function's signature."""

import functools

__all__ = ["earlier_keywords"]


def earlier_keywords(**earlier):
    """A decorator: the function takes the given keywords too, which its signature does not show.

    Each is the name of the keyword that took its place, or a function from its value to a dict of
    keywords of today, empty where it has no effect.
    """

    def wrap(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if not earlier.keys().isdisjoint(kwargs):
                kwargs = _translated(function, earlier, kwargs)
            return function(*args, **kwargs)

        call.earlier_keywords = {**getattr(function, "earlier_keywords", {}), **earlier}
        return call

    return wrap


def _translated(function, earlier, given):
    keywords = {name: value for name, value in given.items() if name not in earlier}
    for name in earlier.keys() & given.keys():
        later = earlier[name]
        values = {later: given[name]} if isinstance(later, str) else later(given[name])
        for today, value in values.items():
            if today in keywords:
                raise TypeError(f"{function.__name__}(): {name!r} and {today!r} are the same")
            keywords[today] = value
    return keywords
