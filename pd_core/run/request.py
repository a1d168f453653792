"""Requests: evaluations as they are asked for, before there is a program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM, Seam, SeamExchange
from ..graph.errors import FeedError
from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import Feeds, feed_array
from .feeds import variable as fed_variable
from .targets import computed_variables


@dataclass(eq=False)
class Request:
    """Fetches, updates and feeds to be evaluated together; observers may change them.

    `computed` if the gradients of the updates are fed. `seam` are values after which the evaluation
    pauses, which `exchange` replaces. `compiler` makes the program, None for that of the session.
    `results` are those of the fetches, once they are there.
    """

    fetches: Sequence[Variable]
    updates: Sequence[Update]
    fed: dict[Variable, np.ndarray]
    training: bool
    computed: bool = False
    seam: Seam = NO_SEAM
    exchange: SeamExchange | None = None
    compiler: Any = None
    program: Any = None
    is_observed: bool = False
    results: list[Any] | None = None
    # whether it is a graph of `pd.guard()`, which knows the values of what it reads
    recorded: ClassVar[bool] = False

    def targets(self) -> tuple[Sequence[Variable], Sequence[Update]]:
        """Return the fetches and the updates."""
        return self.fetches, self.updates

    def key(self, kind: str) -> tuple:
        """Return the key of what is known of such evaluations: two with one key are alike."""
        fetches, updates, fed = self.fetches, self.updates, self.fed
        frozen = tuple([v.trainable for u in updates for v in u.owners])
        targets = tuple(map(ref, fetches)), tuple(map(ref, updates)), frozenset(map(ref, fed))
        return kind, *targets, frozen, self.training, self.seam.divisions if self.seam.values else 0

    def owners(self) -> Iterable[Any]:
        """Return the Variables and Updates that its programs are of."""
        return (*self.fetches, *self.updates, *self.fed)


def request_of(
    flat: Sequence[Variable | Update], feeds: Feeds | None, training: bool | None
) -> Request:
    """Return the request for these targets; FeedError or ShapeError where a feed does not fit.

    A name among the feeds is that of a registered variable, or of one that the targets depend on.
    `training` is by default whether one of the targets is a training step.
    """
    fed: dict[Variable, np.ndarray] = {}
    for key, value in (feeds or {}).items():
        v = (
            key
            if isinstance(key, Variable)
            else fed_variable(key, lambda: computed_variables(flat))
        )
        if v in fed:
            raise FeedError(f"{v!r} is fed twice, once by its name")
        fed[v] = feed_array(v, value)
    updates = list(dict.fromkeys([t for t in flat if isinstance(t, Update)]))
    fetches = list(dict.fromkeys([t for t in flat if isinstance(t, Variable)]))
    if training is None:
        training = any(u.training for u in updates)
    return Request(fetches, updates, fed, training)
