"""Functions of one example, applied to a batch."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from ..graph.checks import axis_of
from ..graph.errors import GraphError, ShapeError
from ..graph.variable import constant
from .control import as_list, restructure, scan
from .copies import move_axis

_Result = TypeVar("_Result")


def vmap(
    function: Callable[..., _Result],
    in_axes: int | Sequence[int | None] | None = 0,
    out_axes: int = 0,
) -> Callable[..., _Result]:
    """Return a function that applies another to each example of a batch and stacks the results.

    `in_axes` is the axis of the examples, for all arguments or for each; an argument of None is
    the same for all of them, as parameters are. The results, a Variable or a list, have the batch
    as axis `out_axes`. The graph has a loop over the examples (ONNX's Scan): when it is compiled,
    operators that take a batch as well are moved out of it, others are computed for one example
    after the other. So `gradients` of each example can be had; where an op takes batches itself,
    calling it needs less to compile. Gradients flow through it.

    Args:
        function: a function of one example of each argument.
        in_axes: an axis, None, or one of these for each argument.
        out_axes: the axis of the batch in the results.

    Returns:
        A function of batches.

    Raises:
        GraphError: no argument has a batch, or there are more or fewer in_axes than arguments.
    """

    @wraps(function)
    def mapped(*arguments):
        values = [constant(v) for v in arguments]
        axes = _axes(values, in_axes)
        batched = [k for k, axis in enumerate(axes) if axis is not None]
        inputs = [move_axis(values[k], axes[k], 0) for k in batched]
        sizes = {x.dims[0] for x in inputs if isinstance(x.dims[0], int)}
        if len(sizes) > 1:
            raise ShapeError(f"vmap: batches of different sizes, {inputs}")

        def step(_, slices):
            one = list(values)
            for k, x in zip(batched, slices, strict=True):
                one[k] = x
            return None, function(*one)

        _, results = scan(step, None, inputs)
        moved = [move_axis(y, 0, out_axes) for y in as_list(results)]
        return restructure(results, moved)

    return mapped


def _axes(values, in_axes):
    """Return the axis of the batch in each argument, or None."""
    several = isinstance(in_axes, (list, tuple))
    axes = list(in_axes) if several else [in_axes] * len(values)
    if len(axes) != len(values):
        raise GraphError(f"vmap: {len(axes)} in_axes for {len(values)} arguments")
    if all(axis is None for axis in axes):
        raise GraphError("vmap: no argument has a batch")
    return [None if a is None else axis_of(x, a) for x, a in zip(values, axes, strict=True)]
