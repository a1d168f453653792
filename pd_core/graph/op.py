"""Op functions: they say their own name in the errors that are raised inside them."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from .errors import GraphError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def op(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function an op: a GraphError that leaves it begins with its name.

    Of ops that call each other the innermost is named, the one that refused.
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
