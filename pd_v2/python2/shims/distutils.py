"""The parts of distutils that programs used, for a Python without setuptools."""

import os
import re
import shutil
import types

_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")


def _strtobool(value):
    """Return 1 or 0 for a word such as yes or no."""
    word = value.lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"invalid truth value {word!r}")
    return int(word in _TRUE)


def _mkpath(name, mode=0o777, verbose=1, dry_run=0):
    """Create a folder and its parents, unless they exist."""
    if not dry_run:
        os.makedirs(name, mode, exist_ok=True)


class _LooseVersion:
    """A version number; its numeric parts are compared as numbers."""

    def __init__(self, text):
        self.vstring = text
        parts = (part for part in re.split(r"(\d+|[a-z]+|\.)", text) if part not in ("", "."))
        self.version = [int(part) if part.isdigit() else part for part in parts]

    def __str__(self):
        return self.vstring

    def __eq__(self, other):
        return self.version == _version(other)

    def __lt__(self, other):
        return self.version < _version(other)

    def __le__(self, other):
        return self.version <= _version(other)

    def __gt__(self, other):
        return self.version > _version(other)

    def __ge__(self, other):
        return self.version >= _version(other)

    def __hash__(self):
        return hash(tuple(self.version))


def _version(other):
    return _LooseVersion(other).version if isinstance(other, str) else other.version


util = types.SimpleNamespace(strtobool=_strtobool)
dir_util = types.SimpleNamespace(mkpath=_mkpath, remove_tree=shutil.rmtree)
file_util = types.SimpleNamespace(copy_file=shutil.copy, move_file=shutil.move)
spawn = types.SimpleNamespace(find_executable=shutil.which)
version = types.SimpleNamespace(LooseVersion=_LooseVersion, StrictVersion=_LooseVersion)
