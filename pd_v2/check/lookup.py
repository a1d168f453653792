"""Whether pd_v2 has a dotted name of paddle, and which keywords it takes there."""

import functools
import importlib
import inspect
import types

from .. import (
    as_paddle,  # noqa: F401  paddle's modules are those of pd_v2
    dataset,
)

OTHER_API = ("paddle.fluid", "paddle.v2.fluid")
_UNKNOWN = object()  # what is only known when the program runs
_DATA_SETS = {f"{dataset.__name__}.{name}" for name in dataset.__all__ if name != "common"}


def missing(name):
    """The part of a dotted name that pd_v2 lacks, up to the first that is not there; None if it
    has all.
    """
    return _followed(name)[1]


@functools.cache
def unknown_keywords(name, keywords):
    """Those keywords that the function or class of a dotted name does not take."""
    thing, lacking = _followed(name)
    if lacking or thing is _UNKNOWN or not callable(thing):
        return ()
    taken = _keywords_of(thing)
    return () if taken is None else tuple(k for k in keywords if k not in taken)


@functools.cache
def exports(module):
    """The names that `from module import *` gives."""
    thing, lacking = _followed(module)
    if lacking or not isinstance(thing, types.ModuleType):
        return frozenset()
    public = (name for name in vars(thing) if not name.startswith("_"))
    return frozenset(getattr(thing, "__all__", public))


def other_api(name):
    """The API that is not covered which a name belongs to, or None."""
    return next((api for api in OTHER_API if f"{name}.".startswith(f"{api}.")), None)


def data_set(name):
    """The data set whose module a dotted name is, or is in; None of anything else."""
    for part in _prefixes(name):
        thing = _followed(part)[0]
        if isinstance(thing, types.ModuleType) and thing.__name__ in _DATA_SETS:
            return thing.__name__.split(".")[-1]
    return None


def _prefixes(name):
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


@functools.cache
def _followed(name):
    """(what a dotted name is, None), or (None, the part of it that is not there)."""
    thing, instance = None, False
    for part in _prefixes(name):
        word = part.rsplit(".", 1)[-1]
        attribute = word.removesuffix("()")
        found = _member(thing, attribute, part)
        if found is _UNKNOWN:
            known = thing is _UNKNOWN or instance
            return (_UNKNOWN, None) if known else (None, part.removesuffix("()"))
        instance = word.endswith("()")
        thing = found if not instance or inspect.isclass(found) else _UNKNOWN
    return thing, None


def _member(thing, attribute, dotted):
    if thing is _UNKNOWN:
        return _UNKNOWN
    if thing is not None and hasattr(thing, attribute):
        return getattr(thing, attribute)
    if thing is None or isinstance(thing, types.ModuleType):
        try:
            return importlib.import_module(dotted.removesuffix("()"))
        except ImportError:
            return _UNKNOWN
    return _UNKNOWN


def _keywords_of(thing):
    """The keywords that something takes, None if it takes any."""
    functions = [c.__init__ for c in thing.__mro__] if inspect.isclass(thing) else [thing]
    taken = set()
    for function in functions:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return None
        taken.update(
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        )
        taken.update(getattr(function, "earlier_keywords", ()))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return taken
    return None
