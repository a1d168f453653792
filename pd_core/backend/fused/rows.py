"""Operators on rows of tables that the runtime is slow at: values added at an index, and sorting.

The gradient of an embedding is added to the rows that were read. The runtime's ScatterElements
works out the place of each number; here a row is one place. What is added, and in which order, is
the same. Indices are sorted where those that are equal become one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, helper

from .clusters import ordered
from .operators import FLOAT, INT32, INT64, RESHAPES, attributes
from .sizes import ONE, Dim, Kind, Values, product, quotient

DOMAIN = "pd.rows"
_ADDS = {INT64: "AddRows64", INT32: "AddRows32"}  # by the type of the index


@dataclass
class Found:
    """Counts of the operators: additions to rows, and sorts."""

    additions: int = 0
    sorts: int = 0


def fuse(
    model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[Dim, Dim]] = ()
) -> tuple[str | None, Found]:
    """Replace operators of a model, those in bodies included, by those of the domain `pd.rows`.

    `kinds` are the types of all values, `equal` pairs of sizes that are equal at run time. Returns
    (the C source of the operators, or None if there are none, counts of them).
    """
    values, found = Values(model, kinds, equal), Found()
    _graph(model.graph, values, found)
    if not found.additions + found.sorts:
        return None, found
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return source(), found


@cache
def source() -> str:
    """Return the C source of the operators."""
    here = Path(__file__).parent
    return "\n".join((here / name).read_text(encoding="utf-8") for name in ("prelude.c", "rows.c"))


def _graph(graph: GraphProto, values: Values, found: Found) -> None:
    makers = {y: node for node in graph.node for y in node.output if y}
    nodes = []
    for node in graph.node:
        for a in node.attribute:
            if a.type == a.GRAPH:
                _graph(a.g, values, found)
        made = _addition(node, values, makers)
        found.additions += made is not None
        if made is None:
            made = _sort(node, values)
            found.sorts += made is not None
        nodes.append(node if made is None else made)
    if any(node.domain == DOMAIN for node in nodes):
        nodes = ordered(
            nodes, [v.name for v in graph.output]
        )  # without what nothing reads any more
        del graph.node[:]
        graph.node.extend(nodes)


def _addition(node: NodeProto, values: Values, makers: Mapping[str, NodeProto]) -> NodeProto | None:
    """Values added to elements along the only axis, or to rows; None for anything else."""
    if node.op_type != "ScatterElements" or node.domain:
        return None
    given = attributes(node)
    if given.get("reduction", b"none") != b"add" or any(x not in values for x in node.input):
        return None
    x, index, added = node.input
    dims = [values.dims(v) for v in node.input]
    if values.kind(x) != FLOAT or values.kind(index) not in _ADDS:
        return None
    if not dims[0] or given.get("axis", 0) % len(dims[0]) or dims[1] != dims[2]:
        return None
    if any(d != ONE for own in dims for d in own[1:]):
        return None
    width = 1
    rows = _rows(index, values, makers)
    if rows is not None and quotient(dims[0][0], (rows[1], ())) is not None:
        index, width = rows
    index, added = (_same_order(v, values, makers) for v in (index, added))
    return helper.make_node(
        _ADDS[values.kind(index)],
        [x, index, added],
        list(node.output),
        name=node.name,
        domain=DOMAIN,
        width=width,
    )


def _rows(index, values, makers) -> tuple[str, int] | None:
    """(the index [N] of rows, their width) where `index` has each element of the rows in order."""
    total = makers.get(_same_order(index, values, makers))
    if total is None or total.op_type != "Add":
        return None
    first = makers.get(total.input[0])
    columns = values.integers(total.input[1])
    if first is None or first.op_type != "Mul" or columns is None or first.input[0] not in values:
        return None
    rows, width = first.input[0], len(columns)
    dims = values.dims(rows)
    if columns != list(range(width)) or values.integers(first.input[1]) != [width]:
        return None
    if not width or not dims or dims[-1] != ONE or values.kind(rows) not in _ADDS:
        return None
    whole = product(*dims, (width, ()))
    return (rows, width) if product(*values.dims(total.output[0])) == whole else None


def _same_order(x, values, makers) -> str:
    """The value that x has the elements of, in their order."""
    while x in makers:
        node = makers[x]
        is_view = node.op_type in RESHAPES or (node.op_type == "Concat" and len(node.input) == 1)
        if node.domain or not is_view or node.input[0] not in values:
            break
        x = node.input[0]
    return x


def _sort(node: NodeProto, values: Values) -> NodeProto | None:
    """All integers of a vector in ascending order; None for anything else."""
    if node.op_type != "TopK" or node.domain:
        return None
    given, x = attributes(node), node.input[0]
    known = [y for y in node.output if y in values]  # the sizes of one are those of the other
    if given.get("largest", 1) or not given.get("sorted", 1) or x not in values:
        return None
    dims = values.dims(x)
    if values.kind(x) != INT64 or len(dims) != 1 or dims not in map(values.dims, known):
        return None
    names = [y or f"{node.name}/{k}" for k, y in enumerate([*node.output, "", ""][:2])]
    return helper.make_node(
        "Sort",
        [x],
        [*names, f"{node.name}/scratch"],
        name=node.name,
        domain=DOMAIN,
    )


__all__ = ["DOMAIN", "Found", "fuse", "source"]
