"""Files of ranks that write what rank 0 writes: each has its own copy, which only it can see.

All ranks of a job run the same program, and so write the same files. On the ranks above 0 the
functions of Python by which programs write go to a private folder instead, and the functions by
which they read find there what was written. What native code or other programs write is not seen.
"""

import atexit
import builtins
import bz2
import io
import os
import shutil
import stat
import tarfile
import tempfile

from .entries import Entries, Entry

_WRITING = frozenset("wax+")
_TEMPORARY = 0o700  # the mode of tempfile.mkdtemp


class PrivateFiles:
    """From now on this process writes to a private folder, which is removed when it ends.

    Temporary files and folders, as `tempfile` creates them, and files in the folders `shared` are
    left alone. A folder that exists already is made once more without an error. What
    it removes or renames is so for this process only.
    """

    def __init__(self, shared=()):
        self._folder = tempfile.mkdtemp(prefix="pd-v2-rank-")
        self._temporary = os.path.abspath(tempfile.gettempdir())
        self._shared = [os.path.abspath(folder) for folder in (*shared, self._folder)]
        self._paths = {}  # of a file that was written, to its private copy
        self._removed, self._made, self._folders = set(), set(), set()
        self._count, self._is_writing = 0, True
        self._real = {name: getattr(os, name) for name in _PATCHED}
        self._open = builtins.open
        self._install()
        atexit.register(self._end, os.getpid())

    def share(self, folder):
        """Write to the files of a folder themselves from now on."""
        self._shared.append(os.path.abspath(folder))

    def stop(self):
        """Write to the files themselves from now on; what was written before stays private."""
        self._is_writing = False

    def _install(self):
        for module, name in ((builtins, "open"), (io, "open"), (tarfile, "bltn_open")):
            setattr(module, name, self.open)
        bz2._builtin_open = self.open
        tolerate_folders()
        self._real["mkdir"] = os.mkdir
        for name in ("stat", "lstat", "access", "chmod", "utime"):
            setattr(os, name, self._reading(name))
        for name in ("remove", "unlink", "rmdir"):
            setattr(os, name, self._removing(name))
        for name in ("rename", "replace"):
            setattr(os, name, self._renaming(name))
        os.open, os.mkdir = self._open_handle, self._mkdir
        os.listdir, os.scandir = self._listdir, self._scandir
        self._rmtree, shutil.rmtree = shutil.rmtree, self._remove_tree

    def _end(self, process):
        if os.getpid() == process:  # child processes inherit the folder
            self._rmtree(self._folder, ignore_errors=True)

    # ---- opening

    def open(self, file, mode="r", *args, **kwargs):
        """Open a file as the built-in `open` does."""
        opener = kwargs.get("opener") or (args[4] if len(args) > 4 else None)
        key = None if opener else self._key(file)
        if key is None:
            return self._open(file, mode, *args, **kwargs)
        if self._is_writing and not _WRITING.isdisjoint(mode):
            file = self._writable(key, file, mode)
        elif key in self._removed:
            raise FileNotFoundError(2, os.strerror(2), file)
        return self._open(self._paths.get(key, file), mode, *args, **kwargs)

    def _writable(self, key, file, mode):
        """Return the path to write to in the place of a file."""
        if key in self._paths:
            return self._paths[key]
        status = self._status(file)
        if status is not None and not stat.S_ISREG(status.st_mode):
            return file  # a device, or the error of a folder
        exists = status is not None and key not in self._removed
        folder = os.path.dirname(key)
        if not (exists or folder in self._folders or self._real["access"](folder, os.F_OK)):
            return file  # the error of a folder that does not exist
        private = self._new()
        if exists and "w" not in mode:
            shutil.copyfile(file, private)
        elif "r" in mode:
            return file  # the error of a file that does not exist
        self._paths[key] = private
        self._removed.discard(key)
        return private

    def _open_handle(self, path, flags, *args, **kwargs):
        """Open as `os.open` does; a new name is private, but in the folder for temporary files."""
        key = None if "dir_fd" in kwargs else self._key(path)
        is_new = key is not None and flags & os.O_CREAT and flags & os.O_EXCL
        if is_new and self._is_writing and key not in self._paths:
            if os.path.dirname(key) == self._temporary:
                self._made.add(key)
            elif self._status(path) is None and self._real["access"](os.path.dirname(key), os.F_OK):
                self._paths[key] = self._new()
                self._removed.discard(key)
        return self._real["open"](self._paths.get(key, path), flags, *args, **kwargs)

    # ---- the functions of `os`

    def _reading(self, name):
        real = self._real[name]

        def read(path, *args, **kwargs):
            key = self._key(path) if self._paths or self._removed else None
            if key in self._removed:
                if name == "access":
                    return False
                raise FileNotFoundError(2, os.strerror(2), path)
            return real(self._paths.get(key, path), *args, **kwargs)

        return read

    def _removing(self, name):
        real = self._real[name]

        def remove(path, *args, **kwargs):
            key = self._key(path)
            if key is None or kwargs or key in self._made or not self._is_writing:
                self._made.discard(key)
                return real(path, *args, **kwargs)
            private = self._paths.pop(key, None)
            if private is not None:
                self._real["remove"](private)
            self._removed.add(key)

        return remove

    def _renaming(self, name):
        real = self._real[name]

        def rename(source, target, *args, **kwargs):
            key, new = self._key(source), self._key(target)
            if key is None or new is None or kwargs:
                return real(source, target, *args, **kwargs)
            private = self._paths.pop(key, None)
            if private is None and not self._is_writing:
                return real(source, target, *args, **kwargs)
            if private is None:
                status = self._status(source)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    return None  # rank 0 renames it
                private = self._new()
                if key in self._made:
                    shutil.move(source, private)
                elif status is not None:  # else rank 0 has renamed it already
                    shutil.copyfile(source, private)
            self._removed.add(key)
            self._removed.discard(new)
            self._paths[new] = private

        return rename

    def _mkdir(self, path, mode=0o777, **kwargs):
        self._real["mkdir"](path, mode, **kwargs)
        key = self._key(path)
        self._removed.discard(key)
        if key and mode != _TEMPORARY:
            self._folders.add(key)  # also while rank 0 removes it and makes it again
        elif key:
            self._made.add(key)
            self._shared.append(key)

    def _remove_tree(self, path, *args, **kwargs):
        key = self._key(path)
        if key is None or not self._is_writing:  # within a temporary folder, or one itself
            return self._rmtree(path, *args, **kwargs)
        inside = os.path.join(key, "")
        for other in [p for p in self._paths if p.startswith(inside)]:
            del self._paths[other]
        self._folders = {p for p in self._folders if p != key and not p.startswith(inside)}
        self._removed.add(key)

    def _listdir(self, path="."):
        names = self._real["listdir"](path)
        return names if isinstance(path, int) else [*self._names(path, names)]

    def _scandir(self, path="."):
        entries = self._real["scandir"](path)
        if isinstance(path, int) or not (self._paths or self._removed):
            return entries
        with entries:
            by_name = {entry.name: entry for entry in entries}
        names = self._names(path, by_name)
        return Entries([by_name.get(n) or Entry(os.path.join(path, n), n) for n in names])

    def _names(self, path, names):
        """Names in a folder, as this process sees it."""
        folder = os.path.abspath(os.fspath(path))
        if isinstance(folder, bytes):
            return list(names)
        own = [p for p in self._paths if os.path.dirname(p) == folder]
        gone = {os.path.basename(p) for p in self._removed if os.path.dirname(p) == folder}
        every = dict.fromkeys([*names, *map(os.path.basename, own)])
        return [name for name in every if name not in gone]

    # ---- paths

    def _key(self, path):
        """The absolute path of a file; None if it is none, or one of a shared folder."""
        if isinstance(path, int):
            return None
        key = os.path.abspath(os.fsdecode(path))
        if any(key == folder or key.startswith(folder + os.sep) for folder in self._shared):
            return None
        return key

    def _status(self, path):
        try:
            return self._real["stat"](path)
        except OSError:
            return None

    def _new(self):
        self._count += 1
        return os.path.join(self._folder, str(self._count))


_PATCHED = (
    *("open", "stat", "lstat", "access", "chmod", "utime", "remove", "unlink", "rmdir"),
    *("rename", "replace", "mkdir", "listdir", "scandir"),
)


def tolerate_folders():
    """Let `os.mkdir` of a folder that exists do nothing: another rank may have made it."""
    real, status = os.mkdir, os.stat

    def mkdir(path, mode=0o777, **kwargs):
        try:
            real(path, mode, **kwargs)
        except FileExistsError:
            if mode == _TEMPORARY or not stat.S_ISDIR(status(path).st_mode):
                raise

    os.mkdir = mkdir
