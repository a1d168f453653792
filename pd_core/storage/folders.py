"""Atomic folders: folders that are written completely or not at all."""

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from weakref import WeakSet

from .atomic import fcntl, sync_folder
from .partial import errors_name, is_partial, partial_path


@contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Make a folder for a `with`, which gets the name `path` when the block ends.

    Until then, and after any error, what was at the path is unchanged: the folder is made beside
    it, its files are synced, and it is renamed. A folder that was there before is replaced. What
    killed writers of the same path left behind is removed.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    with errors_name(str(path)):
        folder, lock = _made(path)
        try:
            yield folder
            _sync(folder)
            if not path.exists():
                os.rename(folder, path)
                sync_folder(path.parent)
            else:
                if not _exchange(folder, path):
                    _exchange_by_steps(folder, path)
                sync_folder(path.parent)
                shutil.rmtree(folder, ignore_errors=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            lock.close()


def _made(path):
    """Make a folder beside the path, which is locked as long as it is written; and its lock."""
    while True:
        folder = Path(partial_path(str(path)))
        folder.mkdir()
        with suppress(FileNotFoundError):  # removed as a leftover before it was locked
            lock = lock_folder(folder)
            if lock is not None:
                if folder.exists():
                    return folder, lock
                lock.close()


def _remove_leftovers(path):
    """Remove the folders beside this path whose writers have ended."""
    # a folder that cannot be listed may still be written to
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if is_partial(entry.name, str(path)) and entry.is_dir(follow_symlinks=False):
                _remove_unless_locked(entry.path)


def _remove_unless_locked(folder):
    """Remove a folder unless its writer lives: the lock of a process ends with it."""
    with suppress(OSError):
        lock = lock_folder(folder)
        if lock is not None:
            if lock.excludes:
                shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def remove_folder(path: str | os.PathLike) -> None:
    """Remove a folder at once: a part of it is never seen under its name."""
    path = Path(path).resolve()
    renamed = Path(partial_path(str(path)))
    os.rename(path, renamed)
    shutil.rmtree(renamed, ignore_errors=True)


def remove_leftovers(parent: str | os.PathLike[str]) -> None:
    """Remove what killed writers of folders left behind in a folder that no other one writes to."""
    with suppress(FileNotFoundError), os.scandir(os.fspath(parent)) as entries:
        for entry in entries:
            if is_partial(entry.name) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)


class FolderLock:
    """The lock of a folder; `close` releases it. Child processes do not inherit it.

    `excludes` is False where folders cannot be locked: others have one, too.
    """

    def __init__(self, handle: int | None, excludes: bool):
        self.handle, self.excludes = handle, excludes
        _locks.add(self)

    def close(self) -> None:
        """Release the lock."""
        if self.handle is not None:
            os.close(self.handle)
        self.handle = None


_locks: WeakSet[FolderLock] = WeakSet()


def _close_inherited():
    """Close the locks in a forked process, which may live longer than the one that has them."""
    for lock in _locks:
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def lock_folder(path: str | os.PathLike) -> FolderLock | None:
    """Lock a folder for one writer; None if another one has it.

    The lock ends with the process. Where folders cannot be locked, everybody gets one.
    """
    if fcntl is None:
        return FolderLock(None, excludes=False)
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # a file system without locks
        return FolderLock(handle, excludes=False)
    return FolderLock(handle, excludes=True)


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


def _exchange(folder, other):
    """Exchange the names of two folders at once; return whether the system could."""
    rename = _renameat2()
    if rename is None:
        return False
    names = os.fsencode(folder), os.fsencode(other)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):  # a file system, or a kernel, without it
        return False
    raise OSError(number, os.strerror(number), str(folder), None, str(other))


def _exchange_by_steps(folder, other):
    """Exchange the names of two folders; for a moment `other` is not there."""
    third = partial_path(str(other))
    os.rename(other, third)
    try:
        os.rename(folder, other)
    except BaseException:
        os.rename(third, other)
        raise
    os.rename(third, folder)


@cache
def _renameat2():
    """The function of the C library, None if it has none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _sync(folder):
    """Sync all that is in a folder, and the folder."""
    for path in folder.iterdir():
        if path.is_dir():
            _sync(path)
            continue
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)
