"""Atomic writes: files that are written completely or not at all."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import BinaryIO

from .partial import errors_name, is_partial, partial_path

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a binary file for writing that replaces the path when the `with` block ends.

    Until then, and after any error, the old file at the path is unchanged: the bytes are written
    to a hidden file beside it, which is synced and then renamed. Links are followed, and owner
    and mode of the old file are kept. Devices and pipes are written in place. Temporary files that
    killed writers of the same path left behind are removed.
    """
    path = os.fspath(path)
    before = _status(path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(path, "wb") as file:
            yield file
        return
    given, path = path, os.path.realpath(path)
    if before is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    _remove_leftovers(path)
    with errors_name(given):
        file, partial = _open_partial(path, before)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl:  # renamed while it is locked, lest another writer remove it as a leftover
                    os.replace(partial, path)
            if not fcntl:
                os.replace(partial, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.remove(partial)
            raise
    sync_folder(os.path.dirname(path))


def check_writable(path: str | os.PathLike) -> None:
    """Raise the OSError that `atomic_write` would raise at once; write nothing."""
    path = os.fspath(path)
    before = _status(path)
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    folder = os.path.dirname(os.path.realpath(path))
    number = 0
    if not os.path.exists(folder):
        number = errno.ENOENT
    elif not os.path.isdir(folder):
        number = errno.ENOTDIR
    elif not os.access(folder if before is None else path, os.W_OK):
        number = errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), path)


def _status(path):
    """The status of a file, links followed; None if there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _open_partial(path, before):
    """Create a file beside the path, locked as long as it is open; return it and its name."""
    mode = 0o666 if before is None else stat.S_IMODE(before.st_mode)
    while True:
        partial = partial_path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(partial, flags, mode), "wb")
        try:
            _lock(file, wait=True)
            if os.fstat(file.fileno()).st_nlink:  # else removed as a leftover before it was locked
                if before is not None:
                    _copy_owner_and_mode(before, file, partial)
                return file, partial
        except BaseException:
            file.close()
            with suppress(FileNotFoundError):
                os.remove(partial)
            raise
        file.close()


def _lock(file, wait):
    """Lock an open file; return False if it is locked or the file system has no locks."""
    try:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _copy_owner_and_mode(before, file, partial):
    """Copy the owner and mode of the old file to the new one."""
    now = os.fstat(file.fileno())
    if hasattr(os, "fchown") and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(OSError):  # only root may change owners
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
    os.chmod(partial, stat.S_IMODE(before.st_mode))


def _remove_leftovers(path):
    """Remove the temporary files of this path whose writers have ended."""
    folder = os.path.dirname(path)
    with suppress(OSError):  # a folder that cannot be listed may still be written to
        for entry in os.listdir(folder):
            if is_partial(entry, path):
                _remove_unless_locked(os.path.join(folder, entry))


def _remove_unless_locked(partial):
    """Remove a temporary file unless its writer lives: the lock of a process ends with it."""
    with suppress(OSError):
        if fcntl is None:
            os.remove(partial)
            return
        handle = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if _lock(file, wait=False):
                os.remove(partial)


def sync_folder(folder: str | os.PathLike) -> None:
    """Sync the entries of a folder, such as a new name, where folders can be opened."""
    if os.name == "posix":
        with suppress(PermissionError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
