"""The exchange of gradients between the ranks, in every training step of every session."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from ..graph.errors import GraphError
from ..graph.update import Update
from ..graph.variable import Variable, static
from ..run.exchange import Gradients
from ..run.session import Session
from .buffers import WHAT, Buffer
from .comparison import Comparison, differences, digest_of, entry_of
from .device_sums import name_of, summed
from .overlap import Overlap
from .program import described
from .recovery import RankLost
from .rows import gather_rows, join_rows
from .table_routes import sum_at_owners
from .world import COMPARE, NUMBER, STEP, SUM, Description, World

# Flags: variables not compared yet; their gradients are computed already; compare all
_UNSEEN, _LATE, _ALL = 1, 2, 4
_ON_HOST = 8  # gradients are exchanged on the host: one rank has more than those of its device
_NUMBER = Description(["a number"])
NO_BATCH = -1.0  # the weight of a rank in an empty step
_HINT = (
    "  hint: all ranks set, load and assign the same values; pd.distributed.broadcast() gives them "
    "those of rank 0"
)
_GOLDEN = 0x9E3779B9  # 2^32 / golden ratio: seeds of neighbouring ranks are far apart


@dataclass(frozen=True)
class Settings:
    """How gradients are exchanged: the options of `init`."""

    reduce: str = "mean"
    wire_dtype: str | None = None
    bucket_bytes: int = 1 << 22
    own_draws: bool = True
    divisions: int = 1
    sync_batch_norm: bool = False
    check_every: int | None = 100

    def wire(self, dtype: np.dtype) -> np.dtype | None:
        """Return the dtype in which values of a dtype travel, None for their own."""
        if self.wire_dtype is None or dtype.itemsize <= 2:
            return None
        if self.wire_dtype == "bfloat16":
            from ml_dtypes import bfloat16  # comes with onnx

            return np.dtype(bfloat16)
        return np.dtype(self.wire_dtype)


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
        part = self._sessions.get(session)
        if part is None:
            part = self._sessions[session] = SessionExchange(self, session)
        if self.world.size == 1 and not self.accumulating and not part.accumulated:
            return None
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

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the sums over the ranks of arrays in the middle of a program."""
        shapes = [f"{a.dtype}{list(a.shape)}" for a in arrays]
        self.world.barrier(SUM, Description(shapes))

        def operation():
            summed = []
            for text, array in zip(shapes, arrays, strict=True):
                key = self.world.ids, text
                if key not in self._buffers:
                    self._buffers[key] = Buffer(self.world, [array.shape], array.dtype)
                summed.append(np.array(self._buffers[key].reduce([array])[0]))
            return summed

        return self.world.recovering(operation)

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
        weights = np.array([every[i] for i in self.world.ids])
        has_batch = weights != NO_BATCH
        if len(weights) < len(every) and not (has_batch & (weights != 0.0)).any():
            return 0.0
        if not has_batch.any():
            raise GraphError("empty_step: no rank has a batch in this step")
        if not has_batch[self.world.rank]:
            return 0.0
        if self.settings.reduce == "sum":
            return 1.0
        given = ~np.isnan(weights[has_batch])
        if not given.any():
            return 1.0 / int(has_batch.sum())
        if not given.all():
            without = np.flatnonzero(np.isnan(weights)).tolist()
            raise GraphError(
                f"the ranks disagree: ranks {without} have no set_batch_size(), the others do"
            )
        total = float(weights[has_batch].sum())
        if total == 0.0:
            raise GraphError("set_batch_size: no rank has a sample in this step")
        return float(weights[self.world.rank]) / total


class SessionExchange:
    """The part of one session: what it has accumulated, and when its variables were compared."""

    def __init__(self, process: RankExchange, session: Session):
        self.process = process
        self._session: Any = ref(session)
        self.accumulated: Gradients = {}
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

    def accumulate(self, gradients: Gradients) -> None:
        """Add gradients to those that the next step exchanges."""
        for w, g in gradients.items():
            old = self.accumulated.get(w)
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
            plan = Plan(process, updates, gradients, fed, self._own, rounding)
            self._plans[step] = plan
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

    def start(self, gradients: Gradients) -> None:
        """Begin to exchange the gradients computed so far."""
        assert self._plan is not None
        self._plan.start(self._complete(gradients), self.process.factor(self._weights))

    def __call__(self, gradients: Gradients) -> Gradients:
        """Return the means or sums of the gradients of all ranks."""
        assert self._plan is not None
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


class Plan:
    """The exchange of one step: its description, what is compared in it, and its buffers.

    `rounding` says what rounds otherwise, which ranks that compare numbers have in common.
    """

    def __init__(
        self,
        process: RankExchange,
        updates: Sequence[Update],
        gradients: Mapping[Variable, Any],
        fed: Mapping[Variable, Any],
        own: WeakSet[Variable],
        rounding: str,
    ):
        self.process, options = process, process.settings
        self.compared = False  # whether the ranks have compared all of its variables
        is_exact = options.check_every is not None
        told = [str(options), name_of(process.device_exchange), *([rounding] if is_exact else [])]
        self.description = described(updates, gradients, told, is_exact)
        self.comparison = Comparison(updates, gradients, fed, own)
        by_rows = [w for w, g in gradients.items() if isinstance(g, tuple)]
        self.sparse = [ref(w) for w in by_rows if not w.is_shard]
        self.sharded = [ref(w) for w in by_rows if w.is_shard]
        self._dense: dict[np.dtype, list[Any]] = {}
        # the gradient of the last layer is known first
        for w, g in reversed(list(gradients.items())):
            if not isinstance(g, tuple):
                self._dense.setdefault(np.dtype(w.dtype), []).append(ref(w))
        self._ids: tuple[int, ...] = ()  # the ranks for which the buffers are prepared
        self.dense: list[tuple[list[Any], Buffer]] = []
        self._overlap: Overlap | None = None
        self._started: set[Variable] = set()

    def prepare(self) -> None:
        """Make the buffers for the ranks of the world, which are fewer after some were lost."""
        world, settings = self.process.world, self.process.settings
        if self._ids == world.ids:
            return
        self._ids = world.ids
        if self.dense:
            world.keep(self.dense)
        self.dense = [
            (
                refs,
                Buffer(
                    world,
                    [static(w().dims) for w in refs],
                    dtype,
                    settings.wire(dtype),
                    settings.bucket_bytes,
                ),
            )
            for dtype, refs in self._dense.items()
        ]
        buffers = [buffer for _, buffer in self.dense]
        self._overlap = Overlap(buffers) if settings.divisions > 1 and world.size > 1 else None
        self._started = set()

    def start(self, gradients: Gradients, factor: float) -> None:
        """Begin to exchange gradients, while others of the same step are computed."""
        if self._overlap is None or self._ids != self.process.world.ids:
            return
        if not self._started:
            self._overlap.reset()  # what a step left that failed before its exchange
        arrays: dict[tuple[Buffer, int], Any] = {}
        for refs, buffer in self.dense:
            for k, reference in enumerate(refs):
                w: Any = reference()
                if w in gradients and w not in self._started:
                    arrays[buffer, k] = gradients[w]
                    self._started.add(w)
        self._overlap.fill(arrays, factor)

    def exchange(self, gradients: Gradients, weights: Mapping[int, float]) -> Gradients:
        """Return the means or sums of the gradients of all ranks, of these weights."""
        process = self.process
        if process.world.size == 1 and process.factor(weights) == 1.0:
            return gradients
        tables: list[Any] = [w() for w in self.sparse]
        shards: list[Any] = [w() for w in self.sharded]
        pairs: list[Any] = [gradients[w] for w in tables]
        wires = [process.settings.wire(np.dtype(w.dtype)) for w in tables]

        def operation():
            factor = process.factor(weights)
            sums = self._sum(gradients, factor)
            own = [self._sum_at_owners(w, gradients[w], factor) for w in shards]
            return sums, gather_rows(process.world, pairs, factor, wires) + own

        sums, rows = process.world.recovering(operation)
        exchanged: Gradients = dict(zip([*tables, *shards], rows, strict=True))
        for refs, arrays in zip(self._dense.values(), sums, strict=True):
            exchanged.update(zip([w() for w in refs], arrays, strict=True))
        return exchanged

    def _sum(self, gradients, factor):
        """The sums of the dense gradients, a list for each dtype."""
        self.prepare()
        if self._overlap is not None:
            self.start(gradients, factor)
            self._started.clear()
            self._overlap.finish()
            return [buffer.views for _, buffer in self.dense]
        return [
            buffer.reduce([gradients[w()] for w in refs], factor) for refs, buffer in self.dense
        ]

    def _sum_at_owners(self, w, pair, factor):
        """The gradient of the rows of a sharded table that this rank owns."""
        wire = self.process.settings.wire(np.dtype(w.dtype))
        world, sent = self.process.world, w.storage.table.sent
        rows, values = sum_at_owners(world, pair, factor, wire, WHAT, sent)
        return rows // world.size, values


def _copy(gradient):
    return tuple(map(np.array, gradient)) if isinstance(gradient, tuple) else np.array(gradient)


def _added(a, b):
    return join_rows([a, b]) if isinstance(a, tuple) else np.asarray(a + b)
