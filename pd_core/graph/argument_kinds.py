"""Arguments of numbers, integers, flags and text, checked by the annotations of a function.

What is of another kind, such as an axis of 1.5, is a TypeError that names the argument; scalars and
arrays of numpy become numbers of Python and lists of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, unwrap
from numbers import Real
from operator import index
from sys import maxsize
from typing import Any

import numpy as np

_Arguments = tuple[Sequence[Any], Mapping[str, Any]]


def _number(value: Any) -> float:
    is_scalar = isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biuf"
    if not is_scalar and not isinstance(value, (Real, np.bool_)):
        raise TypeError
    return value.item() if isinstance(value, (np.ndarray, np.generic)) else value


def _integers(value: Any) -> Sequence[int]:
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError
    if not isinstance(value, np.ndarray) and all(type(n) is int for n in value):
        return value
    return [index(n) for n in value]


def _integer_or_several(value: Any) -> int | Sequence[int]:
    try:
        return index(value)
    except TypeError:
        return _integers(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, (int, np.bool_, np.integer)):
        raise TypeError
    return bool(value)


def _refuse(value: Any) -> Any:
    raise TypeError


# What an annotation means: the class that most arguments are of, what becomes of others (a
# TypeError of those that cannot be taken), and its words.
_KINDS: dict[Any, tuple[type | None, Callable[[Any], Any], str]] = {
    int: (int, index, "an integer"),
    float: (float, _number, "a number"),
    bool: (bool, _flag, "True or False"),
    str: (str, _refuse, "text"),
    int | Sequence[int]: (int, _integer_or_several, "an integer or several"),
    Sequence[int]: (None, _integers, "a sequence of integers"),
    tuple[int, int]: (None, _integers, "two integers"),
}
_OPTIONAL = {kind | None: kind for kind in _KINDS}


class Argument:
    """An argument of a known kind: its position, its name, and the words of what it may be.

    Those that are given by name only have a position after all others.
    """

    __slots__ = ("_as_python", "_class", "_optional", "_who", "name", "position", "words")

    def __init__(self, who: str, name: str, position: int, annotation: Any) -> None:
        self._who, self.name, self.position = who, name, position
        self._optional = annotation in _OPTIONAL
        self._class, self._as_python, self.words = _KINDS[_OPTIONAL.get(annotation, annotation)]
        if self._optional:
            self.words += ", or None"

    def is_usual(self, value: Any) -> bool:
        """Return whether a value is of the class that most are of."""
        return type(value) is self._class or (value is None and self._optional)

    def as_python(self, value: Any) -> Any:
        """Return the number, list or text of Python that a value is; TypeError of other kinds."""
        if self._class is not None and isinstance(value, self._class):
            return value
        try:
            return self._as_python(value)
        except TypeError:
            raise TypeError(f"{self._who}: {self.name} is {self.words}, not {value!r}") from None


def arguments_of(function: Callable, who: str = "") -> tuple[Argument, ...]:
    """Return the arguments of a function whose kinds are known, in their order.

    Errors name `who`, else the function.
    """
    who = who or function.__name__
    annotations, positional, by_name = _parameters(unwrap(function))
    known = [(k, n, annotations[n]) for k, n in enumerate(positional + by_name) if n in annotations]
    return tuple(
        Argument(who, name, k if k < len(positional) else maxsize, kind)
        for k, name, kind in known
        if kind in _KINDS or kind in _OPTIONAL
    )


def _parameters(function: Any) -> tuple[Mapping[str, Any], tuple[str, ...], tuple[str, ...]]:
    """A function's annotations, its positional arguments, and its keyword-only ones.

    `inspect.signature` takes ten times as long as the code, which most functions are read of.
    """
    own = vars(function).get("__signature__")
    if own is not None:
        every = own.parameters.values()
        first, rest = ([p.name for p in every if p.kind == kind] for kind in _NAMED)
        return {p.name: p.annotation for p in every}, (*first,), (*rest,)
    code = getattr(function, "__code__", None)
    if code is None:
        return {}, (), ()
    end = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    return function.__annotations__, names[: code.co_argcount], names[code.co_argcount : end]


_NAMED = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY


@cache
def arguments_of_class(cls: type) -> tuple[Argument, ...]:
    """Return the arguments of a class whose kinds are known: those of an `__init__` of pd_core."""
    own: Any = cls.__init__  # type: ignore[misc]
    is_ours = (own.__module__ or "").startswith("pd_core.")  # None of code without a module
    return arguments_of(own, cls.__name__) if is_ours else ()


def as_python(arguments: Sequence[Argument], args: Any, kwargs: Any) -> _Arguments:
    """Return what a call is given, with numbers of Python; TypeError names what is none."""
    for argument in arguments:
        k = argument.position
        if k < len(args):
            if not argument.is_usual(args[k]):
                args = (*args[:k], argument.as_python(args[k]), *args[k + 1 :])
        elif argument.name in kwargs:
            value = kwargs[argument.name]
            if not argument.is_usual(value):
                kwargs = {**kwargs, argument.name: argument.as_python(value)}
    return args, kwargs
