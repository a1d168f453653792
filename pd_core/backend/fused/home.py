"""The folder of libraries of compiled kernels, and of what programs become.

What is in the folder is run, so nobody else may write to it.
"""

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...graph.errors import CompilerError
from ...storage.partial import is_partial, partial_path
from .compilers import suffix

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_DAY = 86400  # seconds
_DATA = ".program"
OBJECT = ".o"
_LIMIT = 512 << 20  # bytes of files, of which the least recently used go


def keep(name: str, data: bytes) -> None:
    """Keep data in the folder under a name, which is there completely or not at all."""
    path = folder() / f"{name}{_DATA}"
    with suppress(CompilerError, OSError), complete(path) as partial:  # where missing, made again
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Give a path beside one, to which what has been written to it is renamed at the end."""
    partial = Path(partial_path(str(path)))
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise CompilerError(f"compiled kernels cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def kept(name: str) -> bytes | None:
    """Return the data that `keep` was given, None if it is not there."""
    path = folder() / f"{name}{_DATA}"
    return path.read_bytes() if is_there(path) else None


def library(name: str) -> Path | None:
    """Return the library of this name in the folder, None if it is not there."""
    path = folder() / name
    return path if is_there(path) else None


def folder() -> Path:
    """Return the folder of the libraries; it is made if it is not there.

    It is `PD_FUSED_HOME`, by default `pd/fused` in the user's folder for caches. CompilerError if
    another user owns it or can write to it, or put another in its place.
    """
    path = Path(os.path.abspath(os.environ.get("PD_FUSED_HOME") or _default()))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            _check_private(path)
    except OSError as error:
        raise CompilerError(
            f"the folder of compiled kernels cannot be made: {error}"
            "\n  hint: the environment variable PD_FUSED_HOME names another"
        ) from error
    return path


def _default() -> Path:
    """The folder of the user's caches on this system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "pd", "fused")


def _check_private(path: Path) -> None:
    """Check that what is in a folder is its user's own."""
    status, writable = os.stat(path), stat.S_IWGRP | stat.S_IWOTH
    why = ""
    if status.st_uid != os.getuid():
        why = f"{path} belongs to another user"
    elif status.st_mode & writable:
        why = f"others can write to {path} (mode {stat.S_IMODE(status.st_mode):o})"
    for parent in path.parents if not why else ():
        status = os.stat(parent)
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            why = f"others can replace what is in {parent}"
            break
    if why:
        raise CompilerError(
            f"compiled kernels are not read from a folder that is not private: {why}"
            f"\n  hint: chmod 700 {path}, or PD_FUSED_HOME=another folder"
        )


def is_there(path: Path) -> bool:
    """Return whether a library, an object file or data are there, and note that they are used."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    if hasattr(os, "getuid") and (
        not stat.S_ISREG(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise CompilerError(f"{path} is not private to its user\n  hint: remove it")
    with suppress(OSError):  # removed meanwhile, or a file system that is read-only by now
        os.utime(path)
    return True


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Open the source file of a library for one process at a time; give whether it is alone.

    Ranks of a job compile the same programs at the same time: one of them does so. The lock ends
    with its process. On file systems without locks each compiles for itself.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise CompilerError(
            f"compiled kernels cannot be written: {error}"
            "\n  hint: the environment variable PD_FUSED_HOME names another folder"
        ) from error
    try:
        alone = fcntl is not None
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError:
                alone = False
        yield alone
    finally:
        os.close(handle)


def remove_oldest(place: Path, but: Path) -> None:
    """Remove the files that were not used for longest, beyond a number of bytes.

    So is what compilers have written after the end of the process that ran them.
    """
    found = []
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            with suppress(OSError):  # another process has renamed or removed it meanwhile
                status = entry.stat()
                if is_partial(entry.name) and status.st_mtime < time.time() - _DAY:
                    os.remove(entry.path)
                elif entry.name.endswith((suffix(), _DATA, OBJECT)) and entry.path != str(but):
                    size = status.st_size // max(status.st_nlink, 1)
                    found.append((status.st_mtime, size, entry.path))
    total = but.stat().st_size + sum(size for _, size, _ in found)
    for _, size, old in sorted(found):
        if total <= _LIMIT:
            break
        total -= size
        with suppress(OSError):
            os.remove(old)
            if old.endswith(suffix()):
                os.remove(Path(old).with_suffix(".c"))
