"""The module imp."""

import importlib
import importlib.machinery as machinery
import os
import sys
import types
from importlib.util import MAGIC_NUMBER, module_from_spec, spec_from_file_location

from pd_v2.python2 import importer
from pd_v2.python2.shims.files import File
from pd_v2.python2.shims.views import View

SEARCH_ERROR, PY_SOURCE, PY_COMPILED, C_EXTENSION, PY_RESOURCE = range(5)
PKG_DIRECTORY, C_BUILTIN, PY_FROZEN, PY_CODERESOURCE, IMP_HOOK = range(5, 10)

_SUFFIXES = (
    *((suffix, "rb", C_EXTENSION) for suffix in machinery.EXTENSION_SUFFIXES),
    *((suffix, "U", PY_SOURCE) for suffix in machinery.SOURCE_SUFFIXES),
    *((suffix, "rb", PY_COMPILED) for suffix in machinery.BYTECODE_SUFFIXES),
)


class NullImporter:
    """Finder for a path that is not a folder, which finds nothing."""

    def __init__(self, path):
        if path == "" or os.path.isdir(path):
            raise ImportError("empty pathname" if path == "" else "existing directory")

    def find_module(self, fullname, path=None):
        """Return None."""


def get_suffixes():
    """Return (suffix, mode, type) of each kind of module file."""
    return list(_SUFFIXES)


def get_magic():
    """Return the first bytes of a compiled module."""
    return MAGIC_NUMBER


def new_module(name):
    """Create an empty module, which is not in sys.modules."""
    return types.ModuleType(name)


def find_module(name, path=None):
    """Find a module: (file, path, (suffix, mode, type)). ImportError if there is none."""
    spec = None if "." in name else _spec(name, path)
    if spec is None or (spec.loader is None and spec.submodule_search_locations is None):
        raise ImportError(f"No module named {name}")
    if spec.submodule_search_locations is not None:
        return None, next(iter(spec.submodule_search_locations)), ("", "", PKG_DIRECTORY)
    if not spec.has_location:
        kind = PY_FROZEN if spec.origin == "frozen" else C_BUILTIN
        return None, name, ("", "", kind)
    description = _description(spec.origin)
    return _opened(spec.origin, description), spec.origin, description


def _spec(name, path):
    if path is not None:
        return machinery.PathFinder.find_spec(name, path)
    for finder in (machinery.BuiltinImporter, machinery.PathFinder):
        spec = finder.find_spec(name)
        if spec is not None:
            return spec
    return None


def _description(path):
    matching = [row for row in _SUFFIXES if path.endswith(row[0])]
    return max(matching, key=lambda row: len(row[0]))


def _opened(path, description):
    return File(path, "r" if description[1] == "U" else description[1])


def load_module(name, file, filename, description):
    """Load a module from the result of find_module. An imported module is run again."""
    kind = description[2]
    if kind == PY_SOURCE:
        return load_source(name, filename, file)
    if kind == PKG_DIRECTORY:
        return load_package(name, filename)
    if kind in (C_BUILTIN, PY_FROZEN):
        return init_builtin(name)
    if kind == C_EXTENSION:
        return load_dynamic(name, filename, file)
    if kind == PY_COMPILED:
        return load_compiled(name, filename, file)
    raise ImportError(f"Don't know how to import {name} (type code {kind})")


def load_source(name, pathname, file=None):
    """Load the module in a file."""
    open(pathname, "rb").close()
    return importer.load_source(name, pathname)


def load_package(name, pathname):
    """Load the package in a folder."""
    return importer.load_source(name, os.path.join(pathname, "__init__.py"))


def load_compiled(name, pathname, file=None):
    """Load a compiled module of this Python."""
    return importer.load_source(name, pathname, machinery.SourcelessFileLoader(name, pathname))


def load_dynamic(name, pathname, file=None):
    """Load an extension module."""
    loader = machinery.ExtensionFileLoader(name, pathname)
    module = module_from_spec(spec_from_file_location(name, pathname, loader=loader))
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def init_builtin(name):
    """Import a built-in module; return None if there is none of that name."""
    return importlib.import_module(name) if is_builtin(name) or is_frozen(name) else None


init_frozen = init_builtin


def is_builtin(name):
    """Return whether a module is built-in: -1 if it is and cannot be initialized again, else 0."""
    return -1 if name in sys.builtin_module_names else 0


def is_frozen(name):
    """Return whether a module is frozen."""
    return machinery.FrozenImporter.find_spec(name) is not None


def reload(module):
    """Run an imported module again, from its current file."""
    if not isinstance(module, types.ModuleType):
        raise TypeError("reload() argument must be module")
    if isinstance(module, View):
        return module
    name = module.__name__
    if sys.modules.get(name) is not module:
        raise ImportError(f"reload(): module {name} not in sys.modules")
    return importlib.reload(module)


def acquire_lock():
    """Do nothing: imports are locked per module."""


def release_lock():
    """Do nothing."""


def lock_held():
    """Return False."""
    return False
