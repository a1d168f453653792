"""Functions of one example, applied to a batch."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from ..graph.checks import axis_of
from ..graph.errors import GraphError, ShapeError
from ..graph.variable import Variable, constant
from .control import scan
from .copies import move_axis

_Result = TypeVar("_Result")
# The axis of the batch, None, or these in the nesting of arguments or results.
Axes = int | None | Sequence[Any] | Mapping[Any, Any]


def vmap(
    function: Callable[..., _Result],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
) -> Callable[..., _Result]:
    """Return a function that applies another to each example of a batch and stacks the results.

    `in_axes` is the axis of the examples, for all arguments or a list with one for each; what has
    None is the same for all of them, as parameters are, and so are keyword arguments. Arguments and
    results may be nested in lists, tuples and dicts; axes then are too, as far as they differ. The
    results have the batch as axis `out_axes`.

    The graph has a loop over the examples (ONNX's Scan): when it is compiled, operators that take a
    batch as well are moved out of it, others are computed for one example after the other. So
    `gradients` of each example can be had; where an op takes batches itself, calling it needs less
    to compile. Gradients flow through it. Random draws are others for each example.

    Args:
        function: a function of one example of each argument.
        in_axes: an axis, None, or one of these for each argument.
        out_axes: the axis of the batch in the results, or one for each.

    Returns:
        A function of batches.

    Raises:
        GraphError: no argument has a batch, axes are not nested as arguments or results are, or
            there are more or fewer in_axes than arguments.
    """

    @wraps(function)
    def mapped(*arguments, **options):
        flat = [_flat(a, _is_nested) for a in arguments]
        pattern, values = [p for p, _ in flat], [v for _, leaves in flat for v in leaves]
        axes = _axes(arguments, values, in_axes)
        batched = [k for k, axis in enumerate(axes) if axis is not None]
        inputs = [move_axis(values[k], axes[k], 0) for k in batched]
        sizes = {x.dims[0] for x in inputs if isinstance(x.dims[0], int)}
        if len(sizes) > 1:
            raise ShapeError(f"vmap: batches of different sizes, {inputs}")
        results: list[Any] = []

        def step(_, slices):
            one = list(values)
            for k, x in zip(batched, slices, strict=True):
                one[k] = x
            result = function(*_nested(pattern, iter(one)), **options)
            found, ys = _flat(result, _is_sequence)
            results[:] = [found, _spread("out_axes", out_axes, result, _is_sequence)]
            return None, ys

        _, ys = scan(step, None, inputs)
        found, axes = results
        if None in axes:
            raise GraphError("vmap: out_axes are axes, all results have the batch")
        moved = [move_axis(y, 0, axis) for y, axis in zip(ys, axes, strict=True)]
        return _nested(found, iter(moved))

    return mapped


def _axes(arguments, values, in_axes):
    """Return the axis of the batch in each value, or None."""
    if isinstance(in_axes, (list, tuple)) and len(in_axes) != len(arguments):
        raise GraphError(f"vmap: {len(in_axes)} in_axes for {len(arguments)} arguments")
    own = in_axes if _is_sequence(in_axes) else [in_axes] * len(arguments)
    pairs = zip(own, arguments, strict=True)
    axes = [axis for a, v in pairs for axis in _spread("in_axes", a, v, _is_nested)]
    if all(axis is None for axis in axes):
        raise GraphError("vmap: no argument has a batch")
    return [None if a is None else axis_of(x, a) for x, a in zip(values, axes, strict=True)]


def _flat(value, is_nested):
    """Return the nesting of a value, with None for each leaf, and the leaves as Variables."""
    if isinstance(value, dict):
        of_keys = {key: _flat(part, is_nested) for key, part in value.items()}
        pattern = {key: found for key, (found, _) in of_keys.items()}
        return pattern, [v for _, leaves in of_keys.values() for v in leaves]
    if is_nested(value):
        parts = [_flat(part, is_nested) for part in value]
        make = getattr(type(value), "_make", type(value))  # a named tuple has several arguments
        return make([found for found, _ in parts]), [v for _, leaves in parts for v in leaves]
    return None, [constant(value)]


def _is_sequence(value):
    return isinstance(value, (list, tuple))


def _is_nested(value):
    """Whether a list or tuple has values in it, rather than the numbers of one array."""
    kinds = (Variable, np.ndarray, dict)
    return _is_sequence(value) and any(isinstance(v, kinds) or _is_nested(v) for v in value)


def _nested(pattern, leaves):
    """Return leaves in the nesting of a pattern."""
    if isinstance(pattern, dict):
        return {key: _nested(part, leaves) for key, part in pattern.items()}
    if isinstance(pattern, (list, tuple)):
        make = getattr(type(pattern), "_make", type(pattern))
        return make([_nested(part, leaves) for part in pattern])
    return next(leaves)


def _spread(what, axes, value, is_nested):
    """Return the axis of each leaf of a value; axes may be nested as far as they differ."""
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes] * len(_flat(value, is_nested)[1])
    pairs = None
    if isinstance(value, dict) and isinstance(axes, Mapping) and axes.keys() == value.keys():
        pairs = [(axes[key], part) for key, part in value.items()]
    elif is_nested(value) and _is_sequence(axes) and len(axes) == len(value):
        pairs = list(zip(axes, value, strict=True))
    if pairs is None:
        raise GraphError(f"vmap: {what}={axes!r} are not nested as {value!r}")
    return [axis for own, part in pairs for axis in _spread(what, own, part, is_nested)]
