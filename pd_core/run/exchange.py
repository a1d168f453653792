"""Exchange of gradients between the backward pass and the update."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from ..backend.base import Seam
from ..graph.errors import FeedError
from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import feed_array

# {parameter: gradient}; (rows, values) where the parameter is row-sparse
Gradients = dict[Variable, np.ndarray | tuple[np.ndarray, np.ndarray]]


class Exchange:
    """Adapter of a user's function on {parameter: gradient} to the list of arrays of a step.

    `seam` are the Variables of the gradients, in the order of the arrays. A SharedExchange may want
    them in several divisions.
    """

    def __init__(self, function: Any, updates: Sequence[Update]):
        self.function = function
        pairs = [(w, g) for update in updates for w, g in update.gradients if w.trainable]
        self.gradients: dict[Variable, Variable | tuple[Variable, ...]] = {}
        for w, g in pairs:
            if self.gradients.setdefault(w, g) is not g:
                raise FeedError(f"exchanging: two gradients of {w!r} in one step")
        values = tuple([v for g in self.gradients.values() for v in _as_tuple(g)])
        self.seam = Seam(values, getattr(function, "divisions", 1))

    def start(self, arrays: dict[int, Any]) -> None:
        """Hand over the first gradients while others are computed."""
        gradients, place = {}, 0
        for w, g in self.gradients.items():
            places = range(place, place + len(_as_tuple(g)))
            if all(k in arrays for k in places):
                gradients[w] = _restructure(g, iter([arrays[k] for k in places]))
            place = places.stop
        self.function.start(gradients)

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        gradients = self.structured(arrays)
        returned = self.function(gradients)
        if set(returned) != set(gradients):
            raise FeedError("exchanging: the function must return the gradients that it takes")
        exchanged = []
        for w, g in self.gradients.items():
            values = returned[w] if isinstance(g, tuple) else [returned[w]]
            exchanged += [feed_array(v, a) for v, a in zip(_as_tuple(g), values, strict=True)]
        return exchanged

    def on_device(self, values: list[Any], device: str) -> list[Any] | None:
        """Return exchanged OrtValues for those of a step; None if the function takes arrays."""
        exchange = getattr(self.function, "on_device", None)
        if exchange is None or any(isinstance(g, tuple) for g in self.gradients.values()):
            return None
        returned = exchange(dict(zip(self.gradients, values, strict=True)), device)
        return None if returned is None else [returned[w] for w in self.gradients]

    def structured(self, arrays: list[np.ndarray]) -> Gradients:
        """Return {parameter: gradient} for the arrays of a step."""
        remaining = iter(arrays)
        return {w: _restructure(g, remaining) for w, g in self.gradients.items()}


class SharedExchange(Protocol):
    """The part of a session in the exchange of gradients between processes."""

    @property
    def accumulating(self) -> bool:
        """Whether gradients are kept for the next step that exchanges them; no update is made."""

    @property
    def divisions(self) -> int:
        """The number of parts in which gradients are computed and handed over to `start`."""

    @property
    def is_local(self) -> bool:
        """Whether a step updates with the gradients of this process; `end` is called after it."""

    @property
    def changes_gradients(self) -> bool:
        """Whether a local step updates with other numbers than those that were computed."""

    def accumulate(self, gradients: Gradients) -> None:
        """Add gradients to those that the next step exchanges."""

    def begin(
        self,
        step: Hashable,
        updates: Sequence[Update],
        gradients: Mapping[Variable, Any],
        fed: Mapping[Variable, Any],
        computed: bool,
    ) -> None:
        """Prepare a step, before it is evaluated; `computed` if its gradients are known already.

        `gradients` are the Variables of the gradients, or tuples of them, by parameter; `fed` are
        its feeds.
        """

    def end(self, updates: Sequence[Update]) -> None:
        """Take note of a local step, whose new values are stored."""

    def start(self, gradients: Gradients) -> None:
        """Begin to exchange the gradients computed so far, while others are computed.

        Those of earlier calls in the same step are among them.
        """

    def __call__(self, gradients: Gradients) -> Gradients:
        """Return the gradients to update with."""

    def on_device(self, gradients: dict[Variable, Any], device: str) -> dict[Variable, Any] | None:
        """Return the gradients to update with where they are; None to be called with arrays.

        They are OrtValues in the memory of a device, one for each parameter.
        """


class ProcessExchange(Protocol):
    """The exchange of gradients between processes, which every session takes part in."""

    def of(self, session: Any) -> SharedExchange | None:
        """Return the part of a session; None if its steps exchange nothing at present."""

    def draw_seed(self, seed: int) -> int:
        """Return the seed of random draws for that of a session; initial values keep the latter."""

    def mean(self, number: float) -> float:
        """Return the mean over the processes of a number, with the same bits on all of them."""


process: list[ProcessExchange] = []  # of all sessions without one of their own
_local: WeakKeyDictionary[Update, Update] = WeakKeyDictionary()


def use_exchange(exchange: ProcessExchange | None) -> None:
    """Set the exchange of all sessions without one of their own; None removes it."""
    process[:] = [] if exchange is None else [exchange]


def shared_exchange(session: Any) -> SharedExchange | None:
    """Return the part of a session in the exchange between processes, None if there is none."""
    return process[0].of(session) if process else None


def exchanges(session: Any) -> bool:
    """Return whether gradients of a session are exchanged before the updates."""
    return session.observers.exchange is not None or shared_exchange(session) is not None


def draw_seed(seed: int) -> int:
    """Return the seed of random draws in this process, for that of a session."""
    return process[0].draw_seed(seed) if process else seed


def mean_over_processes(number: float) -> float:
    """Return the mean of a number that all processes have come to, so that they decide alike."""
    return process[0].mean(number) if process else number


def local_update(update: Update) -> Update:
    """Return what a step assigns before its gradients are known, such as moving statistics."""
    if not update.gradients:
        return update
    if update not in _local:
        effects = [a for a in update.assignments if a.is_effect]
        _local[update] = Update(effects, training=True)
    return _local[update]


def _as_tuple(gradient: Any) -> tuple:
    return gradient if isinstance(gradient, tuple) else (gradient,)


def _restructure(gradient: Any, arrays: Iterator[Any]) -> Any:
    """The next array, or a tuple of the next ones where the gradient is a tuple of Variables."""
    if not isinstance(gradient, tuple):
        return next(arrays)
    return tuple([next(arrays) for _ in gradient])
