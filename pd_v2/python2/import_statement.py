"""The import statement of a translated module: old names are found, and neighbours first."""

import builtins
from importlib.util import find_spec

from pd_v2.python2.shims import views


def import_module(implicit, name, names=None, local_names=None, from_list=(), level=0):
    """`__import__` of a translated module; implicit says that a neighbour comes before the rest."""
    top = name.partition(".")[0]
    package = (names or {}).get("__package__")
    if level <= 0 and implicit and package and find_spec(f"{package}.{top}") is not None:
        level = 1
    level = max(level, 0)  # -1 said implicit to Python 2
    if level == 0 and views.has_view(top) and not _is_own(top):
        return _import_view(name, from_list)
    return builtins.__import__(name, names, local_names, from_list or (), level)


def _is_own(name):
    """Whether the program has a module of that name itself."""
    spec = find_spec(name)
    return spec is not None and getattr(spec.loader, "is_of_program", False)


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
    if find_spec(name) is not None:
        builtins.__import__(name)
