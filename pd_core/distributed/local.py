"""Steps of each rank alone, after which the ranks average what they have changed: local SGD."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from ..graph.errors import GraphError
from ..graph.update import Update
from ..graph.variable import Variable
from ..run.exchange import Gradients
from .buffers import Buffer
from .world import AVERAGE, NO_BATCH, Description

_EQUAL, _WEIGHTED = 1, 2  # flags: a rank has counted its steps, or the samples in them


class LocalSteps:
    """The steps of a session since the ranks last averaged: their number, and what they changed.

    Parameters and the state of optimizers are averaged, with the numbers of samples of the ranks as
    weights if these are known (McMahan et al. 2017), else with the numbers of batches.
    """

    def __init__(self, process: Any):
        self.process = process
        self.count = 0
        self._weight, self._flags = 0.0, 0
        self._changed: dict[Variable, None] = {}

    def check(self, gradients: Mapping[Variable, Any]) -> None:
        """Raise a GraphError for parameters of which each rank has a part."""
        for w in gradients:
            if w.is_shard:
                raise GraphError(
                    f"local_steps: each rank has a part of the table {w.storage.table.name}, and "
                    "its gradients travel in every step\n  hint: init(local_steps=1)"
                )

    def gradients(self, own: Gradients) -> Gradients:
        """Return what a local step updates with.

        Where the gradients of the ranks are added up, those of this one times the number of ranks
        stand for the sum.
        """
        size = self.process.world.size
        if self.process.settings.reduce == "mean" or size == 1:
            return own
        scaled: Gradients = {}
        for w, g in own.items():
            if isinstance(g, tuple):
                scaled[w] = g[0], g[1] * g[1].dtype.type(size)
            else:
                scaled[w] = np.asarray(g * g.dtype.type(size))
        return scaled

    def take(
        self, updates: Sequence[Update], own: WeakSet[Variable], samples: float | None
    ) -> None:
        """Count a step with these updates, and so many samples; None if that is not known.

        Variables in `own` are those of each rank.
        """
        self.count += 1
        if samples is None:
            self._weight, self._flags = self._weight + 1.0, self._flags | _EQUAL
        elif samples != NO_BATCH:
            self._weight, self._flags = self._weight + samples, self._flags | _WEIGHTED
        self._changed.update(dict.fromkeys(_changed_by(updates, own)))

    def average(self, session: Any) -> list[Variable]:
        """Set the variables that were changed to the means over the ranks; return them."""
        world, variables = self.process.world, list(self._changed)
        lines = [f"{self.count} steps", *(f"{v.name}: {v.dtype}{list(v.dims)}" for v in variables)]
        weights, flags, _ = world.barrier(AVERAGE, Description(lines), self._weight, self._flags)
        if flags == _EQUAL | _WEIGHTED:
            raise GraphError(
                "the ranks disagree: some have a set_batch_size() in local steps, others have none"
            )
        # of a counter that all ranks have alike the mean is that number, in float64
        kept = [session.store.current(v) for v in variables]
        arrays = [a.astype(np.float64) if a.size == 1 else a for a in kept]

        def operation():
            own, total = self._share(weights)
            means = []
            for group in _by_dtype(arrays):
                chosen = [arrays[k] for k in group]
                buffer = Buffer(world, [a.shape for a in chosen], chosen[0].dtype)
                sums = buffer.reduce(chosen, own)
                means += [
                    (k, np.asarray(a / a.dtype.type(total)))
                    for k, a in zip(group, sums, strict=True)
                ]
            return dict(means)

        means = world.recovering(operation)
        for k, v in enumerate(variables):
            session.set(v, means[k].astype(v.dtype, copy=False))
        self.count, self._weight, self._flags = 0, 0.0, 0
        self._changed.clear()
        return variables

    def _share(self, weights):
        """The weight of this rank, and the sum of all of them."""
        world = self.process.world
        every = [weights[i] for i in world.ids]
        if self.process.settings.reduce == "sum" or not any(every) or len(set(every)) == 1:
            return 1.0, float(world.size)
        return weights[world.id], float(sum(every))


def _changed_by(updates: Iterable[Update], own: WeakSet[Variable]) -> list[Variable]:
    """The variables of floats that updates assign on all ranks alike."""
    assigned = [a.variable for u in updates if u.gradients for a in u.assignments]
    return [v for v in assigned if v.dtype.kind == "f" and v not in own]


def _by_dtype(arrays: Sequence[np.ndarray]) -> list[list[int]]:
    """The numbers of the arrays of each dtype."""
    groups: dict[np.dtype, list[int]] = {}
    for k, array in enumerate(arrays):
        groups.setdefault(array.dtype, []).append(k)
    return list(groups.values())
