"""The stages of a program as ONNX models, and what goes in and out of each."""

from dataclasses import replace

from .lowering import lower
from .program import leaves
from .stages import stages


def parts(graph, seam=(), prepare=None):
    """The stages of a program as models, each with what it takes and gives.

    `prepare` turns the graph of a stage into one that a device is faster at.
    """
    places = {}  # of the values that stages hand on, and of the variables that stand for them
    for stage in stages(graph, seam):
        for value, variable in zip(stage.given, stage.inputs, strict=True):
            places[variable] = places[value]
        for v in stage.hands:
            places[v] = len(set(places.values()))
        yield Part(graph, stage, places, prepare)


class Part:
    """A stage as a model; its inputs and outputs as (place in the whole program, name)."""

    def __init__(self, whole, stage, places, prepare):
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
