"""The decorator of op functions, which names the op in the errors raised inside it."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from .errors import GraphError
from .other_words import explained
from .recording import recorder
from .site import Site, is_internal, user_site

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def op(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function an op: the message of a GraphError raised inside begins with its name.

    Where ops call each other, that is the innermost one.
    """

    @wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        recording = recorder()
        if recording is not None:
            frame = sys._getframe(1)
            file = frame.f_code.co_filename
            site = None if is_internal[file] else (file, frame.f_lineno)
            if not recording.inside:
                result = _recorded(function, recording, site, args, kwargs)
                if recording.immediate:
                    recording.compute(result)
                return result
            if site is not None:  # in the body of a loop
                recording.site = site
        try:
            return function(*args, **kwargs)
        except GraphError as error:
            if error.op is None:
                error.op = function.__name__
            raise
        except TypeError as error:
            raise explained(function, kwargs, error) from error.__cause__

    return call


def _recorded(function: Callable, recording: Any, site: Site | None, args: Any, kwargs: Any) -> Any:
    """Call an op while values are at hand: arrays are leaves.

    Sizes may be names, so that one program is for every size. An op that has to know them gets
    numbers: those of all axes but the first where that is enough.
    """
    recording.inside, recording.site = True, site or recording.line or user_site()
    try:
        args, kwargs = recording.arguments(args, kwargs)
        try:
            return recording.call(function, args, kwargs)
        except GraphError as error:
            if error.op is None:
                error.op = function.__name__
            return _with_numbers(function, recording, args, kwargs, error)
        except TypeError as error:
            raise explained(function, kwargs, error) from error.__cause__
    finally:
        recording.inside, recording.site = False, None


def _with_numbers(
    function: Callable, recording: Any, args: Any, kwargs: Any, error: GraphError
) -> Any:
    for specialise in (recording.except_first, recording.specialised):
        args, kwargs = specialise(args, kwargs)
        try:
            return function(*args, **kwargs)
        except GraphError as other:
            error = other
            if error.op is None:
                error.op = function.__name__
    raise error
