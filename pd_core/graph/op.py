"""The decorator of op functions, which names the op in the errors raised inside it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from .errors import GraphError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def op(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function an op: the message of a GraphError raised inside begins with its name.

    Where ops call each other, that is the innermost one.
    """

    @wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except GraphError as error:
            if error.op is None:
                error.op = function.__name__
            raise

    return call
