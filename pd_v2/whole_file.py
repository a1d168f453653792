"""Files that are written whole or not at all."""

import os
import shutil
import threading
from contextlib import contextmanager, suppress


@contextmanager
def whole_file(path):
    """A binary file to write, which takes its place at the path when the `with` block ends.

    Until then, whatever happens, what was at the path before is still there: the bytes go into a
    temporary file beside it, reach the disk, and are renamed. A link is followed, and a file that
    was there before passes on who may read and write it. A device or a pipe is written as it is.
    """
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as f:
            yield f
        return
    partial = f"{path}.{threading.get_native_id()}.part"
    try:
        with open(partial, "wb") as f:
            with suppress(FileNotFoundError):
                shutil.copymode(path, partial)
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(partial)
        raise
    _sync_folder(os.path.dirname(path))


def _sync_folder(folder):
    """The new name reaches the disk too, where folders can be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
