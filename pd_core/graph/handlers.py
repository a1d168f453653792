"""Functions that users attach: whether they take what they will be called with."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any


def check_takes(who: str, function: Callable[..., Any], *arguments: str) -> None:
    """Raise a TypeError if a function cannot be called with so many arguments.

    It says this where the function is attached, not when it is called for the first time, perhaps
    hours later. `arguments` are what they are, for the message. Functions whose signature Python
    does not know pass.
    """
    wanted = f"is called with ({', '.join(arguments)})"
    if not callable(function):
        raise TypeError(f"{who} {wanted}; {function!r} is no function")
    if _obviously_takes(function, len(arguments)):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        code = getattr(inspect.unwrap(function), "__code__", None)
        where = f"\n  defined at {code.co_filename}:{code.co_firstlineno}" if code else ""
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(f"{who} {wanted}; {name}{signature} does not take them{where}") from None


def _obviously_takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a plain function takes so many arguments; signatures take a hundred times as long."""
    if type(function) is not FunctionType or function.__dict__ or function.__kwdefaults__:
        return False
    code = function.__code__
    required = code.co_argcount - len(function.__defaults__ or ())
    return required <= count <= code.co_argcount and not code.co_kwonlyargcount
