"""Summaries of graphs: layers with their sizes, parameters, multiply-adds and memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import ops
from ..graph.errors import GraphError, ShapeError
from ..graph.layers import layers_of, parameters_of
from ..graph.node import Block, Node, ancestors
from ..graph.shown import html_table, rich_table
from ..graph.update import effects
from ..graph.variable import Inputs, Variable, static
from ..ops.mode import SEGMENTS
from ..run.session import Session, default_session
from .multiply_adds import multiply_adds
from .summary import table

_HEADER = ("layer", "operators", "output shape", "parameters", "multiply-adds")
_NO_LAYER = "(no layer)"
_SHOWN = 3  # operators of a layer


@dataclass(frozen=True)
class LayerRow:
    """A layer: its operators, the shape of its last output, own parameters and multiply-adds.

    `multiply_adds` is None where they depend on how often a loop runs.
    """

    name: str
    operators: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: int
    multiply_adds: int | None


@dataclass(frozen=True)
class Summary:
    """The layers of a graph, and totals; `str` of it is a table.

    `activation_bytes` are those of all floats that operators compute: at most what the backward
    pass needs of the forward pass.
    """

    rows: tuple[LayerRow, ...]
    parameters: int
    trainable: int
    parameter_bytes: int
    activation_bytes: int

    @property
    def multiply_adds(self) -> int:
        """The sum over the layers, without those where it is unknown."""
        return sum(row.multiply_adds or 0 for row in self.rows)

    def _lines(self):
        """The rows of the table, and the lines below it."""
        rows = [
            (
                row.name,
                _operators(row.operators),
                str(row.shape),
                f"{row.parameters:,}",
                "?" if row.multiply_adds is None else f"{row.multiply_adds:,}",
            )
            for row in self.rows
        ]
        least = "at least " if any(row.multiply_adds is None for row in self.rows) else ""
        frozen = self.parameters - self.trainable
        return rows, [
            f"parameters: {self.parameters:,}, trainable {self.trainable:,}, "
            f"not trainable {frozen:,}; {_size(self.parameter_bytes)}",
            f"multiply-adds: {least}{self.multiply_adds:,}, two FLOPs each",
            f"activations: {_size(self.activation_bytes)}",
        ]

    def __str__(self) -> str:
        rows, notes = self._lines()
        return "\n".join([*table([_HEADER, *rows], numbers=2), *notes])

    def _repr_html_(self) -> str:
        rows, notes = self._lines()
        return html_table(_HEADER, rows, notes, numbers=2)

    def __rich__(self) -> Any:
        rows, notes = self._lines()
        return rich_table(_HEADER, rows, notes, numbers=2)


def summary(
    targets: Variable | Sequence[Variable],
    feeds: Mapping[Variable, ArrayLike] | None = None,
    sizes: Mapping[str, int] | None = None,
    session: Session | None = None,
) -> Summary:
    """Return the layers behind targets, of any graph: built by functions, by layers, or imported.

    A layer is what reads parameters of one prefix, or a namespace. Each parameter counts at the
    first layer that reads it. `feeds` are arrays or shapes (tuples of sizes) of the variables that
    are fed, `sizes` numbers for sizes with a name; together they have to determine all feeds, but
    for their first sizes: batches are of 1 unless given. Sizes that the graph computes are
    evaluated, for arrays of zeros where shapes are given. The graph is that of inference.

    GraphError for a feed of unknown size, ShapeError for one that does not fit.

    Args:
        targets: Variables.
        feeds: {Variable: array or tuple of sizes}.
        sizes: {name of a size: number}.

    Raises:
        GraphError: a feed has a size that is not known.
        TypeError: a target is no Variable.
    """
    wanted: list[Any] = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    for v in wanted:
        if not isinstance(v, Variable):
            raise TypeError(
                f"summary: takes Variables, not {v!r}\n"
                "  hint: a layer has a table of its own, layer.summary((None, 4))"
            )
    # the mark of a segment that is computed again is no operator of its own
    order = [n for n in ancestors(wanted, select=read_in_inference) if n.op_type not in SEGMENTS]
    known = dict(sizes or {})
    values = _feed_values(order, wanted, feeds or {}, known)
    _evaluate_sizes(order, values, known, session or default_session())
    return _summarized(order, {a.variable for a in effects(wanted)}, {*values}, known)


def read_in_inference(node: Node) -> Inputs:
    """Return the inputs of a node that count in inference."""
    if node.op_type in SEGMENTS:
        return node.inputs[: len(node.outputs)]
    return (node.inputs[1],) if node.op_type == "ModeSwitch" else node.inputs


def _feed_values(order, wanted, feeds, known):
    """{feed: array} of all feeds; the numbers of their sizes are added to `known`."""
    read = [x for node in order for x in read_in_inference(node) if x is not None] + wanted
    slots = [v for v in dict.fromkeys(read) if v.is_feed or v in feeds]
    values: dict[Variable, np.ndarray] = {}
    for v in slots:
        given = feeds.get(v)
        if isinstance(given, tuple):
            values[v] = np.zeros(given, v.dtype)
        elif given is not None:
            values[v] = np.asarray(given, v.dtype)
        if v in values:
            _check_fits(v, values[v].shape)
            _match(v.dims, values[v].shape, known)
    for v in slots:
        if v not in values:
            if v.dims and isinstance(v.dims[0], str):
                known.setdefault(v.dims[0], 1)
            shape = [d if isinstance(d, int) else known.get(d) for d in v.dims]
            if None in shape:
                raise GraphError(
                    f"summary: {v!r} is fed, and its sizes are not all known\n"
                    f"  hint: feeds={{{v.name}: (…)}} gives its shape"
                )
            values[v] = np.zeros(static(shape), v.dtype)
    return values


def _check_fits(v, shape):
    numbers = zip(v.dims, shape, strict=False)
    if v.rank != len(shape) or any(isinstance(d, int) and d != n for d, n in numbers):
        raise ShapeError(
            f"summary: {v!r} is fed with {list(shape)}\n"
            "  hint: a shape is a tuple, other values are arrays"
        )


def _match(dims, shape, known):
    for d, size in zip(dims, shape, strict=False):
        if isinstance(d, str):
            known[d] = int(size)


def _evaluate_sizes(order, values, known, session):
    """Add the sizes that only an evaluation can tell to `known`."""
    names: dict[str, tuple[Variable, int]] = {}
    for node in order:
        for y in node.outputs[: node.visible]:
            for axis, d in enumerate(y.dims):
                if isinstance(d, str) and d not in known:
                    names.setdefault(d, (y, axis))
    variables = list(dict.fromkeys(y for y, _ in names.values()))
    if not variables:
        return
    shapes = session.eval([ops.shape_of(y) for y in variables], values)
    by_variable = dict(zip(variables, shapes, strict=True))
    known.update({d: int(by_variable[y][axis]) for d, (y, axis) in names.items()})


def _summarized(order, moving, fed, known):
    """The Summary of nodes in order, with numbers for the names of sizes."""
    sizes = _numbers(known)
    seen: set[Variable] = set()
    grouped: dict[str, list[Node]] = {}
    for node, layer in layers_of(order, {}).items():
        grouped.setdefault(layer or _NO_LAYER, []).append(node)
    own: dict[str, list[Variable]] = {name: [] for name in grouped}
    for name, nodes in grouped.items():
        for v in (v for node in nodes for v in parameters_of(node, {})):
            if v not in seen and v not in moving and v not in fed:
                own[name].append(v)
                seen.add(v)
    rows = tuple(
        LayerRow(
            name,
            tuple(dict.fromkeys(node.op_type for node in nodes)),
            sizes(nodes[-1].outputs[0]) or (),
            sum(_elements(v) for v in own[name]),
            _total([_counted(node, known) for node in nodes]),
        )
        for name, nodes in grouped.items()
    )
    outputs = [y for node in order for y in node.outputs[: node.visible] if y.dtype.kind == "f"]
    return Summary(
        rows,
        sum(map(_elements, seen)),
        sum(_elements(v) for v in seen if v.trainable),
        sum(_elements(v) * v.dtype.itemsize for v in seen),
        sum(prod(sizes(y) or ()) * y.dtype.itemsize for y in outputs),
    )


def _numbers(known: Mapping) -> Callable[[Variable], tuple[int, ...] | None]:
    def sizes(x):
        shape: Any = [d if isinstance(d, int) else known.get(d) for d in x.dims]
        return None if None in shape else static(shape)

    return sizes


def _elements(v):
    return prod(static(v.dims))


def _total(counts):
    return None if None in counts else sum(counts)


def _counted(node, known):
    """The multiply-adds of a node, with those of its bodies as often as they run."""
    sizes = _numbers(known)
    count = multiply_adds(node, sizes)
    if not node.blocks:
        return count
    bodies = [_body(node, block, known) for block in node.blocks.values()]
    if None in bodies:
        return None
    if node.op_type == "If":
        return max(bodies)
    if not any(bodies):
        return 0
    times = _iterations(node, sizes)
    return None if times is None else times * sum(bodies)


def _body(node: Node, block: Block, known):
    """The multiply-adds of one run of a body; its sizes follow from those of the inputs."""
    inside, sizes = dict(known), _numbers(known)
    scanned = _scanned(node)
    explicit = node.inputs[: len(node.inputs) - len(node.captures)]
    if node.op_type == "If":
        explicit = ()  # the condition is no block input
    for block_input, x in zip(block.inputs, (*explicit, *node.captures), strict=True):
        shape = None if x is None else sizes(x)
        if shape is not None and x in scanned:
            axis = scanned[x] % len(shape)
            shape = shape[:axis] + shape[axis + 1 :]
        if shape is not None:
            _match(block_input.dims, shape, inside)
    order = ancestors(block.outputs, set(block.inputs), read_in_inference)
    return _total([_counted(inner, inside) for inner in order])


def _scanned(node):
    """{input: its axis} of what a Scan runs over."""
    if node.op_type != "Scan":
        return {}
    count = node.attributes["num_scan_inputs"]
    end = len(node.inputs) - len(node.captures)
    axes = node.attributes.get("scan_input_axes") or [0] * count
    return dict(zip(node.inputs[end - count : end], axes, strict=True))


def _iterations(node, sizes):
    """How often the body runs: the steps of a Scan, the constant trip count of a Loop."""
    for x, axis in _scanned(node).items():
        shape = sizes(x)
        return None if shape is None else shape[axis]
    trips = node.inputs[0]
    return None if trips is None or trips.value is None else int(trips.value)


def _operators(op_types):
    shown = ", ".join(op_types[:_SHOWN])
    return shown if len(op_types) <= _SHOWN else f"{shown}, …"


def _size(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} bytes"
