"""Ids, labels and other indices outside of what they choose from: which value, where, what fits."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph.errors import BackendError, OutOfRange
from ..graph.node import Node, apply
from ..graph.recording import not_recording
from ..graph.variable import Dim, Variable

# Arrays for variables, or None where they cannot be computed.
Compute = Callable[[Sequence[Variable]], Sequence[np.ndarray] | None]

# What the kernels of operators with an index say, and NumPy.
_OUTSIDE = re.compile(
    r"out of data bounds|[Oo]ut of range value|invalid ind|out of bounds|must be within"
)
# The number in it, and the range if it is there.
_NUMBER = re.compile(r"(?:idx|indice|index|Actual value is|value)[ =:]*(-?\d+)")
_RANGE = re.compile(r"\[\s*(-?\d+)\s*,\s*(-?\d+)\s*\]")
_ALONG_AN_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements"})
_BY_ROWS = frozenset({"GatherND", "ScatterND"})
# The elements of their outputs are those of an input, in the order of that.
_SAME_ORDER = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def is_index_error(error: BackendError) -> bool:
    """Return whether an operator has met an index outside of what it chooses from."""
    return kind_of_index_error(error) is not None


def kind_of_index_error(error: BackendError) -> str | None:
    """Return the words for an index outside of what it chooses from; None of another error."""
    words = _OUTSIDE.search(error.text)
    return None if words is None else words[0]


def explained(error: BackendError, nodes: Iterable[Node], compute: Compute) -> BackendError:
    """Return an OutOfRange that names the value, its row and the range.

    `nodes` are those of the failed program, in its order; `compute` evaluates what they read. In
    the body of a loop, which cannot be computed, the row is not known.
    """
    choosing = [n for n in nodes if n.op_type in _ALONG_AN_AXIS or n.op_type in _BY_ROWS]
    here = [error.site is None or node.site == error.site for node in choosing]
    found: tuple[Node, str] | None = None
    # What is computed from an index may have been read before the index itself, elsewhere.
    for at in (True, False):
        chosen = [node for node, is_here in zip(choosing, here, strict=True) if is_here is at]
        for node, index, text in _outside_of(chosen, choosing, compute):
            if _is_leaf(index.source):
                return _named(error, node, text)
            if at and found is None:
                found = node, text
    return _by_kernel(error) if found is None else _named(error, *found)


def _named(error: BackendError, node: Node, text: str) -> BackendError:
    """An OutOfRange with the line of a node."""
    operator = error.operator if error.site in (None, node.site) else None
    return OutOfRange(text, operator or node.op_type, node.site, error.place)


def _outside_of(
    nodes: Iterable[Node], choosing: Iterable[Node], compute: Compute
) -> Iterator[tuple[Node, "_Index", str]]:
    """The indices of nodes that are outside, in words; `choosing` are all nodes with an index."""
    indices = (index for node in choosing for index in _indices(node))
    from_zero = {index.source for index in indices if index.from_zero}
    for node in nodes:
        for index in _indices(node):
            if index.source in from_zero:
                index = replace(index, from_zero=True)
            with not_recording():
                text = _outside(node, index, compute)
            if text is not None:
                yield node, index, text


def _by_kernel(error: BackendError) -> BackendError:
    """An OutOfRange with what the kernel says; the error itself if that is not known."""
    words = _OUTSIDE.search(error.text)
    said = error.text[words.start() :] if words else ""
    number, fits = _NUMBER.search(said), _RANGE.search(said)
    if number is None:
        return error
    outside = f" is outside {fits[1]} … {fits[2]}" if fits else " is outside of what it indexes"
    text = f"index: {number[1]}{outside}"
    return OutOfRange(text, error.operator, error.site, error.place)


@dataclass(frozen=True)
class _Index:
    """The source of an index, which copies its elements.

    `from_zero` if it must not be negative: losses and tables replace a negative index by one that
    no kernel takes. `ignored` is a value that may stand anywhere, `column` the one that it is in
    the rows of an index of several axes; None for all of them.
    """

    source: Variable
    from_zero: bool = False
    ignored: int | None = None
    column: int | None = None


def _indices(node: Node) -> Iterator[_Index]:
    """The sources of the index of a node: of a concatenation those of its parts."""
    index = node.inputs[1]
    if node.op_type in _ALONG_AN_AXIS:
        yield from _parts(_Index(index))
        return
    stacked = index.node
    if stacked is not None and stacked.op_type == "Concat" and not index.is_feed:
        axis = stacked.attributes["axis"] % index.rank
        if axis == index.rank - 1 and all(v.dims[-1] == 1 for v in stacked.inputs):
            for column, part in enumerate(stacked.inputs):
                yield from _parts(_Index(part, column=column))
    yield _Index(index)  # its last axis has a meaning, which another shape lacks


def _parts(index: _Index) -> Iterator[_Index]:
    """Follow an index back to what it is a copy of."""
    while index.source.node is not None and not index.source.is_feed:
        node = index.source.node
        if node.op_type in _SAME_ORDER or (node.op_type == "Expand" and index.column is not None):
            index = replace(index, source=node.inputs[0])
            continue
        if node.op_type == "Concat":
            for part in node.inputs:
                yield from _parts(replace(index, source=part))
            return
        condition = node.inputs[0].node if node.op_type == "Where" else None
        kept = node.inputs[2] if condition is not None else None
        if condition is None or kept is None or condition.inputs[0] is not kept:
            break
        if condition.op_type == "Less":
            index = replace(index, source=kept, from_zero=True)
        elif condition.op_type == "Equal" and condition.inputs[1].value is not None:
            index = replace(index, source=kept, ignored=int(condition.inputs[1].value))
        else:
            break
    yield index


def _outside(node: Node, index: _Index, compute: Compute) -> str | None:
    """The first index of a node that is outside, in words; None if there is none."""
    source, data = index.source, node.inputs[0]
    sizes = _sizes(node, data.dims)
    unknown = [] if all(isinstance(n, int) for n in sizes) else [apply("Shape", data)]
    arrays = compute([source, *unknown])
    if arrays is None:
        return None
    if unknown:
        sizes = _sizes(node, [int(n) for n in arrays[1]])
    if index.column is not None:
        sizes = sizes[index.column : index.column + 1]
    values = arrays[0]
    by_rows = node.op_type in _BY_ROWS and index.column is None
    high = np.array(sizes[: values.shape[-1]] if by_rows else sizes[0])
    if values.dtype.kind == "f":  # ids in columns of numbers, behind a Cast
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        return None
    bad = (values >= high) | (values < (0 if index.from_zero else -high))
    places = np.argwhere(bad if index.ignored is None else bad & (values != index.ignored))
    if not len(places):
        return None
    place = tuple(places[0])
    size = int(np.broadcast_to(high, values.shape)[place])
    who = source.name if _is_leaf(source) else f"index of {node.op_type}"
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    fits = f"{0 if index.from_zero else -size} … {size - 1}" if size else "an empty range"
    return f"{who}: {values[place]}{_row(place, values.shape)} is outside {fits}{more}"


def _is_leaf(source: Variable) -> bool:
    """Whether a value is fed or stored, and has a name that a user knows."""
    return source.node is None and source.value is None and source.eager_value is None


def _sizes(node: Node, dims: Sequence[Dim]) -> list[Dim]:
    """The sizes of the axes that a node's index chooses along."""
    if node.op_type in _BY_ROWS:
        batch = node.attributes.get("batch_dims", 0)
        columns = node.inputs[1].dims[-1]
        return list(dims[batch : batch + columns if isinstance(columns, int) else None])
    return [dims[node.attributes.get("axis", 0)]]


def _row(place: Sequence[int], shape: Sequence[int]) -> str:
    """A position in words: its row, or all of its axes."""
    if not place:
        return ""
    if all(n == 1 for n in shape[1:]):
        return f" in row {place[0]}"
    return f" at {[int(k) for k in place]}"
