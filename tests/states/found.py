"""The classes with state, by inspection of the packages."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import pd_core
import pd_v2
from pd_core.training import RunnerItem

ROOT = Path(__file__).resolve().parents[2]
PAIRS = (
    ("state", "restore"),
    ("state", "load_state"),
    ("state_dict", "load_dict"),
    ("save", "load"),
    ("to_tar", "from_tar"),
)
LONE = ("restore", "load_state", "load_dict", "__getstate__", "__setstate__", "__deepcopy__")
# their modules belong to the interpreter of Python 2 programs, or ask for downloads
NOT_IMPORTED = ("__main__", "pd_v2.python2", "pd_v2.py_paddle", "pd_v2.dataset")


def modules() -> list[ModuleType]:
    """Return the modules of both packages."""
    found = []
    for package in (pd_core, pd_v2):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in info.name for part in NOT_IMPORTED):
                found += _imported(info.name)
    return found


def _imported(name):
    """Return a module in a list, none of a library that is not installed."""
    try:
        return [importlib.import_module(name)]
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith(("pd_core", "pd_v2")):
            raise
        return []


def stateful() -> dict[str, type]:
    """Return the public classes with methods that give a state or take one, by full name."""
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and not name.startswith("_") and has_state(value):
                found[f"{module.__name__}.{name}"] = value
    return found


def has_state(kind: type) -> bool:
    """Return whether a class, or a base of it in our packages, defines such methods."""
    ours = [k for k in kind.__mro__ if k.__module__.startswith(("pd_core.", "pd_v2."))]
    methods = {name for k in ours for name in vars(k) if callable(getattr(k, name))}
    is_protocol = getattr(kind, "_is_protocol", False)
    if issubclass(kind, RunnerItem) and kind.state is RunnerItem.state:
        return False
    pairs = any(a in methods and b in methods for a, b in PAIRS)
    dataclass = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields")
    return not is_protocol and (pairs or (not dataclass and any(m in methods for m in LONE)))
