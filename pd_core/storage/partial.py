"""Names beside a file or folder for what is being written in its place."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def errors_name(path: str) -> Iterator[None]:
    """Let errors of files in a `with` name this path instead of what is written beside it."""
    try:
        yield
    except OSError as error:
        names = [_whole(name, path) for name in (error.filename, error.filename2)]
        if names != [error.filename, error.filename2]:
            error.filename = names[0]
            del error.filename2  # where the one would have become the other
        raise


def _whole(name, path):
    """The name that a file or folder will have, for the name that it has until it is complete."""
    parts = os.fsdecode(name).split(os.sep) if isinstance(name, (str, bytes, os.PathLike)) else []
    found = [k for k, part in enumerate(parts) if is_partial(part)]
    return os.sep.join([path, *parts[found[0] + 1 :]]) if found else name
