"""The stages of a step: programs that run in sequence and hand values on to each other.

Most steps are one program. A step is divided after the gradients, where the caller exchanges them,
and before row writes, which then go into the table's own buffer: once that stage has begun nothing
reads the table, so only the rows are written, and the table needs no second buffer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..graph.names import fresh_names
from ..graph.node import ancestors
from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .base import Graph


@dataclass(frozen=True)
class Stage:
    """One program of a step; `fetched` and `updated` index its fetches and updates in the step.

    `given` are the values of earlier stages that it reads, `inputs` the variables for them in its
    graph, `hands` the values that later stages read. With `in_place`, its updates are written into
    the buffers of the states that they update.
    """

    graph: Graph
    fetched: tuple[int, ...]
    updated: tuple[int, ...]
    given: tuple[Variable, ...] = ()
    inputs: tuple[Variable, ...] = ()
    hands: tuple[Variable, ...] = ()
    in_place: bool = False


def stages(graph: Graph, seam: Sequence[Variable] = ()) -> list[Stage]:
    """Return the stages of a step, in order; `seam` are values after which to divide it."""
    whole = Stage(graph, tuple(range(len(graph.fetches))), tuple(range(len(graph.updates))))
    *first, last = _divide(whole, seam) if seam else [whole]
    writes = _row_writes(last.graph)
    return [*first, *(_divide(last, writes, in_place=True) if writes else [last])]


def _row_writes(graph):
    """The new values that are a ScatterND into the variable they update and have no other use."""
    read = [x for node in ancestors(graph.outputs) for x in node.inputs if x is not None]
    read += graph.fetches
    new_values = [new for _, new in graph.updates]
    return [
        new
        for v, new in graph.updates
        if new.node is not None
        and new.node.op_type == "ScatterND"
        and new.node.inputs[0] is v
        and new.node.attributes.get("reduction", "none") == "none"
        and new not in read
        and new_values.count(new) == 1
    ]


def _divide(stage, values, in_place=False):
    """Divide a stage in two; the second computes what depends on the values.

    With `in_place`, the second also computes the values themselves.
    """
    graph = stage.graph
    order = ancestors(graph.outputs)
    later = _dependents(order, values, in_place)
    seam = () if in_place else tuple(values)
    read = [x for node in order if node in later for x in node.inputs]
    given = [x for x in read if x is not None and x.node is not None and x.node not in later]
    given = tuple(dict.fromkeys([*seam, *given, *(x for x in read if x in stage.inputs)]))
    with fresh_names():
        inputs = [Variable.of(x.dims, x.dtype, f"given_{k}") for k, x in enumerate(given)]
    hands = tuple(x for x in given if x not in stage.inputs)
    first, second = [], []
    for place, v in zip(stage.fetched, graph.fetches, strict=True):
        (second if v.node in later else first).append((place, v))
    first_updates, second_updates = [], []
    for place, update in zip(stage.updated, graph.updates, strict=True):
        depends = update[1].node in later or update[1] in seam
        (second_updates if depends else first_updates).append((place, update))
    outputs = [v for _, v in second] + [new for _, (_, new) in second_updates]
    outputs = substitute(outputs, dict(zip(given, inputs, strict=True)), stop=set(given))
    fetches, news = outputs[: len(second)], outputs[len(second) :]
    updates = [(p, (v, new)) for (p, (v, _)), new in zip(second_updates, news, strict=True)]
    second = [(place, v) for (place, _), v in zip(second, fetches, strict=True)]
    return [
        replace(_stage(graph, first, first_updates, stage.given, stage.inputs), hands=hands),
        replace(_stage(graph, second, updates, given, tuple(inputs)), in_place=in_place),
    ]


def _stage(graph, fetches, updates, given, inputs):
    return Stage(
        replace(
            graph,
            fetches=tuple(v for _, v in fetches),
            updates=tuple(update for _, update in updates),
        ),
        tuple(place for place, _ in fetches),
        tuple(place for place, _ in updates),
        given,
        inputs,
    )


def _dependents(order, values, themselves):
    """The nodes that depend on the values; `themselves` adds those that compute the values."""
    later = {v.node for v in values} if themselves else set()
    reached = set() if themselves else set(values)
    for node in order:
        if node in later or not reached.isdisjoint(node.inputs):
            later.add(node)
            reached.update(node.outputs)
    return later
