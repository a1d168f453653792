"""Source locations: the user's line that builds a part of a graph."""

import sys
import warnings
from os.path import dirname, join
from types import FrameType, TracebackType

_ROOT = dirname(dirname(dirname(__file__)))
_INTERNAL = (join(_ROOT, "pd_core", ""), join(_ROOT, "pd_v2", ""))


class _IsInternal(dict):
    """{file: whether it belongs to our packages}, a cache: every node asks for a whole stack."""

    def __missing__(self, file: str) -> bool:
        self[file] = file.startswith(_INTERNAL)
        return self[file]


Site = tuple[str, int]  # file and line


class GradientSite(tuple):
    """The line that asked for gradients, (file, line) or (), at an operator that computes them.

    `layer` and `line` are those of the operator of the forward pass that it differentiates.
    """

    layer: str
    line: Site | None

    @classmethod
    def of(cls, site: Site | None, layer: str, line: Site | None) -> "GradientSite":
        """Return the site of what differentiates an operator at `line`."""
        own = cls(site or ())
        own.layer, own.line = layer, line
        return own


is_internal = _IsInternal()


def user_site(depth: int = 1) -> Site | None:
    """Return (file, line) of the innermost frame outside our packages, None if there is none.

    `depth` is where the search begins: all frames below are known to be ours.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame and is_internal[frame.f_code.co_filename]:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of our packages at its end; None if it has no others.

    The entries themselves are changed.
    """
    last, entry = None, traceback
    while entry is not None:
        if not is_internal[entry.tb_frame.f_code.co_filename]:
            last = entry
        entry = entry.tb_next
    if last is None:
        return None
    last.tb_next = None
    return traceback


def site_text(site: Site | None) -> str:
    """Return a location as errors show it, `train.py:15`."""
    return f"{site[0]}:{site[1]}" if site else "an unknown line"


def warn(warning: Warning) -> None:
    """Issue a warning at the innermost line outside of our packages."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_internal[frame.f_code.co_filename]:
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
