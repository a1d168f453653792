"""The stages of a program as ONNX models, with the inputs and outputs of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..graph.variable import Variable
from .base import Graph
from .lowering import lower
from .program import leaves
from .stages import Stage, stages


def parts(
    graph: Graph, seam: Sequence[Variable] = (), prepare: Callable[[Graph], Graph] | None = None
) -> Iterator["Part"]:
    """Yield the stages of a program as models.

    `prepare` optimizes the graph of a stage for a device.
    """
    # {a value that a stage hands on, or the input of a later stage for it: its index}
    places: dict[Variable, int] = {}
    for stage in stages(graph, seam):
        for value, variable in zip(stage.given, stage.inputs, strict=True):
            places[variable] = places[value]
        for v in stage.hands:
            places[v] = len(set(places.values()))
        yield Part(graph, stage, places, prepare)


class Part:
    """A stage as a model; inputs and outputs are pairs (index in the whole program, name)."""

    def __init__(
        self,
        whole: Graph,
        stage: Stage,
        places: dict[Variable, int],
        prepare: Callable[[Graph], Graph] | None,
    ):
        graph = replace(stage.graph, fetches=(*stage.graph.fetches, *stage.hands))
        read = leaves(graph.outputs)
        seed = whole.seed if whole.seed in read else None
        graph = replace(
            graph,
            feeds=tuple(v for v in (*whole.feeds, *stage.inputs) if v in read),
            states=tuple(v for v in whole.states if v in read),
            seed=seed,
        )
        lowered = lower(graph if prepare is None else prepare(graph))
        self.model, self.sites, self.op_types = lowered.model, lowered.sites, lowered.op_types
        name, outputs = lowered.names, iter(lowered.outputs)
        self.feeds = [(k, name[v]) for k, v in enumerate(whole.feeds) if v in read]
        self.states = [(k, name[v]) for k, v in enumerate(whole.states) if v in read]
        self.given = [(places[v], name[v]) for v in stage.inputs if v in read]
        self.seed = None if seed is None else name[seed]
        self.fetches = [(k, next(outputs)) for k in stage.fetched]
        self.hands = [(places[v], next(outputs)) for v in stage.hands]
        self.updates = [(k, next(outputs)) for k in stage.updated]
        self.in_place = stage.in_place
