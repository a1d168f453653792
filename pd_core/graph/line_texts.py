"""Lines of a program by their text, which tells them in one that has changed elsewhere."""

import sys
from hashlib import blake2b
from linecache import getline
from types import FrameType

from .site import is_internal

LineText = tuple[str, int]  # a digest of a text, and how many things such a line had made before
_texts: dict[tuple[str, int], str] = {}
_MANY = 1 << 14


def line_text() -> str | None:
    """Return a digest of the text of the line that makes something, None if it has no source.

    It is the innermost line outside of our packages and of functions `__init__`, together with the
    line that calls its function: a layer of a class of the user's is made where the class is
    called. A digest, since checkpoints have no code in them.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame and (frame.f_code.co_name == "__init__" or _is_ours(frame)):
        frame = frame.f_back
    if frame is None:
        return None
    own, caller = _text(frame), frame.f_back
    while caller and _is_ours(caller):
        caller = caller.f_back
    return own and own + ((caller and _text(caller)) or "")


def _is_ours(frame: FrameType) -> bool:
    return is_internal[frame.f_code.co_filename]


def _text(frame: FrameType) -> str | None:
    key = frame.f_code.co_filename, frame.f_lineno
    text = _texts.get(key)
    if text is None:
        if len(_texts) >= _MANY:
            _texts.clear()
        line = getline(*key).strip()
        text = _texts[key] = blake2b(line.encode(), digest_size=6).hexdigest() if line else ""
    return text or None
