"""The stages of a step: programs that run one after the other on values they hand on.

Most steps are one program: each value that is handed on costs a binding in every run. There are
two reasons to divide one:

- after the gradients the caller may exchange them;
- row writes go into a table's own buffer: nothing reads a table once that stage has begun, so the
  rows are all that is touched, and a table needs no second buffer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from ..graph.names import fresh_names
from ..graph.node import Node, ancestors
from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .base import Graph


@dataclass(frozen=True)
class Stage:
    """A program of a step.

    Its fetches and updates are those of the step at the places `fetched` and `updated`. Values are
    handed on in numbered slots: `hands` are (slot, value) that it fills, `inputs` (slot, variable)
    that it reads. With `in_place`, its updates are written into the buffers of the states that they
    are made from; `exchanged` is the first stage that sees the values at the seam.
    """

    graph: Graph
    fetched: tuple[int, ...]
    updated: tuple[int, ...]
    inputs: tuple[tuple[int, Variable], ...] = ()
    hands: tuple[tuple[int, Variable], ...] = ()
    in_place: bool = False
    exchanged: bool = False


def stages(graph: Graph, seam: Sequence[Variable] = ()) -> list[Stage]:
    """Divide a step into its stages, in order.

    `seam` are values to stop behind, which are handed on in the slots 0, 1, ….
    """
    slots = count()
    places = tuple(range(len(graph.fetches))), tuple(range(len(graph.updates)))
    divided = [Stage(graph, *places)]
    if seam:
        later = _dependents(ancestors(graph.outputs), seam)
        first, second = _split(divided.pop(), later, slots, seam)
        divided += [first, replace(second, exchanged=True)]
    writes = _row_writes(divided[-1].graph)
    if writes:
        first, second = _split(divided.pop(), writes, slots)
        divided += [first, replace(second, in_place=True)]
    return divided


def _row_writes(graph) -> set[Node]:
    """The ScatterND nodes whose value is that of the variable they update, and nothing else's."""
    needed = [x for node in ancestors(graph.outputs) for x in node.inputs if x is not None]
    needed += graph.fetches
    new_values = [new for _, new in graph.updates]
    return {
        new.node
        for v, new in graph.updates
        if new.node is not None
        and new.node.op_type == "ScatterND"
        and new.node.inputs[0] is v
        and new.node.attributes.get("reduction", "none") == "none"
        and new not in needed
        and new_values.count(new) == 1
    }


def _dependents(order, values) -> set[Node]:
    """The nodes that compute something from the values."""
    later, reached = set(), set(values)
    for node in order:
        if not reached.isdisjoint(node.inputs):
            later.add(node)
            reached.update(node.outputs)
    return later


def _outputs(stage):
    return [*stage.graph.outputs, *(v for _, v in stage.hands)]


def _split(stage: Stage, later: set[Node], slots, seam=()) -> tuple[Stage, Stage]:
    """Divide a stage: the nodes `later` in the second, which sees what the first hands on."""
    graph, known = stage.graph, {v: slot for slot, v in stage.inputs}
    read = [x for node in ancestors(_outputs(stage)) if node in later for x in node.inputs]
    given = [x for x in read if x is not None and x.node is not None and x.node not in later]
    given = dict.fromkeys([*seam, *given, *(x for x in read if x in known)])
    numbers = {x: known[x] if x in known else next(slots) for x in given}
    with fresh_names():
        inputs = {x: Variable.of(x.dims, x.dtype, f"given_{k}") for k, x in enumerate(given)}
    fetches = _divided(zip(stage.fetched, graph.fetches, strict=True), later)
    # what is stored is computed from the values at the seam as they are after it
    updates = _divided(zip(stage.updated, graph.updates, strict=True), later, seam)
    hands = _divided(stage.hands, later)
    own = [(slot, x) for x, slot in numbers.items() if x not in known]
    first = _stage(graph, fetches[0], updates[0], stage.inputs, (*hands[0], *own))

    outputs = [v for _, v in fetches[1]] + [new for _, (_, new) in updates[1]]
    outputs += [v for _, v in hands[1]]
    outputs = iter(substitute(outputs, inputs, stop=set(inputs)))
    second = _stage(
        graph,
        [(place, next(outputs)) for place, _ in fetches[1]],
        [(place, (v, next(outputs))) for place, (v, _) in updates[1]],
        tuple((numbers[x], inputs[x]) for x in given),
        tuple((slot, next(outputs)) for slot, _ in hands[1]),
    )
    flags = {"in_place": stage.in_place}
    return replace(first, exchanged=stage.exchanged, **flags), replace(second, **flags)


def _divided(items, later, values=()):
    """(items of the first stage, items of the second), of (place, value or update)."""
    parts = [], []
    for place, item in items:
        v = item[1] if isinstance(item, tuple) else item
        parts[v.node in later or v in values].append((place, item))
    return parts


def _stage(graph, fetches, updates, inputs, hands):
    own = replace(
        graph,
        fetches=tuple(v for _, v in fetches),
        updates=tuple(update for _, update in updates),
    )
    return Stage(
        own,
        tuple(place for place, _ in fetches),
        tuple(place for place, _ in updates),
        tuple(inputs),
        tuple(hands),
    )
