"""Repeated calls of `eval`: what the first one found out, for the next with the same arguments."""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import Feeds, feed_array
from .program import Program
from .request import Request
from .values import Values


class Outgrown(Exception):
    """Feeds are longer than a program has taken them for: another one has to be compiled."""


class Call:
    """A call of `eval` with certain targets and arrays for certain variables, and its program.

    `places` are the indices of the targets in the fetches, None for Updates.
    """

    def __init__(self, program: Program, flat: Sequence[Variable | Update], request: Request):
        self.program = program
        numbers = {v: k for k, v in enumerate(request.fetches)}
        self.places = [numbers[t] if isinstance(t, Variable) else None for t in flat]
        # references to Variables, which the targets keep alive
        self.owners: list[Any] = [ref(w) for u in request.updates for w in u.owners]
        self.frozen = [w().trainable for w in self.owners]
        self.kept: list[tuple[int, Any]] = [
            (k, ref(v)) for k, v in enumerate(request.fetches) if not v.is_persistent
        ]
        self.fed: list[tuple[Any, np.dtype]] = [(ref(v), v.dtype) for v in request.fed]
        self.packed = program.inputs.packed
        self.shapes: set[tuple] = set()  # of arrays that fit
        number = {v: k for k, v in enumerate(request.fed)}
        self.order = [number[v] for v in program.inputs.fed]

    def run(self, values: Values, feeds: Feeds) -> list[Any]:
        """Return the values of the targets, None for Updates."""
        results = self.program.run(values, self.arrays(feeds))
        for k, v in self.kept:
            values.fetched[v()] = results[k]
        return [None if k is None else results[k] for k in self.places]

    def run_beside(self, values: Values, feeds: Feeds) -> list[Any]:
        """Return `run`, beside what `pd.guard()` has recorded: see the observer `Recording`."""
        recorded: Any = values.recorded
        updated = self.program.updated
        recorded.flush()
        recorded.before_update(updated, self.program.written)
        results = self.run(values, feeds)
        recorded.after_update(updated)
        return results

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
        if shapes not in self.shapes or self.packed.lengths:
            fed = {v(): feed_array(v(), a) for (v, _), a in zip(self.fed, arrays, strict=True)}
            if not self.program.covers(self.program.inputs.arrays(fed)):
                raise Outgrown
            self.shapes.add(shapes)
        return [arrays[k] for k in self.order]
