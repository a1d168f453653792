"""What pickles of layers and of optimizers have in common: names of variables, and functions."""

import functools
import sys
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from .variable import Variable


class PickledName:
    """The name of a variable in a pickle, one object for all who refer to it there.

    Where the variable is unpickled beside another of its name it gets a new one, and so do they.
    """

    def __init__(self, name: str) -> None:
        self.name = name


_names: WeakKeyDictionary[Variable, PickledName] = WeakKeyDictionary()


def pickled_name(v: Variable) -> PickledName:
    """Return the object that stands for the name of a variable in all pickles."""
    return _names.setdefault(v, PickledName(v.name))


def check_picklable(where: str, value: Any) -> None:
    """Raise a TypeError for what pickle refuses without a word of where it is.

    Those are functions that are not found by their names, such as lambdas, and results of a graph.
    """
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, Variable) and not value.is_persistent:
        raise TypeError(
            f"{where} is {value!r}, a result in a graph, which is not pickled\n"
            "  hint: del the attribute, or keep its value, v.numpy()"
        )
    function = value.__func__ if isinstance(value, MethodType) else value
    if isinstance(function, FunctionType) and not _is_found(function):
        raise TypeError(
            f"{where} is {function.__qualname__}, a function that is not found by its name, and "
            "is not pickled\n  hint: define it with `def` at the top level of a module"
        )


def _is_found(function: FunctionType) -> bool:
    """Whether the module of a function, or a class in it, has it under its name."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function or getattr(found, "__func__", None) is function
