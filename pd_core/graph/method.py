"""Operators and methods of Variables that the packages above this one provide."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

_Variable = TypeVar("_Variable")

provided: dict[str, Callable] = {}


def provide(**functions: Callable) -> None:
    """Set the functions behind the operators and methods of Variables, by name."""
    provided.update(functions)


class Method:
    """A method of Variables that calls an op with the Variable as its first argument.

    The op is one of those that are `provide`d.
    """

    def __init__(self, op: str):
        self.op = op
        self.__doc__ = f"Call `pd.{op}` with it as the first argument."

    @overload
    def __get__(self, x: None, owner: Any) -> "Method": ...

    @overload
    def __get__(self, x: _Variable, owner: Any) -> Callable[..., _Variable]: ...

    def __get__(self, x: Any, owner: Any) -> Any:
        return self if x is None else partial(provided[self.op], x)
