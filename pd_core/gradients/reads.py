"""Reads of variables in recorded graphs: one variable has several, each the value at its line."""

from collections.abc import Iterable, Sequence

from ..graph.arrays import is_float
from ..graph.errors import GraphError
from ..graph.node import Node
from ..graph.recording import recorder
from ..graph.variable import Variable, describe


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


def check_reached(
    variables: Sequence[Variable], costs: Sequence[Variable], order: Sequence[Node]
) -> None:
    """Raise GraphError where a recorded graph no longer has the way to one of the variables.

    It ends at what a `backward` has used, and for gradients of data at what was computed.
    """
    if recorder() is None:
        return
    data = [v for v in variables if _is_data(v)]
    every = [*costs, *(x for node in order for x in node.inputs if x is not None)]
    for x in dict.fromkeys(every):
        own = x.__dict__
        is_result = "node" in own and own["node"] is None and "source" not in own
        if not is_result or own.get("eager_value") is None or not is_float(x.dtype):
            continue
        if x.history.ended and any(v is not x and not _is_data(v) for v in variables):
            raise GraphError(
                f"gradients: the graph behind {x.name}: {describe(x)} ended with an earlier "
                "backward() or minimize()\n"
                "  hint: retain_graph=True there keeps it, detach() takes the value alone"
            )
        lost = next((v for v in data if v is not x), None)
        if lost is not None and not x.history.ended:
            raise GraphError(
                f"gradients: {lost.name}: {describe(lost)} has stop_gradient = True, and "
                f"{x.name}: {describe(x)}, which the cost reads, was computed already, so that "
                "what it depends on is not known any more\n"
                "  hint: stop_gradient = False, set before, keeps that"
            )


def _is_data(v: Variable) -> bool:
    """Whether a Variable has values at hand, and gradients end there."""
    if v.is_persistent:
        return not v.trainable
    return not v.tracked and (v.eager_value is not None or v.is_recorded)


def passes_gradients(y: Variable) -> bool:
    """Return whether gradients pass a Variable; they do not where a recorded one is detached.

    In the body of a loop nothing is tracked.
    """
    node = y.node
    return not y.is_recorded or not (node.detached or (node.tracked and not y.tracked))
