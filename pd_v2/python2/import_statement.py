"""The import statement of a translated module: Python 2's module names, and implicit siblings."""

import builtins
import functools
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from pd_v2.python2.shims import views

# Modules that Python 2 imported at startup, so that no program could replace them.
# fmt: off
_STARTUP_MODULES = {
    *sys.builtin_module_names, "UserDict", "abc", "codecs", "copy_reg", "encodings", "genericpath",
    "linecache", "os", "posixpath", "re", "site", "sitecustomize", "stat", "sysconfig", "traceback",
    "types", "usercustomize", "warnings",
}
# fmt: on


def import_module(implicit, name, globals=None, locals=None, fromlist=(), level=0):
    """`__import__` of a translated module; with `implicit`, siblings come first."""
    top = name.partition(".")[0]
    package = (globals or {}).get("__package__")
    if level <= 0 and implicit and package in sys.modules and _exists(f"{package}.{top}"):
        level = 1
    level = max(level, 0)  # -1 meant implicit in Python 2
    if level == 0 and name == top:
        module = _own_module(name)
        if module is not None:
            return module
    if level == 0 and views.has_view(top) and not _is_own(top):
        return _import_view(name, fromlist)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


def _own_module(name):
    """Return the program's module, if another one is in sys.modules under its name, or None.

    The other one is in Python 3's standard library or among this package's dependencies; it stays
    in sys.modules for the code that needs it.
    """
    if name not in sys.modules or name in _STARTUP_MODULES or _is_own(name):
        return None
    if name not in _own_modules:
        spec = _own_spec(name, tuple(sys.path))
        if spec is None:
            return None
        module = _own_modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del _own_modules[name]
            raise
    return _own_modules[name]


_own_modules = {}


@functools.lru_cache(maxsize=1024)
def _own_spec(name, path):
    """Return the spec of the first module of a name on sys.path, if it is the program's."""
    spec = PathFinder.find_spec(name, path)
    is_module = spec is not None and spec.submodule_search_locations is None
    return spec if is_module and _is_of_program(spec) else None


def _is_own(name):
    """Return whether the program has its own module of a name."""
    if sys.modules.get(name) is not None:
        spec = getattr(sys.modules[name], "__spec__", None)
        return spec is None or _is_of_program(spec)
    spec = find_spec(name)
    return spec is not None and _is_of_program(spec)


def _is_of_program(spec):
    return getattr(spec.loader, "is_of_program", False)


def _exists(name):
    """Return whether a module can be imported, or is in sys.modules."""
    return name in sys.modules or find_spec(name) is not None


def _import_view(name, from_list):
    """Import a view; return its submodule of a dotted name if there is a from list."""
    top, *rest = name.split(".")
    module = view = views.view(top)
    for i, part in enumerate(rest, 2):
        if not hasattr(module, part):
            builtins.__import__(".".join(name.split(".")[:i]))
        module = getattr(module, part)
    for part in from_list or ():
        if part != "*" and not hasattr(module, part) and hasattr(module, "__path__"):
            _import_submodule(f"{module.__name__}.{part}")
    return module if from_list else view


def _import_submodule(name):
    """Import a submodule for `from package import module`, if there is one."""
    if _exists(name):
        builtins.__import__(name)
