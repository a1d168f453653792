"""File locks for the cache: of two processes, one downloads a file and the other waits."""

import logging
import os
from contextlib import contextmanager, suppress

from pd_core.storage.partial import stem

try:
    import fcntl
except ImportError:  # Windows: both download, and the last one wins
    fcntl = None

_log = logging.getLogger("paddle")


@contextmanager
def locked(path):
    """Hold the lock of a path; the value is whether this had to wait for another holder.

    The lock is released when the process ends, even if it is killed.
    """
    if fcntl is None:
        yield False
        return
    name = f"{stem(path)}.lock"
    handle, waited = _acquire(name, path)
    try:
        yield waited
    finally:
        with suppress(OSError):
            os.unlink(name)  # before the release: waiting processes then create a new file
        os.close(handle)


def _acquire(name, path):
    waited = False
    while True:
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            waited = not _lock_without_waiting(handle, path) or waited
            if _is_linked(name, handle):
                return handle, waited
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock_without_waiting(handle, path):
    """Lock a file; return whether this did not wait. File systems without locks are ignored."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("%s is being downloaded by another process", path)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return False
    except OSError:
        pass
    return True


def _is_linked(name, handle):
    """Return whether an open file still has its name, i.e. was not removed by its last holder."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(handle))
    except FileNotFoundError:
        return False
