"""The exchange of gradients between the ranks, in every training step of every session."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from ..backend.fused import onednn
from ..graph.errors import GraphError
from ..graph.update import Update
from ..graph.variable import Variable
from ..run.exchange import Gradients
from ..run.session import Session
from .buffers import WHAT, Buffer
from .comparison import differences, digest_of, entry_of
from .device_sums import summed
from .exact import ExactSum, sum_exactly
from .local import LocalSteps
from .plan import Plan
from .recovery import RankLost
from .rows import join_rows
from .settings import Settings
from .world import COMPARE, NO_BATCH, NUMBER, STEP, SUM, Description, World

# Flags: variables not compared yet; their gradients are computed already; compare all
_UNSEEN, _LATE, _ALL = 1, 2, 4
_ON_HOST = 8  # gradients are exchanged on the host: one rank has more than those of its device
_NUMBER = Description(["a number"])
_HINT = (
    "  hint: all ranks set, load and assign the same values; pd.distributed.broadcast() gives them "
    "those of rank 0"
)
_GOLDEN = 0x9E3779B9  # 2^32 / golden ratio: seeds of neighbouring ranks are far apart


class RankExchange:
    """The exchange of this process with the other ranks.

    `samples` is the weight of its gradients in means, None for equal ones. With `compares_all` the
    ranks compare all values in the next step.
    """

    def __init__(self, world: World, settings: Settings):
        self.world, self.settings = world, settings
        self.accumulating = False
        self.samples: float | None = None
        self.compares_all = False
        self.device_exchange: Any = None  # a DeviceExchange
        self._buffers: dict[Any, Buffer] = {}  # of `sum`, by ranks, dtype and shape
        self._sessions: WeakKeyDictionary[Any, SessionExchange] = WeakKeyDictionary()

    def of(self, session: Session) -> "SessionExchange | None":
        """Return the part of a session; None if its steps exchange nothing at present."""
        part = self.part(session)
        if self.world.size == 1 and not self.accumulating and not part.accumulated:
            return None
        return part

    def part(self, session: Session) -> "SessionExchange":
        """Return the part of a session."""
        part = self._sessions.get(session)
        if part is None:
            part = self._sessions[session] = SessionExchange(self, session)
        return part

    def draw_seed(self, seed: int) -> int:
        """Return the seed of this rank's random draws; rank 0 has the session's."""
        own = self.world.id  # not another one after ranks were lost
        if not self.settings.own_draws or own == 0:
            return seed
        return (seed + own * _GOLDEN) % 2**32

    def mean(self, number: float) -> float:
        """Return the mean over the ranks of a number that decides for all of them.

        Of equal numbers it is that number.
        """
        if self.world.size == 1:
            return number
        weights = self.world.barrier(NUMBER, _NUMBER, number).weights
        every = np.array([weights[i] for i in self.world.ids])
        same = np.isnan(every).all() or (every == every[0]).all()
        return number if same else float(every.sum() / len(every))

    def sum(self, arrays: Sequence[np.ndarray], weighted: Sequence[bool]) -> list[np.ndarray]:
        """Return the sums over the ranks of arrays in the middle of a program.

        Those `weighted` are multiplied by the rank's weight before, and divided by it again.
        """
        shapes = [f"{a.dtype}{list(a.shape)}" for a in arrays]
        samples = np.nan if self.samples is None else self.samples
        every = self.world.barrier(SUM, Description(shapes), samples).weights
        own = self._own_weight(every) if any(weighted) else None
        if own is not None:
            arrays = [
                a * a.dtype.type(own) if w else a for a, w in zip(arrays, weighted, strict=True)
            ]

        def operation():
            if self.settings.reproducible and arrays[0].dtype.kind == "f":
                return self.exact_sums(arrays)
            summed = []
            for text, array in zip(shapes, arrays, strict=True):
                key = self.world.ids, text
                if key not in self._buffers:
                    self._buffers[key] = Buffer(self.world, [array.shape], array.dtype)
                summed.append(np.array(self._buffers[key].reduce([array])[0]))
            return summed

        sums = self.world.recovering(operation)
        if own:  # the gradients of a rank without a weight do not count
            pairs = zip(sums, weighted, strict=True)
            sums = [a / a.dtype.type(own) if w else a for a, w in pairs]
        return sums

    def _own_weight(self, every):
        """The weight of this rank's gradients; None if those of all ranks are equal."""
        weights = self.shares(every)
        return None if len(set(weights)) == 1 else weights[self.world.rank]

    def exact_sums(self, arrays: Sequence[np.ndarray], divisor: float = 1.0) -> list[np.ndarray]:
        """Return the exact sums over the ranks, divided and rounded."""
        parts = [ExactSum(a.shape) for a in arrays]
        for part, array in zip(parts, arrays, strict=True):
            part.add(array)
        return sum_exactly(self.world, parts, [a.dtype for a in arrays], divisor)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Add up gradients in a `with`, see `pd_core.distributed.no_sync`."""
        outer, self.accumulating = self.accumulating, True
        try:
            yield
        finally:
            self.accumulating = outer

    def factor(self, every: Mapping[int, float]) -> float:
        """Return the factor of this rank's gradients in the sum over the ranks.

        `every` has the weights of the ranks that have met, by their `ids`; some may be lost since.
        """
        own, total = self.share(every)
        return own / total

    def share(self, every: Mapping[int, float]) -> tuple[float, float]:
        """Return the weight of this rank's gradients, and by what the sum is divided."""
        shares, total = self._shares(every)
        return shares[self.world.rank], total

    def shares(self, every: Mapping[int, float]) -> list[float]:
        """Return the weights of the gradients of all ranks."""
        return self._shares(every)[0]

    def _shares(self, every):
        weights = np.array([every[i] for i in self.world.ids])
        has_batch = weights != NO_BATCH
        if len(weights) < len(every) and not (has_batch & (weights != 0.0)).any():
            return [0.0] * len(weights), 1.0
        if not has_batch.any():
            raise GraphError("empty_step: no rank has a batch in this step")
        if self.settings.reduce == "sum":
            return has_batch.astype(float).tolist(), 1.0
        given = ~np.isnan(weights[has_batch])
        if not given.any():
            return has_batch.astype(float).tolist(), float(has_batch.sum())
        if not given.all():
            without = np.flatnonzero(np.isnan(weights)).tolist()
            raise GraphError(
                f"the ranks disagree: ranks {without} have no set_batch_size(), the others do"
            )
        total = float(weights[has_batch].sum())
        if total == 0.0:
            raise GraphError("set_batch_size: no rank has a sample in this step")
        return np.where(has_batch, weights, 0.0).tolist(), total


class SessionExchange:
    """The part of one session: what it has accumulated, and when its variables were compared."""

    def __init__(self, process: RankExchange, session: Session):
        self.process = process
        self._session: Any = ref(session)
        self.accumulated: dict[Variable, Any] = {}
        # what compressed gradients have lost so far, which is added to the next ones
        self.errors: WeakKeyDictionary[Variable, np.ndarray] = WeakKeyDictionary()
        self.local = LocalSteps(process)
        # the count of changes of the session when a variable was last known to be equal everywhere
        self._seen: WeakKeyDictionary[Variable, int] = WeakKeyDictionary()
        self._own: WeakSet[Variable] = WeakSet()  # those that each rank has of its own
        self._plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()
        self._plan: Plan | None = None
        self._weights: dict[int, float] = {}
        self._is_on_host = True
        self._empty: Sequence[Update] = ()  # the updates of an empty step that is going on

    @property
    def accumulating(self) -> bool:
        """Whether gradients are kept for the next step that exchanges them."""
        return self.process.accumulating

    @property
    def divisions(self) -> int:
        """The number of parts in which the gradients are computed."""
        return self.process.settings.divisions

    @property
    def is_local(self) -> bool:
        """Whether a step updates with the gradients of this rank."""
        return self.process.settings.local_steps > 1

    @property
    def changes_gradients(self) -> bool:
        """Whether a local step updates with other numbers than those that were computed."""
        return bool(self.accumulated) or self.process.settings.reduce == "sum"

    def accumulate(self, gradients: Gradients) -> None:
        """Add gradients to those that the next step exchanges."""
        for w, g in gradients.items():
            old = self.accumulated.get(w)
            if self.process.settings.reproducible:
                self.accumulated[w] = _exactly_added(old, g)
            else:
                self.accumulated[w] = _copy(g) if old is None else _added(old, g)

    @contextmanager
    def without_batch(self, updates: Sequence[Update]) -> Iterator[None]:
        """Take the steps of a `with` as the others' steps of these updates, without a batch."""
        self._empty = updates
        try:
            yield
        finally:
            self._empty = ()

    def begin(
        self,
        step: Any,
        updates: Sequence[Update],
        gradients: Mapping[Variable, Any],
        fed: Mapping[Variable, Any],
        computed: bool,
    ) -> None:
        """Wait for the others before a step, which is the same everywhere, as are its variables."""
        process, world, session = self.process, self.process.world, self._session()
        plan = self._plans.get(step)
        if plan is None:
            updates = self._empty or updates
            rounding = f"fused={session.fused}"
            if session.fused and onednn.active():
                rounding += " with oneDNN"
            plan = Plan(process, updates, gradients, fed, self._own, rounding, self.errors)
            self._plans[step] = plan
        if self.is_local:
            self.local.check(gradients)
            if plan.compared:
                self._plan = plan
                return
            if self.local.count:
                self.average()  # what ranks compare before the first step of a program
        samples = process.samples
        if self._empty and not self.accumulated:
            samples = NO_BATCH
        flags = _ALL if process.compares_all else 0
        flags |= _ON_HOST if self._empty or self.accumulated else 0
        if not plan.compared and any(v not in self._seen for v in plan.comparison.states):
            is_late = (computed and not self._empty) or self.accumulated
            flags |= _UNSEEN | (_LATE if is_late else 0)
        every, values = process.settings.check_every, 0
        if every is not None:
            values = plan.comparison.digest(session, self._seen, fed, every)
        weight = np.nan if samples is None else samples
        self._weights, flags, agree = world.barrier(STEP, plan.description, weight, flags, values)
        self._is_on_host = bool(flags & _ON_HOST)
        if flags & _UNSEEN:
            self._synchronize(plan.comparison, bool(flags & _LATE))
        if not agree or flags & _ALL:
            self._compare(plan.comparison, fed)
        plan.comparison.agreed(session, self._seen, None if agree else every)
        process.compares_all = False
        plan.prepare()
        plan.compared, self._plan = True, plan

    def end(self, updates: Sequence[Update]) -> None:
        """Count a local step; after so many of them the ranks average what they have changed."""
        updates = self._empty or updates
        samples = NO_BATCH if self._empty else self.process.samples
        self.local.take(updates, self._own, samples)
        if self.local.count >= self.process.settings.local_steps:
            self.average()

    def average(self) -> None:
        """Average what the ranks have changed in their local steps so far."""
        session = self._session()
        averaged = self.local.average(session)
        self._seen.update(dict.fromkeys(averaged, session.store.touched.count))

    def start(self, gradients: Gradients) -> None:
        """Begin to exchange the gradients computed so far."""
        assert self._plan is not None
        self._plan.start(self._complete(gradients), self.process.factor(self._weights))

    def __call__(self, gradients: Gradients) -> Gradients:
        """Return the means or sums of the gradients of all ranks."""
        assert self._plan is not None
        if self.is_local:
            exchanged = self.local.gradients(self._complete(gradients))
        elif self.process.settings.reproducible:
            exchanged = self._plan.exchange_exactly(gradients, self.accumulated, self._weights)
        else:
            exchanged = self._plan.exchange(self._complete(gradients), self._weights)
        for w in gradients:
            self.accumulated.pop(w, None)
        return exchanged

    def on_device(self, gradients: dict[Variable, Any], device: str) -> dict[Variable, Any] | None:
        """Return the sums of gradients in the memory of a device; None where the host makes them.

        The ranks have agreed on which of them it is.
        """
        own = self.process.device_exchange
        if own is None or own.device != device or self._is_on_host:
            return None
        return summed(own, gradients, self.process.factor(self._weights))

    def _complete(self, gradients):
        """The gradients with what was accumulated before."""
        own = self.accumulated
        return {w: _added(own[w], g) if w in own else g for w, g in gradients.items()}

    def _synchronize(self, comparison, late):
        """Give all ranks the values that rank 0 has of what they have not compared before.

        GraphError if gradients of others are computed.
        """
        world, session = self.process.world, self._session()
        what, states = "the initial values of a training step", comparison.states
        session.store.initialize(states)
        digests = [digest_of(session.store.current(v, copy=False)) for v in states]
        own = np.array([digests, [v in self._seen for v in states]], np.int64)
        every = world.recovering(lambda: world.gather(own.reshape(-1), what))
        every = every.reshape(-1, *own.shape)
        differ = (every[:, 0] != every[0, 0]).any(0) & ~every[:, 1].all(0)
        differing = [v for v, differs in zip(states, differ, strict=True) if differs]
        if differing and late:
            names = ", ".join(v.name for v in differing[:3])
            raise GraphError(
                f"the values of {names} are not the same on all ranks, and gradients were computed "
                "from them already\n  hint: pd.distributed.broadcast() before the first step "
                "inside pd.guard() or no_sync()"
            )
        sent = send_values(world, session, differing, 0, what)
        for v, array in zip(differing, sent, strict=True):
            session.set(v, array)
        self._seen.update(dict.fromkeys(states, session.store.touched.count))

    def _compare(self, comparison, fed):
        """Check that ranks have the same values in a step."""
        entries = comparison.entries(self._session(), self._seen, fed)
        self._raise("a training step", differences(self.process.world, entries, WHAT))

    def compare(self, variables: Sequence[Variable] | None, what: str) -> None:
        """Check that ranks have the same values of variables, by default of all compared before."""
        world, session = self.process.world, self._session()
        world.barrier(COMPARE, Description([what]))
        if variables is None:
            variables = [v for v in list(self._seen) if v not in self._own]
        session.store.initialize(variables)
        entries = {v.name: entry_of(session, self._seen, v) for v in variables}
        self._raise(what, differences(world, entries, what))

    def _raise(self, what, lines):
        if lines:
            raise GraphError("\n".join([f"{what}: the ranks disagree", *lines, _HINT]))


def send_values(
    world: World, session: Any, variables: Sequence[Variable], root: int, what: str
) -> list[np.ndarray]:
    """Return the values that variables have on the rank `root`."""

    def operation():
        if root >= world.size:
            raise RankLost(f"{what}: rank {root}, whose values it sends, was lost")
        arrays = [np.array(session.get(v), order="C") for v in variables]
        for array in arrays:
            world.send_from(root, array, what)
        return arrays

    return world.recovering(operation) if variables else []


def _exactly_added(old, gradient):
    """The accumulated gradients and one more: an exact sum, or a list of rows and values."""
    if isinstance(gradient, tuple):
        return [*(old or []), _copy(gradient)]
    total = ExactSum(np.shape(gradient)) if old is None else old
    total.add(np.asarray(gradient))
    return total


def _copy(gradient):
    return tuple(map(np.array, gradient)) if isinstance(gradient, tuple) else np.array(gradient)


def _added(a, b):
    return join_rows([a, b]) if isinstance(a, tuple) else np.asarray(a + b)
