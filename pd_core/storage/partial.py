"""Names beside a file or folder for what is being written in its place."""

import os
import re
import secrets
from hashlib import blake2b

_TOKEN_BYTES = 8
_TOKEN = re.compile(rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}")
_PARTIAL = re.compile(rf"\..+\.{_TOKEN.pattern}\.part", re.DOTALL)
_LONGEST = 200  # bytes of a name, of which file systems take 255


def stem(path: str) -> str:
    """Return a path for names that begin with it: with a digest in place of a name of 200 bytes.

    A file system takes names of 255 bytes, so that a suffix would make a legal one too long.
    """
    folder, name = os.path.split(path)
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return path
    return os.path.join(folder, blake2b(data, digest_size=20).hexdigest())


def partial_path(path: str) -> str:
    """Return a hidden path beside this one, of the same length each time, that nobody else takes.

    Hidden, so that the patterns of programs that read the folder (`data-*`) do not match it.
    """
    folder, name = os.path.split(stem(path))
    return os.path.join(folder, f".{name}.{secrets.token_hex(_TOKEN_BYTES)}.part")


def is_partial(entry: str, path: str | None = None) -> bool:
    """Whether `partial_path` made the name `entry`, for this path or for any."""
    if path is None:
        return _PARTIAL.fullmatch(entry) is not None
    start = f".{os.path.basename(stem(path))}."
    token = entry.removeprefix(start).removesuffix(".part")
    return entry == f"{start}{token}.part" and _TOKEN.fullmatch(token) is not None
