"""Ids, labels and other indices outside of what they choose from: which value, where, what fits."""

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..graph.errors import BackendError, OutOfRange
from ..graph.node import Node, apply
from ..graph.recording import not_recording
from ..graph.variable import Variable

# Arrays for variables, or None where they cannot be computed.
Compute = Callable[[Sequence[Variable]], Sequence[np.ndarray] | None]

# What the kernels of Gather, GatherElements, GatherND and ScatterElements say, and NumPy.
_OUTSIDE = re.compile(
    r"out of data bounds|[Oo]ut of range value|invalid ind|out of bounds|must be within"
)
_AXIS = {"Gather": 0, "GatherElements": 0, "ScatterElements": 0}
_SAME_ORDER = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def is_index_error(error: BackendError) -> bool:
    """Return whether an operator has met an index outside of what it chooses from."""
    return _OUTSIDE.search(error.text) is not None


def explained(error: BackendError, nodes: Iterable[Node], compute: Compute) -> BackendError:
    """Return an OutOfRange that names the value, its row and the range; else the error itself.

    `nodes` are those of the failed program, in its order; `compute` evaluates what they read.
    """
    choosing = [
        node
        for node in nodes
        if (node.op_type in _AXIS or node.op_type == "GatherND")
        and (error.site is None or node.site == error.site)
    ]
    sources = [_source(node) for node in choosing]
    from_zero = {source for source, is_from_zero, _ in sources if is_from_zero}
    with not_recording():
        for node, (source, _, ignored) in zip(choosing, sources, strict=True):
            text = _outside(node, source, source in from_zero, ignored, compute)
            if text is not None:
                operator, site = error.operator or node.op_type, error.site or node.site
                return OutOfRange(text, operator, site, error.place)
    return error


def _outside(node, source, from_zero, ignored, compute):
    """The first index of a node that is outside, in words; None if there is none."""
    data = node.inputs[0]
    sizes = _sizes(node, data)
    unknown = [] if all(isinstance(n, int) for n in sizes) else [apply("Shape", data)]
    arrays = compute([source, *unknown])
    if arrays is None:
        return None
    if unknown:
        sizes = _sizes(node, data, arrays[1])
    values, high = arrays[0], np.array(sizes[0] if node.op_type != "GatherND" else sizes)
    if values.dtype.kind == "f":  # ids in columns of numbers, behind a Cast
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        return None
    bad = (values >= high) | (values < (0 if from_zero else -high))
    places = np.argwhere(bad if ignored is None else bad & (values != ignored))
    if not len(places):
        return None
    place = tuple(places[0])
    size = int(np.broadcast_to(high, values.shape)[place])
    leaf = source.node is None and source.value is None and source.held is None
    who = source.name if leaf else f"index of {node.op_type}"
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    fits = f"{0 if from_zero else -size} … {size - 1}" if size else "an empty range"
    return f"{who}: {values[place]}{_row(place, values.shape)} is outside {fits}{more}"


def _source(node):
    """What an index is a copy of, whether it must not be negative, and the value that is ignored.

    Losses and tables replace a negative index by one that no kernel takes.
    """
    index, from_zero, ignored = node.inputs[1], False, None
    if node.op_type == "GatherND":  # its last axis has a meaning, which another shape lacks
        return index, from_zero, ignored
    while index.node is not None and not index.is_feed:
        node = index.node
        if node.op_type in _SAME_ORDER:
            (index,) = node.inputs[:1]
            continue
        condition = node.inputs[0].node if node.op_type == "Where" else None
        kept = node.inputs[2] if condition is not None else None
        if condition is None or kept is None or condition.inputs[0] is not kept:
            break
        if condition.op_type == "Less":
            from_zero = True
        elif condition.op_type == "Equal" and condition.inputs[1].value is not None:
            ignored = int(condition.inputs[1].value)
        else:
            break
        index = kept
    return index, from_zero, ignored


def _sizes(node, data, shape=None):
    """The sizes of the axes that a node's index chooses along."""
    dims = list(data.dims) if shape is None else [int(n) for n in shape]
    if node.op_type == "GatherND":
        batch = node.attributes.get("batch_dims", 0)
        return dims[batch : batch + node.inputs[1].dims[-1]]
    return [dims[node.attributes.get("axis", 0)]]


def _row(place, shape):
    """A position in words: its row, or all of its axes."""
    if not place:
        return ""
    if all(n == 1 for n in shape[1:]):
        return f" in row {place[0]}"
    return f" at {[int(k) for k in place]}"
