"""Where a graph is built: the user's line."""

import sys
from os.path import dirname, join
from types import FrameType

_ROOT = dirname(dirname(dirname(__file__)))
_INTERNAL = (join(_ROOT, "pd_core", ""), join(_ROOT, "pd_v2", ""))


class _Ours(dict):
    """Whether a file is of our packages: asked of every frame of the stack, for every node."""

    def __missing__(self, file):
        self[file] = file.startswith(_INTERNAL)
        return self[file]


Site = tuple[str, int]  # file and line

_ours = _Ours()


def user_site() -> Site | None:
    """(file, line) of the innermost frame outside our packages."""
    frame: FrameType | None = sys._getframe(1)
    while frame and _ours[frame.f_code.co_filename]:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


def site_text(site: Site | None) -> str:
    return f"{site[0]}:{site[1]}" if site else "an unknown line"
