"""The stages of a program as ONNX models, with the names of their inputs and outputs."""

from collections.abc import Callable
from dataclasses import replace

from ..graph.recording import not_recording
from .base import NO_SEAM, Graph, Seam
from .lowering import lower
from .program import leaves
from .stages import Stage, stages

Prepare = Callable[[Graph], Graph]


def stage_models(
    graph: Graph, seam: Seam = NO_SEAM, prepare: Prepare | None = None
) -> "list[StageModel]":
    """Return the stages of a program as models, in order.

    `prepare` returns an equivalent graph of a stage that is faster on a device.
    """
    with not_recording():
        return [StageModel(graph, stage, prepare) for stage in stages(graph, seam)]


class StageModel:
    """A stage as a model; inputs and outputs are pairs (index in the whole program, name).

    `given` and `hands` are pairs (slot, name) of the values that it reads and fills. `fixed` are
    the indices of the fetches whose shapes follow from those of its feeds.
    """

    def __init__(self, whole: Graph, stage: Stage, prepare: Prepare | None = None):
        values = tuple(v for _, v in stage.hands)
        graph = replace(stage.graph, fetches=(*stage.graph.fetches, *values))
        read = leaves(graph.outputs)
        seed = whole.seed if whole.seed in read else None
        slots = (*whole.feeds, *(v for _, v in stage.inputs))
        graph = replace(
            graph,
            feeds=tuple(v for v in slots if v in read),
            states=tuple(v for v in whole.states if v in read),
            seed=seed,
        )
        graph = graph if prepare is None else prepare(graph)
        self.lengths, lowered = graph.lengths, lower(graph)
        self.equal = (*whole.equal, *graph.equal)  # pairs of sizes
        self.lowered, self.sites = lowered, lowered.sites
        name, outputs = lowered.names, iter(lowered.outputs)
        self.feeds = [(k, name[v]) for k, v in enumerate(whole.feeds) if v in read]
        self.states = [(k, name[v]) for k, v in enumerate(whole.states) if v in read]
        self.given = [(slot, name[v]) for slot, v in stage.inputs if v in read]
        self.seed = None if seed is None else name[seed]
        self.fetches = [(k, next(outputs)) for k in stage.fetched]
        sizes = {d for v in whole.feeds if v in read for d in v.symbolic_dims}
        self.fixed = {
            k
            for k, v in zip(stage.fetched, stage.graph.fetches, strict=True)
            if all(isinstance(d, int) or d in sizes for d in v.symbolic_dims)
        }
        self.hands = [(slot, next(outputs)) for slot, _ in stage.hands]
        self.updates = [(k, next(outputs)) for k in stage.updated]
        self.in_place, self.exchanged = stage.in_place, stage.exchanged
        self.divided, self.summed = stage.divided, stage.summed
