"""Lookup of dotted names of paddle and their keywords in pd_v2."""

import functools
import importlib
import inspect
import types

from .. import (
    as_paddle,  # noqa: F401  makes `paddle` importable
    dataset,
)

OTHER_API = ("paddle.fluid", "paddle.v2.fluid")
_UNKNOWN = object()  # a value that is only known at run time
_DATASETS = {f"{dataset.__name__}.{name}" for name in dataset.__all__ if name != "common"}


def missing(name):
    """Return the shortest prefix of a dotted name that pd_v2 lacks, or None."""
    return _resolve(name)[1]


@functools.cache
def unknown_keywords(name, keywords):
    """Return the keywords that the function or class of a dotted name does not accept."""
    value, lacking = _resolve(name)
    if lacking or value is _UNKNOWN or not callable(value):
        return ()
    accepted = _keywords_of(value)
    return () if accepted is None else tuple(k for k in keywords if k not in accepted)


@functools.cache
def exports(module):
    """Return the names that `from module import *` binds."""
    value, lacking = _resolve(module)
    if lacking or not isinstance(value, types.ModuleType):
        return frozenset()
    public = (name for name in vars(value) if not name.startswith("_"))
    return frozenset(getattr(value, "__all__", public))


def other_api(name):
    """Return the API of a name that pd_v2 does not cover, or None."""
    return next((api for api in OTHER_API if f"{name}.".startswith(f"{api}.")), None)


def data_set(name):
    """Return the dataset whose module a dotted name is, or is in, or None."""
    for prefix in _prefixes(name):
        value = _resolve(prefix)[0]
        if isinstance(value, types.ModuleType) and value.__name__ in _DATASETS:
            return value.__name__.split(".")[-1]
    return None


def _prefixes(name):
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


@functools.cache
def _resolve(name):
    """Return (value of a dotted name, None), or (None, the prefix of it that is missing).

    A call of a class resolves to the class, for its methods; other calls have unknown values.
    """
    value, is_instance = None, False
    for prefix in _prefixes(name):
        word = prefix.rsplit(".", 1)[-1]
        member = _member(value, word.removesuffix("()"), prefix)
        if member is _UNKNOWN:
            # attributes that an instance gets at run time are not missing
            is_dynamic = value is _UNKNOWN or is_instance
            return (_UNKNOWN, None) if is_dynamic else (None, prefix.removesuffix("()"))
        is_instance = word.endswith("()")
        value = member if not is_instance or inspect.isclass(member) else _UNKNOWN
    return value, None


def _member(value, attribute, dotted):
    if value is _UNKNOWN:
        return _UNKNOWN
    if value is not None and hasattr(value, attribute):
        return getattr(value, attribute)
    if value is None or isinstance(value, types.ModuleType):
        try:
            return importlib.import_module(dotted.removesuffix("()"))
        except ImportError:
            return _UNKNOWN
    return _UNKNOWN


def _keywords_of(value):
    """Return the keywords that a function or class accepts; None if it accepts any."""
    functions = [c.__init__ for c in value.__mro__] if inspect.isclass(value) else [value]
    accepted = set()
    for function in functions:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return None
        accepted.update(
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        )
        accepted.update(getattr(function, "deprecated_keywords", ()))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return accepted
    return None
