"""Where a graph is built: the user's line, and the function that was called there."""

import sys
from os.path import dirname, join

_ROOT = dirname(dirname(dirname(__file__)))
_INTERNAL = (join(_ROOT, "pd_core", ""), join(_ROOT, "pd_v2", ""))
_PLUMBING = join(dirname(__file__), "")


class _Ours(dict):
    """Whether a file is of our packages: asked of every frame of the stack, for every node."""

    def __missing__(self, file):
        self[file] = file.startswith(_INTERNAL)
        return self[file]


_ours = _Ours()


def user_site():
    """(file, line) of the innermost frame outside our packages."""
    frame = sys._getframe(1)
    while frame and _ours[frame.f_code.co_filename]:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


def site_text(site) -> str:
    return f"{site[0]}:{site[1]}" if site else "an unknown line"


def function(default="apply") -> str:
    """The op function that is being called: the innermost public one on the stack."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_INTERNAL):
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if not name.startswith(("_", "<")) and not file.startswith(_PLUMBING):
            return name
        frame = frame.f_back
    return default
