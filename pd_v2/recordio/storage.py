"""Where RecordIO files are: paths of this machine, or URLs of what fsspec reaches, such as s3://."""

import contextlib
import errno
import glob
import os
import re
from dataclasses import dataclass
from typing import Any

from pd_core import atomic_write

# A drive of Windows has one letter
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
# Storages raise some of Python's errors, without their numbers
_NUMBERS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
_HINT = "  hint: pip install 'pd-onnx[storage]' brings fsspec and s3fs"


def is_url(path):
    """Return whether a path is a URL, such as s3://bucket/name."""
    return isinstance(path, str) and _URL.match(path) is not None


def matching(who, pattern):
    """Return the files that match a pattern, sorted by name; FileNotFoundError if none does."""
    if is_url(pattern):
        system, inner = _system(pattern)
        with _naming(pattern):
            system.invalidate_cache()  # of names and sizes that were listed before
            names = sorted(map(system.unstrip_protocol, system.glob(inner)))
    else:
        names = sorted(glob.glob(pattern))
    if not names:
        raise FileNotFoundError(f"{who}: no file matches {pattern!r}")
    return names


def size_of(path):
    """Return the bytes of a file."""
    if not is_url(path):
        return os.path.getsize(path)
    system, inner = _system(path)
    with _naming(path):
        size = system.size(inner)
    if size is None:
        raise OSError(errno.EIO, "its storage does not tell the size of the file", path)
    return size


@contextlib.contextmanager
def opened(path):
    """Return a context with the `size` of a file and `read(start, count)`, at most so many bytes.

    Of a URL nothing is read but what is asked for.
    """
    if is_url(path):
        system, inner = _system(path)
        yield _Remote(path, system, inner, size_of(path))
        return
    with open(path, "rb") as file:
        yield _Local(file, os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def written(path):
    """Return a context with a binary file to write, which is there when the block ends, whole."""
    if not is_url(path):
        with atomic_write(path) as file:
            yield file
        return
    system, inner = _system(path)
    with contextlib.ExitStack() as stack:  # which discards the file after an error
        with _naming(path):
            stack.enter_context(system.transaction)
            file = stack.enter_context(system.open(inner, "wb"))
        yield file
        with _naming(path):
            stack.close()


@dataclass(frozen=True)
class _Local:
    file: Any
    size: int

    def read(self, start, count):
        """Return bytes of the file."""
        self.file.seek(start)
        return self.file.read(count)


@dataclass(frozen=True)
class _Remote:
    path: str
    system: Any
    inner: str
    size: int

    def read(self, start, count):
        """Return bytes of the file, by one request for this range."""
        end = min(start + count, self.size)
        if end <= start:
            return b""
        with _naming(self.path):
            return self.system.cat_file(self.inner, start=start, end=end)


def _system(path):
    """The file system of a URL, and the path in it; ImportError if a package is missing."""
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(path)
    except ImportError as error:
        raise ImportError(f"recordio: {path}: {error}\n{_HINT}") from error


@contextlib.contextmanager
def _naming(path):
    """Turn the errors of a storage into those of a file that cannot be opened or read."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        number = next((n for kind, n in _NUMBERS.items() if isinstance(error, kind)), None)
        said = f"{type(error).__name__}: {error}" if number is None else os.strerror(number)
        raise OSError(number or errno.EIO, said, path) from error
