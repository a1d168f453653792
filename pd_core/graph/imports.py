"""Modules that are imported when another package is, which may be never."""

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def import_with(package: str, module: str) -> None:
    """Import a module as soon as a package is imported: now if it is already.

    A package that has changed so that the module does not fit it is a RuntimeWarning.
    """
    if package in sys.modules:
        _import(package, module)
    else:
        sys.meta_path.insert(0, _Watcher(package, module))


def _import(package: str, module: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        text = f"{package} is another version than {module} is for: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


class _Watcher(MetaPathFinder):
    """Finds one package as the other finders do, and imports a module when it is complete."""

    def __init__(self, package: str, module: str):
        self.package, self.module = package, module

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.package:
            return None
        for finder in [f for f in sys.meta_path if not isinstance(f, _Watcher)]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader(Loader):
    """The loader of the package, and who it really is once it has loaded it."""

    def __init__(self, loader: Any, watcher: _Watcher):
        self._loader, self._watcher = loader, watcher

    def __getattr__(self, name: str) -> Any:  # who looks for a package may ask its loader
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if self._watcher in sys.meta_path:
            sys.meta_path.remove(self._watcher)
        _import(self._watcher.package, self._watcher.module)
