"""Feeds: arrays for variables, by object or by name, checked for type and shape."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..graph.arrays import as_array, host_array, is_float
from ..graph.errors import DTypeError, FeedError, ShapeError
from ..graph.names import names
from ..graph.node import ancestors
from ..graph.variable import Variable, describe

Feeds = Mapping[Variable | str, ArrayLike]


def fed_shape(value: Any) -> tuple[int, ...]:
    """Return the shape of what is fed, an array or a value on a device, whose shape is a method."""
    shape = np.shape(value)
    return tuple(shape()) if callable(shape) else shape


def variable(key: Variable | str, targets: Callable[[], Sequence[Variable]]) -> Variable:
    """Return the variable of a feed's key; FeedError for an unknown name.

    A name is that of a registered variable, or of one that the variables `targets()` depend on.
    """
    if isinstance(key, Variable):
        return key
    if not isinstance(key, str):
        raise TypeError(f"feeds are keyed by Variables or names, not {key!r}")
    registered = names().variables.get(key)
    if registered is not None:
        return registered
    reached = _variables_behind(targets())
    if key not in reached:
        slots = ", ".join(v.name for v in reached.values() if v.is_feed) or "no feeds"
        raise FeedError(f"there is no variable {key!r} to feed; the targets read {slots}")
    return reached[key]


def _variables_behind(targets: Sequence[Variable]) -> dict[str, Variable]:
    """{name: variable} of the targets and of all that they depend on."""
    order = ancestors(targets)
    variables = [*targets, *(v for node in order for v in (*node.outputs, *node.inputs))]
    return {v.name: v for v in variables if v is not None}


def feed_array(v: Variable, value: ArrayLike, lead: int = 0) -> np.ndarray:
    """Return a value as an array of v's dtype and shape; FeedError or ShapeError if it has others.

    An array of that dtype is not copied. It has so many axes before those of v.
    """
    if (
        isinstance(value, np.ndarray)
        and value.dtype == v.dtype
        and not isinstance(value, np.ma.MaskedArray)
    ):
        array = value
    else:
        array = _cast(v, value)
    dims = v.dims
    if array.ndim != lead + len(dims) or any(
        d != n for d, n in zip(dims, array.shape[lead:], strict=True) if isinstance(d, int)
    ):
        raise ShapeError(f"{v.name}: fed an array of {list(array.shape)}, it is {describe(v)}")
    return np.ascontiguousarray(array) if array.ndim else array


def _cast(v: Variable, value: ArrayLike) -> np.ndarray:
    """A copy in v's dtype.

    Floats do not become ints, not even whole ones: as ids or labels they would be a mistake.
    """
    try:
        array = as_array(value, v.dtype, repr(v))
    except DTypeError as error:
        raise FeedError(str(error)) from None
    if not is_float(v.dtype) and array.size and is_float(host_array(value).dtype):
        raise FeedError(f"{v!r}: cannot take floats")
    return array


def check_persistent(variable: Variable) -> None:
    """Raise a ShapeError for a variable that stores no value."""
    if not variable.is_persistent:
        raise ShapeError(f"{variable!r} keeps no value; feed it instead")
