"""The decorator of op functions, which names the op in the errors raised inside it."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from .argument_kinds import arguments_of, as_python
from .errors import GraphError
from .other_words import explained
from .recording import recorder
from .site import Site, is_internal, user_site

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def op(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function an op: the message of a GraphError raised inside begins with its name.

    Where ops call each other, that is the one which was called from outside of our packages.
    Arguments that are annotated as numbers, integers, flags or text are checked.
    """

    arguments = arguments_of(function)

    @wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        recording = recorder()
        given = arguments and (kwargs or len(args) > arguments[0].position)
        if given and (recording is None or not recording.inside):  # inside, sizes may be names
            args, kwargs = as_python(arguments, args, kwargs)  # type: ignore[assignment]
        if recording is not None:
            frame = sys._getframe(1)
            file = frame.f_code.co_filename
            site = None if is_internal[file] else (file, frame.f_lineno)
            if not recording.inside:
                result = None if kwargs else recording.again(function, args, site)
                if result is None:
                    result = _recorded(function, recording, site, args, kwargs)
                if recording.immediate:
                    recording.compute(result)
                return result
            if site is not None:  # in the body of a loop
                recording.site = site
        try:
            return function(*args, **kwargs)
        except GraphError as error:
            file = sys._getframe(1).f_code.co_filename
            error.pass_op(function.__name__, by_user=not is_internal[file])
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
            error.pass_op(function.__name__, by_user=True)
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
            error.pass_op(function.__name__, by_user=True)
    raise error
