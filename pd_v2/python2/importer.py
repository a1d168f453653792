"""Finds and loads the modules of a program, which are translated; installed ones are not.

Its own are the modules in the folder of the script and in the folders that it adds to sys.path.
"""

import os
import sys
import sysconfig
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader

from pd_v2.python2.namespace import builtins_of
from pd_v2.python2.sources import load_program
from pd_v2.python2.translate import compile_program

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OURS = [os.path.join(_ROOT, package) for package in ("pd_core", "pd_v2")]
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")


@dataclass(frozen=True)
class LocalFinder:
    """Finds modules as ever, and has those of the program loaded by a LocalLoader."""

    script_folder: str
    path_before: tuple  # sys.path as the script finds it
    installed: tuple  # the folders of installed packages

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None  # left to the finders after this one
        if not self.is_local(spec.origin):
            return None
        spec.loader = LocalLoader(name, spec.origin)
        spec.cached = None
        return spec

    def is_local(self, path):
        return not _is_in(path, self.installed) and _is_in(path, self._folders())

    def _folders(self):
        added = [folder for folder in sys.path if folder not in self.path_before]
        return [self.script_folder, *added]


def install_finder(script_folder):
    """Find the modules of a script in its folder, from now on."""
    paths = sysconfig.get_paths()
    installed = (*_OURS, *(paths[name] for name in _INSTALLED))
    sys.meta_path.insert(0, LocalFinder(script_folder, tuple(sys.path), installed))


def _is_in(path, folders):
    path = os.path.realpath(path)
    return any(path.startswith(os.path.realpath(folder) + os.sep) for folder in folders)


class LocalLoader(SourceFileLoader):
    """Loads a module of the program. Nothing is written beside it."""

    is_of_program = True

    def get_code(self, fullname):
        return compile_program(load_program(self.path), self.path)

    def exec_module(self, module):
        execute(load_program(self.path), self.path, module)


def execute(program, path, module):
    """Run a Program as the body of a module."""
    vars(module)["__builtins__"] = builtins_of(program)
    exec(compile_program(program, path), vars(module))
