"""Tracebacks of a program as it would have got them without a launcher."""

import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_BESIDE = ("__main__.py", "as_paddle.py")
_OURS = (_PACKAGE + os.sep, *(os.path.join(os.path.dirname(_PACKAGE), name) for name in _BESIDE))


def strip_error(error, first_globals=None):
    """Take the frames of this package from an error and from those that led to it.

    With first_globals, also all frames before the first of the module with those globals.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _stripped(error.__traceback__, first_globals)
        error = error.__cause__ or error.__context__


def _stripped(traceback, first_globals):
    steps = list(_steps(traceback))
    own = [i for i, step in enumerate(steps) if step.tb_frame.f_globals is first_globals]
    kept = [step for step in steps[own[0] if own else 0 :] if not _is_ours(step)]
    following = None
    for step in reversed(kept):
        step.tb_next = following
        following = step
    return following


def _steps(traceback):
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_ours(step):
    filename = step.tb_frame.f_code.co_filename
    return filename.startswith((*_OURS, "<frozen importlib", "<frozen runpy"))


def show_as_of(module):
    """Let uncaught errors be shown as those of a main module."""

    def show(kind, error, traceback):
        strip_error(error, vars(module))
        if isinstance(error, SyntaxError) and not _ran(error, module):
            error.__traceback__ = None
        sys.__excepthook__(kind, error, error.__traceback__)

    sys.excepthook = show


def _ran(error, module):
    return any(step.tb_frame.f_globals is vars(module) for step in _steps(error.__traceback__))
