"""Layers that are declared but cannot be computed.

In 2017 layer functions only wrote a configuration, and shapes that did not fit failed when the
network ran. So a layer whose operators do not fit warns at the user's line, and the same error is
raised when something is computed from it. With `-W error` it is raised at the line.
"""

import functools

from .warning import warn


class UnfitWarning(UserWarning):
    """A layer or evaluator was declared that cannot be computed."""


@functools.cache
def _warning_class(error_class):
    """Return a warning that is also such an error: what `-W error` raises is then that error."""
    return type(error_class.__name__, (UnfitWarning, error_class), {})


def warn_at_line(error):
    """Warn of an error at the user's line that declares the layer."""
    warn(_warning_class(type(error))(str(error)))


def check_fit(items):
    """Raise the error of the first layer or evaluator that cannot be computed."""
    for x in items:
        if x.unfit is not None:
            raise type(x.unfit)(str(x.unfit)) from None
