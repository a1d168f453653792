"""Reads of variables in recorded graphs: one variable has several, each the value at its line."""

from collections.abc import Iterable, Sequence

from ..graph.node import Node
from ..graph.recording import recorder
from ..graph.variable import Variable


def reads_of(
    variables: Iterable[Variable], costs: Iterable[Variable], order: Sequence[Node]
) -> dict[Variable, list[Variable]]:
    """Return what a graph with these costs reads of each variable; in a static one that is itself.

    `order` are the nodes of the graph.
    """
    if recorder() is None:
        return {v: [v] for v in variables}
    reads: dict[Variable, dict[Variable, None]] = {v: {} for v in variables}
    for x in [x for node in order for x in node.inputs if x is not None]:
        owner = x if x in reads or x.source is None else x.source
        if owner in reads:
            reads[owner][x] = None
    for c in costs:
        if c in reads:
            reads[c][c] = None
    return {v: list(found) for v, found in reads.items()}


def passes_gradients(y: Variable) -> bool:
    """Return whether gradients pass a Variable; they do not where a recorded one is detached.

    In the body of a loop nothing is tracked.
    """
    node = y.node
    return not y.is_recorded or not (node.detached or (node.tracked and not y.tracked))
