"""The import statement of a translated module: old names are found, and neighbours first."""

import builtins
import functools
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from pd_v2.python2.shims import views

# What Python 2 had imported itself before it came to a program, and so no program replaced.
# fmt: off
_EARLIEST = {
    *sys.builtin_module_names, "UserDict", "abc", "codecs", "copy_reg", "encodings", "genericpath",
    "linecache", "os", "posixpath", "re", "site", "sitecustomize", "stat", "sysconfig", "traceback",
    "types", "usercustomize", "warnings",
}
# fmt: on


def import_module(implicit, name, globals=None, locals=None, fromlist=(), level=0):
    """`__import__` of a translated module; implicit says that a neighbour comes before the rest."""
    top = name.partition(".")[0]
    package = (globals or {}).get("__package__")
    if level <= 0 and implicit and package in sys.modules and _exists(f"{package}.{top}"):
        level = 1
    level = max(level, 0)  # -1 said implicit to Python 2
    if level == 0 and name == top:
        module = _own_module(name)
        if module is not None:
            return module
    if level == 0 and views.has_view(top) and not _is_own(top):
        return _import_view(name, fromlist)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


def _own_module(name):
    """The program's module of a name under which somebody else has imported another before.

    That is one of the standard library of today or a package of ours, of which the program knows
    nothing; and whoever imports it again wants that one.
    """
    if name not in sys.modules or name in _EARLIEST or _is_own(name):
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
    """The spec of the program's module that is the first of its name on sys.path."""
    spec = PathFinder.find_spec(name, path)
    is_module = spec is not None and spec.submodule_search_locations is None
    return spec if is_module and _is_of_program(spec) else None


def _is_own(name):
    """Whether the program has a module of that name itself."""
    if sys.modules.get(name) is not None:
        spec = getattr(sys.modules[name], "__spec__", None)
        return spec is None or _is_of_program(spec)
    spec = find_spec(name)
    return spec is not None and _is_of_program(spec)


def _is_of_program(spec):
    return getattr(spec.loader, "is_of_program", False)


def _exists(name):
    """Whether a module can be imported, or has been; a program may have made it itself."""
    return name in sys.modules or find_spec(name) is not None


def _import_view(name, from_list):
    """A view, or what a dotted name leads to in it where names are to be taken from that."""
    top, *rest = name.split(".")
    found = view = views.view(top)
    for i, part in enumerate(rest, 2):
        if not hasattr(found, part):
            builtins.__import__(".".join(name.split(".")[:i]))
        found = getattr(found, part)
    for part in from_list or ():
        if part != "*" and not hasattr(found, part) and hasattr(found, "__path__"):
            _import_submodule(f"{found.__name__}.{part}")
    return found if from_list else view


def _import_submodule(name):
    """`from package import module`, where the module has not been imported yet."""
    if _exists(name):
        builtins.__import__(name)
