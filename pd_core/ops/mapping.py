"""Functions of one example, applied to a batch."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from ..graph.checks import axis_of
from ..graph.errors import GraphError, ShapeError
from ..graph.nested import flattened, is_nested, is_sequence, unflattened
from ..graph.variable import constant
from .control import scan
from .copies import move_axis

_Result = TypeVar("_Result")
_ARRAYS = (np.ndarray, np.generic, list, tuple)
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
    to compile. Gradients flow through it. Random draws are others for each example; moving
    statistics are updated by each of them, in their order. Numbers, text and other objects whose
    axis is None are given as they are, and a None among the results stays None.

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
        flat = [flattened(a, is_nested) for a in arguments]
        pattern, leaves = [p for p, _ in flat], [v for _, own in flat for v in own]
        axes = _axes(arguments, in_axes)
        values = [
            v if axis is None and not isinstance(v, _ARRAYS) else constant(v)
            for v, axis in zip(leaves, axes, strict=True)
        ]
        axes = [None if a is None else axis_of(x, a) for x, a in zip(values, axes, strict=True)]
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
            result = function(*unflattened(pattern, iter(one)), **options)
            found, ys = flattened(result, is_sequence)
            axes = _spread("out_axes", out_axes, result, is_sequence)
            results[:] = [found, [None if y is None else a for y, a in zip(ys, axes, strict=True)]]
            if any(a is None and y is not None for y, a in zip(ys, axes, strict=True)):
                raise GraphError("vmap: out_axes are axes, all results have the batch")
            # a loop has a result, also where the function has none: of a gradient there may be none
            return None, [y for y in ys if y is not None] or slices[:1]

        _, ys = scan(step, None, inputs)
        found, axes = results
        each = iter(ys)
        moved = [None if axis is None else move_axis(next(each), 0, axis) for axis in axes]
        return unflattened(found, iter(moved))

    return mapped


def _axes(arguments, in_axes):
    """Return the axis of the batch in each leaf of the arguments, or None."""
    if isinstance(in_axes, (list, tuple)) and len(in_axes) != len(arguments):
        raise GraphError(f"vmap: {len(in_axes)} in_axes for {len(arguments)} arguments")
    own = in_axes if is_sequence(in_axes) else [in_axes] * len(arguments)
    pairs = zip(own, arguments, strict=True)
    axes = [axis for a, v in pairs for axis in _spread("in_axes", a, v, is_nested)]
    if all(axis is None for axis in axes):
        raise GraphError("vmap: no argument has a batch")
    return axes


def _spread(what, axes, value, nests):
    """Return the axis of each leaf of a value; axes may be nested as far as they differ."""
    if axes is None or isinstance(axes, (int, np.integer)):
        _, leaves = flattened(value, nests)
        return [None if v is None else axes for v in leaves]
    pairs = None
    if isinstance(value, dict) and isinstance(axes, Mapping) and axes.keys() == value.keys():
        pairs = [(axes[key], part) for key, part in value.items()]
    elif nests(value) and is_sequence(axes) and len(axes) == len(value):
        pairs = list(zip(axes, value, strict=True))
    if pairs is None:
        raise GraphError(f"vmap: {what}={axes!r} are not nested as {value!r}")
    return [axis for own, part in pairs for axis in _spread(what, own, part, nests)]
