"""Loading of values into layers, now or when they are built."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.misfits import Misfits
from ..graph.names import open_prefixes
from ..graph.variable import Variable
from ..run.session import default_session

if TYPE_CHECKING:
    from .layer import Layer

_HINT = "  hint: strict=False loads what fits, and returns the names"


class Prefix(str):
    """The full name of a layer and a slash, which knows the layer that is called under it."""

    layer: Any = None  # a weak reference


def callers() -> Iterable["Layer"]:
    """Return the layers whose calls are going on, the innermost first."""
    layers = [p.layer() for p in reversed(open_prefixes()) if isinstance(p, Prefix)]
    return [layer for layer in layers if layer is not None]


def load(root: "Layer", values: Mapping[str, ArrayLike], strict: bool) -> Misfits:
    """Set what is built below a layer, and keep the other values for what will be."""
    who = f"{type(root).__name__}.load_dict"
    if not isinstance(values, Mapping):
        raise TypeError(f"{who}: takes a dict of values by name, not a {type(values).__name__}")
    built: dict[Variable, np.ndarray] = {}
    later: list[tuple[Layer, str, np.ndarray]] = []
    unexpected: list[str] = []
    for key, value in values.items():
        if not isinstance(key, str):
            raise TypeError(f"{who}: names are text, not {key!r}")
        layer, name = root._owner(key)
        v, array = layer._parts()[1].get(name), np.array(value)
        if array.dtype.kind not in "fiub":
            raise DTypeError(f"{who}: the value of {key} is {array.dtype}, not numbers")
        if v is not None:
            check_shape(v.name, array, v.dims)
            built[v] = array
            continue
        later.append((layer, name, array))
        if layer._is_whole():
            unexpected.append(key)
    missing = [name for name, v, _ in root._named_variables() if v not in built]
    misfits = Misfits(missing, unexpected)
    if strict and any(misfits):
        known = [name for name, _, _ in root._named_variables()]
        raise GraphError(f"{misfits.text(who, known)}\n{_HINT}")
    default_session().load_values(built)
    for _, layer in root._walk():
        if strict:
            layer._loaded.clear()  # what was loaded before and waits
        layer._is_strict = strict and not layer._is_whole()
        layer._lacking.clear()
    for layer, name, array in later:
        layer._loaded[name] = array
    return misfits


def check_filled(layer: "Layer") -> None:
    """Check at the end of a first call that what was loaded before is what was built.

    The outermost layer that waits for values checks all below it, so that the error is complete.
    """
    if any(caller._is_strict for caller in callers() if caller is not layer):
        return
    below = [(path, each) for path, each in layer._walk() if each._is_strict and each._is_called]
    lacking = {id(each): each._lacking for _, each in below}
    named = layer._named_parts()
    missing = [path + name for path, each, name, _ in named if name in lacking.get(id(each), ())]
    unexpected = [path + name for path, each in below for name in each._loaded]
    if missing or unexpected:
        misfits = Misfits(missing, unexpected)
        who = f"{layer.full_name()}: load_dict was given other values than are built"
        known = [name for name, _, _ in layer._named_variables()]
        raise GraphError(f"{misfits.text(who, known)}\n{_HINT}")
    for _, each in below:
        each._is_strict = False


def check_shape(name: str, value: np.ndarray, shape: Iterable[Any]) -> None:
    """Check that a loaded value has the shape of its variable."""
    if value.shape != tuple(shape):
        raise ShapeError(f"{name}: a value of {list(value.shape)} is loaded, it is {list(shape)}")
