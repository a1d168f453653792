"""Repeated calls of `eval`: what the first one found out, for the next with the same arguments."""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import Feeds, feed_array
from .step import Step


class Outgrown(Exception):
    """Feeds are longer than a program has taken them for: another one has to be compiled."""


class Call:
    """An evaluation of certain targets, with arrays for certain variables.

    `places` are the indices of the targets in the fetches, None for Updates. It `repeats` if the
    step depends on its feeds and stored values alone.
    """

    def __init__(
        self,
        step: Step,
        flat: Sequence[Variable | Update],
        fetches: Sequence[Variable],
        fed: Sequence[Variable],
    ):
        self.step = step
        self.run: Any = None if step.executable is None else step.executable.run
        self.repeats = self.run is not None
        self.repeats = self.repeats and not (step.constants or step.redrawn or step.held)
        numbers = {v: k for k, v in enumerate(fetches)}
        self.places = [numbers[t] if isinstance(t, Variable) else None for t in flat]
        # references to Variables, which the targets keep alive
        self.owners: list[Any] = [ref(w) for u in flat if isinstance(u, Update) for w in u.owners]
        self.frozen = [w().trainable for w in self.owners]
        self.kept: list[tuple[int, Any]] = [
            (k, ref(v)) for k, v in enumerate(fetches) if not v.is_persistent
        ]
        self.fed: list[tuple[Any, np.dtype]] = [(ref(v), v.dtype) for v in fed]
        self.shapes: set[tuple] = set()  # of arrays that fit
        number = {v: k for k, v in enumerate(fed)}
        self.order = [number[v] for v in step.fed] if self.repeats else []

    def fits(self) -> bool:
        """Return whether it repeats, and the same parameters are trained as in the first call."""
        if not self.repeats or self.step.is_outdated:
            return False
        return self.frozen == [w().trainable for w in self.owners]

    def arrays(self, feeds: Feeds) -> list[np.ndarray]:
        """Return the arrays that the program reads.

        FeedError or ShapeError where values fit neither their variables nor each other, Outgrown
        where they need another program.
        """
        arrays: list[Any] = list(feeds.values())
        for k, (v, dtype) in enumerate(self.fed):
            a = arrays[k]
            if type(a) is not np.ndarray or a.dtype is not dtype or not a.flags.c_contiguous:
                arrays[k] = feed_array(v(), a)
        shapes = tuple([a.shape for a in arrays])
        if shapes not in self.shapes:
            for k, (v, _) in enumerate(self.fed):
                feed_array(v(), arrays[k])
            self._check(arrays)
            self.shapes.add(shapes)
        elif self.step.packed.lengths:
            self._check(arrays)
        return [arrays[k] for k in self.order]

    def _check(self, arrays):
        fed = {v(): a for (v, _), a in zip(self.fed, arrays, strict=True)}
        if not self.step.covers(fed):
            raise Outgrown
        self.step.check(fed)


def call_key(
    flat: Sequence[Variable | Update], feeds: Feeds | None, training: bool | None
) -> tuple | None:
    """Return the key of a call in a StepCache; None if it feeds names, which may change."""
    fed = tuple(feeds) if feeds else ()
    for v in fed:
        if not isinstance(v, Variable):
            return None
    return tuple(map(ref, flat)), tuple(map(ref, fed)), (), training
