"""A lock for each file of the cache, so that of two processes one downloads and the other waits."""

import logging
import os
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # Windows: both download, and the last to end wins
    fcntl = None

_log = logging.getLogger("paddle")


@contextmanager
def locked(path):
    """Hold the lock of a path; gives whether another thread or process has held it meanwhile.

    The lock of a process ends with it, however that ends.
    """
    if fcntl is None:
        yield False
        return
    name = f"{path}.lock"
    handle, waited = _acquire(name, path)
    try:
        yield waited
    finally:
        with suppress(OSError):
            os.unlink(name)  # before the lock is given up: whoever waits for it makes a new one
        os.close(handle)


def _acquire(name, path):
    waited = False
    while True:
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            waited = not _lock_at_once(handle, path) or waited
            if _is_still_there(name, handle):
                return handle, waited
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock_at_once(handle, path):
    """Whether there was no waiting; a file system without locks has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("%s is being downloaded by another process", path)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return False
    except OSError:
        pass
    return True


def _is_still_there(name, handle):
    """Whether an open file is the one of this name, not one that its last holder has removed."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(handle))
    except FileNotFoundError:
        return False
