"""Entries of a folder with private files, as `os.scandir` has them."""

import os


class Entry:
    """An entry of a folder for a private file, as `os.scandir` has them."""

    def __init__(self, path, name):
        self.path, self.name = path, name

    def is_dir(self, *, follow_symlinks=True):
        """Return that it is no folder."""
        return False

    def is_file(self, *, follow_symlinks=True):
        """Return that it is a file."""
        return True

    def is_symlink(self):
        """Return that it is no link."""
        return False

    def stat(self, *, follow_symlinks=True):
        """Return the status of the file."""
        return os.stat(self.path)

    def inode(self):
        """Return the number of the file in its file system."""
        return self.stat().st_ino

    def __fspath__(self):
        return self.path


class Entries:
    """The iterator that `os.scandir` returns."""

    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Give no more entries."""
        self._entries = iter(())
