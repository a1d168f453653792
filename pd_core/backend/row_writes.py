"""Writes of rows into stored tables, as a program of their own that runs after the others.

Nothing reads a table after that program has begun, so it may write into the table's own buffer:
the rows are all that is touched, and a table needs no second buffer.
"""

from dataclasses import dataclass, replace

from ..graph.names import fresh_names
from ..graph.node import ancestors, apply, in_place_of
from ..graph.variable import Variable
from .base import Graph


@dataclass(frozen=True)
class RowWrites:
    """A program that writes rows: `given` are the values of the step that its feeds stand for."""

    graph: Graph
    given: tuple[Variable, ...]

    @property
    def tables(self) -> tuple[Variable, ...]:
        """The variables that are written."""
        return self.graph.states


def split(graph: Graph) -> tuple[Graph, RowWrites | None]:
    """A step without its row writes, and these; None where there are none.

    An update is a row write if its value is ScatterND of the variable that it updates, and
    nothing else needs that value.
    """
    writes = _row_writes(graph)
    if not writes:
        return graph, None
    given = tuple(dict.fromkeys(x for v, new in writes for x in new.node.inputs[1:]))
    kept = tuple(u for u in graph.updates if u not in writes)
    return replace(graph, updates=kept), RowWrites(_program(writes, given), given)


def _row_writes(graph):
    needed = [x for node in ancestors(graph.outputs) for x in node.inputs if x is not None]
    needed += graph.fetches
    return [
        (v, new)
        for v, new in graph.updates
        if new.node is not None
        and new.node.op_type == "ScatterND"
        and new.node.inputs[0] is v
        and new.node.attributes.get("reduction", "none") == "none"
        and new not in needed
        and sum(new is other for _, other in graph.updates) == 1
    ]


def _program(writes, given):
    """The writes from feeds of their own."""
    with fresh_names():
        feeds = {x: Variable.of(x.dims, x.dtype, f"given_{k}") for k, x in enumerate(given)}
        updates = []
        for v, new in writes:
            index, rows = (feeds[x] for x in new.node.inputs[1:])
            with in_place_of(new.node):
                updates.append((v, apply("ScatterND", v, index, rows, known=v.dims)))
    slots = tuple(feeds.values())
    return Graph(slots, slots, tuple(v for v, _ in writes), (), tuple(updates))
