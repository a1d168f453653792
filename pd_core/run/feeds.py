"""Feeds: arrays for variables, found by object or by name, in the right type and shape."""

import numpy as np

from ..graph.errors import DTypeError, FeedError, ShapeError
from ..graph.names import names
from ..graph.node import ancestors
from ..graph.variable import Variable, as_array, describe


def feed_arrays(feeds, targets) -> dict:
    """Feeds as {Variable: array}; names are of registered variables or behind `targets()`."""
    out = {}
    for key, value in feeds.items():
        v = variable(key, targets)
        if v in out:
            raise FeedError(f"{v!r} is fed twice, once by its name")
        out[v] = feed_array(v, value)
    return out


def variable(key, targets) -> Variable:
    """The variable that a Variable or a name stands for."""
    if isinstance(key, Variable):
        return key
    if not isinstance(key, str):
        raise TypeError(f"feeds are keyed by Variables or names, not {key!r}")
    registered = names().variables.get(key)
    if registered is not None:
        return registered
    near = _behind(targets())
    if key not in near:
        slots = ", ".join(v.name for v in near.values() if v.is_feed) or "no feeds"
        raise FeedError(f"there is no variable {key!r} to feed; the targets read {slots}")
    return near[key]


def _behind(targets):
    """Variables by name, on the way to the targets."""
    order = ancestors(targets)
    found = [*targets, *(v for node in order for v in (*node.outputs, *node.inputs))]
    return {v.name: v for v in found if v is not None}


def feed_array(v, value) -> np.ndarray:
    """A value as an array of v's dtype and shape; FeedError or ShapeError where it does not fit."""
    fits = isinstance(value, np.ndarray) and value.dtype == v.dtype
    array = value if fits and not isinstance(value, np.ma.MaskedArray) else _cast(v, value)
    if array.ndim != v.rank or any(
        d != n for d, n in zip(v.dims, array.shape, strict=True) if isinstance(d, int)
    ):
        raise ShapeError(f"{v.name}: fed an array of {list(array.shape)}, it is {describe(v)}")
    return np.ascontiguousarray(array) if array.ndim else array


def _cast(v, value):
    """In v's dtype; floats stay floats, even whole ones: ids and labels are never computed."""
    try:
        array = as_array(value, v.dtype, repr(v))
    except DTypeError as error:
        raise FeedError(str(error)) from None
    if v.dtype.kind != "f" and array.size and np.asarray(value).dtype.kind == "f":
        raise FeedError(f"{v!r}: cannot take floats")
    return array
