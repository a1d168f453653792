"""The stages of a program as ONNX models, with the names of their inputs and outputs."""

from collections.abc import Callable, Collection
from dataclasses import replace

from ..graph.recording import not_recording
from .base import NO_SEAM, Graph, Seam
from .lowering import lower
from .program import leaves
from .stages import WRITING, Stage, stages

Prepare = Callable[[Graph], Graph]


def stage_models(
    graph: Graph,
    seam: Seam = NO_SEAM,
    prepare: Prepare | None = None,
    writes_wait: bool = False,
) -> "list[StageModel]":
    """Return the stages of a program as models, in order.

    `prepare` returns an equivalent graph of a stage that is faster on a device. Where
    `writes_wait`, row writes are in the last stage, see `stages`.
    """
    with not_recording():
        divided = stages(graph, seam, writes_wait)
        return [StageModel(graph, stage, prepare) for stage in divided]


class StageModel:
    """A stage as a model; inputs and outputs are pairs (index in the whole program, name).

    `given` and `hands` are pairs (slot, name) of the values that it reads and fills. `fixed` are
    the indices of the fetches whose shapes follow from those of its feeds, `in_place` those of the
    updates that are written into the buffers of their states, and `waiting` the names of those that
    must wait for all else in the stage. Other new values in it, by name, may be written into the
    memory of `places`, which are states, by an operator that waits for all else.
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
        self.waiting: list[str] = []
        self.places: dict[str, str] = {}
        self.written: tuple[int, ...] = ()  # updates that may be written there, see `writes_by`
        self._writes: list[str] = []  # the names of those operators
        if stage.waits:
            self.in_place, self.waiting = self._row_writes(stage, lowered)
            self.places = self._places(stage, lowered)
        self.divided = stage.divided
        self.summed, self.weighted = stage.summed, stage.weighted

    def may_have_written(self, error: Exception) -> bool:
        """Return whether rows may have been written before the runtime's error of a run.

        Writes that wait for all else have not begun if that fails; one of several may fail.
        """
        if not self._writes:
            return bool(self.in_place)
        text = str(error)
        return any(f"'{name}'" in text for name in self._writes)

    def writes_by(self, operator: str, results: Collection[str]) -> None:
        """Note that an operator may write these results into the memory of their states."""
        self.written = tuple([k for k, name in self.updates if name in results])
        self._writes += [operator] if operator else []

    def _places(self, stage, lowered):
        """The states that updates replace, by the names of the new values."""
        targets = {k: v for k, (v, _) in zip(stage.updated, stage.graph.updates, strict=True)}
        read = {name for _, name in self.states}
        names = [(name, lowered.names.get(targets[k])) for k, name in self.updates]
        return {name: x for name, x in names if x in read and name not in self.waiting}

    def _row_writes(self, stage, lowered) -> tuple[tuple[int, ...], list[str]]:
        """Those of the updates in place that are still row writes, and the names of their results.

        An update that has become something else on the device has a second buffer.
        """
        makers = {y: node for node in lowered.model.graph.node for y in node.output}
        found, names = [], []
        targets = {k: v for k, (v, _) in zip(stage.updated, stage.graph.updates, strict=True)}
        for k, name in self.updates:
            node = makers.get(name)
            if k not in stage.in_place or node is None or node.op_type not in WRITING:
                continue
            if node.input[0] == lowered.names.get(targets[k]):
                found.append(k)
                names.append(name)
                self._writes.append(node.name)
        return tuple(found), names
