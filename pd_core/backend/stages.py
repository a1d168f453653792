"""The stages of a step: programs that run one after the other on values they hand on.

Most steps are one program. Two seams divide others: after the gradients, where the caller may
exchange them, and before row writes, which then go into a table's own buffer: nothing reads a
table once that stage has begun, so the rows are all that is touched, and a table needs no second
buffer.
"""

from dataclasses import dataclass, replace

from ..graph.names import fresh_names
from ..graph.node import ancestors
from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .base import Graph


@dataclass(frozen=True)
class Stage:
    """A program of a step, whose fetches and updates are those of the step at these places.

    `given` are values of earlier stages, `inputs` the variables that stand for them here, `hands`
    the values that later stages are given. With `in_place`, its updates are written into the
    buffers of the states that they are made from.
    """

    graph: Graph
    fetched: tuple[int, ...]
    updated: tuple[int, ...]
    given: tuple[Variable, ...] = ()
    inputs: tuple[Variable, ...] = ()
    hands: tuple[Variable, ...] = ()
    in_place: bool = False


def stages(graph: Graph, seam=()) -> list[Stage]:
    """The stages of a step, in order; `seam` are values to stop behind."""
    whole = Stage(graph, tuple(range(len(graph.fetches))), tuple(range(len(graph.updates))))
    *first, last = _divided(whole, seam) if seam else [whole]
    writes = _row_writes(last.graph)
    return [*first, *(_divided(last, writes, in_place=True) if writes else [last])]


def _row_writes(graph):
    """The new values that are ScatterND of the variable that they update, and nothing else's."""
    needed = [x for node in ancestors(graph.outputs) for x in node.inputs if x is not None]
    needed += graph.fetches
    new_values = [new for _, new in graph.updates]
    return [
        new
        for v, new in graph.updates
        if new.node is not None
        and new.node.op_type == "ScatterND"
        and new.node.inputs[0] is v
        and new.node.attributes.get("reduction", "none") == "none"
        and new not in needed
        and new_values.count(new) == 1
    ]


def _divided(stage, values, in_place=False):
    """Two stages: what computes the values, and all else, then what depends on them.

    With `in_place`, the values themselves are computed in the second.
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
    """The nodes that compute something from the values, or these themselves."""
    later = {v.node for v in values} if themselves else set()
    reached = set() if themselves else set(values)
    for node in order:
        if node in later or not reached.isdisjoint(node.inputs):
            later.add(node)
            reached.update(node.outputs)
    return later
