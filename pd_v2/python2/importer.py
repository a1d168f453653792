"""Import of the modules of a program, which are translated; installed modules are not.

Modules are found by importlib's own PathFinder: a path hook creates the finders for folders, zip
files and scripts outside of the standard library and of installed distributions.
"""

import os
import sys
import time
import zipimport
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import module_from_spec, spec_from_file_location

from pd_v2.python2 import installed, process, sources
from pd_v2.python2.namespace import builtins_of
from pd_v2.python2.translate import compile_program

# A folder changed within this time may change again with the same modification time.
_MTIME_RESOLUTION_SECONDS = 2


def install_finder():
    """Install the path hook that finds and translates the modules of programs."""
    if _finder_of not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder_of)
    for entry in list(sys.path_importer_cache):
        if not installed.is_library(entry):
            del sys.path_importer_cache[entry]


def _finder_of(entry):
    """Create the finder for an entry of sys.path; ImportError leaves it to other hooks."""
    if installed.is_library(entry):
        raise ImportError(f"{entry} is not a program's")
    if os.path.isdir(entry):
        return _Folder(entry)
    if os.path.isfile(entry) and not is_zip(entry):
        return _Script(entry)
    return Archive(entry)


def is_zip(path):
    """Return whether a file is a zip file that modules can be imported from."""
    try:
        zipimport.zipimporter(path)
    except ImportError:
        return False
    return True


def loader_of(name, path):
    """Create the loader of the module in a file, which translates it unless it is installed."""
    is_installed = installed.is_installed(path, name)
    return SourceFileLoader(name, path) if is_installed else LocalLoader(name, path)


class _LegacyFinder:
    """Mixin with the method that finders had in 2017."""

    def find_module(self, fullname, path=None):
        """Return the loader of a module, or None."""
        spec = self.find_spec(fullname)
        return spec and spec.loader


class _Folder(_LegacyFinder, FileFinder):
    """Finder of modules in a folder of a program."""

    def __init__(self, path):
        super().__init__(
            path,
            (ExtensionFileLoader, EXTENSION_SUFFIXES),
            (loader_of, SOURCE_SUFFIXES),
            (SourcelessFileLoader, BYTECODE_SUFFIXES),
        )
        self.entry = path

    def find_spec(self, fullname, target=None):
        """Find a module, even if the folder was modified since its listing was cached."""
        self.path = os.path.abspath(self.entry)  # the current folder may have changed
        if os.path.isdir(self.path) and _was_just_modified(self.path):
            self.invalidate_caches()
        return super().find_spec(fullname, target)


def _was_just_modified(folder):
    return time.time() - os.stat(folder).st_mtime < _MTIME_RESOLUTION_SECONDS


class Archive(_LegacyFinder, zipimport.zipimporter):
    """Finder of modules in a zip file of a program."""

    def __init__(self, path):
        super().__init__(os.path.abspath(path))

    def find_spec(self, fullname, target=None):
        """Find a module; zipimport itself would compile its source, which may be Python 2."""
        base = os.path.join(self.archive, self.prefix + fullname.rpartition(".")[2])
        for path in (os.path.join(base, "__init__.py"), base + ".py"):
            if self._has(path):
                packages = None if path == base + ".py" else [base]
                loader = _ArchiveLoader(fullname, path, self)
                return spec_from_file_location(
                    fullname, path, loader=loader, submodule_search_locations=packages
                )
        return super().find_spec(fullname, target)

    def load_module(self, fullname):
        """Import a module, as loaders did in 2017."""
        spec = self.find_spec(fullname)
        if spec is None:
            raise zipimport.ZipImportError(f"can't find module {fullname!r}", name=fullname)
        return load_source(fullname, spec.origin, spec.loader)

    def _has(self, path):
        try:
            self.get_data(path)
        except OSError:
            return False
        return True


class _Script(_LegacyFinder):
    """Finder of a script as `__main__`, for runpy."""

    def __init__(self, path):
        self.path = path

    def find_spec(self, fullname, target=None):
        """Find `__main__`, and nothing else."""
        if fullname != "__main__":
            return None
        path = os.path.abspath(self.path)
        return spec_from_file_location(fullname, path, loader=_ScriptLoader(fullname, path))


class LocalLoader(SourceFileLoader):
    """Loader of a module of the program; it writes no bytecode."""

    is_of_program = True

    def get_code(self, fullname):
        """Return code that runs the module in the namespace it is executed in."""
        run = f"__import__({__name__!r}, fromlist=['run_in']).run_in(globals(), {self.path!r})"
        _loaders[self.path] = self
        return compile(run, __file__, "exec")

    def load(self):
        """Parse the module to a Program."""
        return sources.parse_data(self.get_data(self.path), self.path)

    def exec_module(self, module):
        """Run the module's body."""
        execute(self.load(), self.path, module)

    def load_module(self, fullname=None):
        """Import the module, as loaders did in 2017."""
        return load_source(fullname or self.name, self.path, self)


class _ArchiveLoader(LocalLoader):
    """Loader of a module of the program in a zip file."""

    def __init__(self, fullname, path, archive):
        super().__init__(fullname, path)
        self.archive = archive

    def get_data(self, path):
        """Read a file of the archive."""
        return self.archive.get_data(path)


class _ScriptLoader(LocalLoader):
    """Loader of a script for runpy, without a package and a spec."""


# The loaders whose get_code was called, by path.
_loaders = {}


def load_source(name, path, loader=None):
    """Import the module in a file under a name; an imported one is run again."""
    spec = spec_from_file_location(name, path, loader=loader or loader_of(name, path))
    before = sys.modules.get(name)
    module = sys.modules[name] = before or module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[name]
        raise
    return sys.modules[name]


def run_in(names, path):
    """Run a module of the program in a given namespace."""
    loader = _loaders[path]
    program = loader.load()
    if isinstance(loader, _ScriptLoader):
        names.update(__spec__=None, __loader__=None, __package__=None)
    if names["__name__"] in ("__main__", "__mp_main__"):
        process.configure_for(program)
    execute_in(program, path, names)


def execute(program, path, module):
    """Run a Program as the body of a module."""
    execute_in(program, path, vars(module))


def execute_in(program, path, names):
    """Run a Program in a namespace."""
    names["__builtins__"] = builtins_of(program)
    exec(compile_program(program, path), names)  # noqa: S102  the program that the user runs
