"""Tracebacks of a program without the frames of this package."""

import os
import sys

from pd_core.graph.errors import is_explained
from pd_core.graph.site import without_own_frames

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_MODULES = ("__main__.py", "as_paddle.py")  # of pd_v2
_HIDDEN = (_PACKAGE + os.sep, *(os.path.join(os.path.dirname(_PACKAGE), m) for m in _MODULES))


def strip_error(error, first_globals=None):
    """Remove the frames of this package from an error, its causes and its contexts.

    With first_globals, also remove all frames before the first with those globals.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _stripped(error.__traceback__, first_globals)
        error = error.__cause__ or error.__context__


def _stripped(traceback, first_globals):
    entries = list(_entries(traceback))
    own = [i for i, entry in enumerate(entries) if entry.tb_frame.f_globals is first_globals]
    kept = [entry for entry in entries[own[0] if own else 0 :] if not _is_hidden(entry)]
    following = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    return following


def _entries(traceback):
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_hidden(entry):
    filename = entry.tb_frame.f_code.co_filename
    return filename.startswith((*_HIDDEN, "<frozen importlib", "<frozen runpy"))


def install_excepthook(module):
    """Print uncaught errors as if a module had been run by Python itself.

    They are printed by the hook of before: that of an MPI job ends the other processes.
    """
    previous = sys.excepthook

    def excepthook(kind, error, traceback):
        strip_error(error, vars(module))
        if is_explained(error):
            error.__traceback__ = without_own_frames(error.__traceback__)
        if isinstance(error, SyntaxError) and not _ran(error, module):
            error.__traceback__ = None
        previous(kind, error, error.__traceback__)

    sys.excepthook = excepthook


def _ran(error, module):
    return any(entry.tb_frame.f_globals is vars(module) for entry in _entries(error.__traceback__))
