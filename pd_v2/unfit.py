"""Descriptions that cannot be computed.

The functions of 2017 only described a network, and what did not fit stopped the program when it
ran. So a description whose operators do not fit warns, with the line that it is at, and the same
error is raised when something is computed from it. With `-W error` it is raised at the line.
"""

import functools

from .warning import warn


class UnfitWarning(UserWarning):
    """Something was described that cannot be computed."""


@functools.cache
def _as_warning(kind):
    """This kind of error as a warning, so that a filter that raises warnings raises the error."""
    return type(kind.__name__, (UnfitWarning, kind), {})


def warn_at_line(error):
    """Warn of an error with the line of the user's that describes what it is about."""
    warn(_as_warning(type(error))(str(error)))


def check_fit(described):
    """Raise the error of the first of some layers or evaluators that cannot be computed."""
    for x in described:
        if x.unfit is not None:
            raise type(x.unfit)(str(x.unfit)) from None
