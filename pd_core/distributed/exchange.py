"""The exchange of gradients between the ranks, in every training step of every session."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from ..graph.errors import GraphError
from ..graph.node import ancestors
from ..graph.update import Update
from ..graph.variable import Variable, static
from ..run.exchange import Gradients
from ..run.session import Session
from .buffers import WHAT, Buffer
from .overlap import Overlap
from .recovery import RankLost
from .rows import gather_rows, join_rows
from .table_routes import sum_at_owners
from .world import STEP, SUM, Description, World

_UNSEEN, _LATE = 1, 2  # flags: variables not compared yet; their gradients are computed already
NO_BATCH = -1.0  # the weight of a rank in an empty step
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

    `samples` is the weight of its gradients in means, None for equal ones.
    """

    def __init__(self, world: World, settings: Settings):
        self.world, self.settings = world, settings
        self.accumulating = False
        self.samples: float | None = None
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

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the sums over the ranks of arrays in the middle of a program."""
        shapes = [f"{a.dtype}{list(a.shape)}" for a in arrays]
        self.world.meet(SUM, Description(shapes))

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
    """The part of one session: what it has accumulated, and which variables were compared."""

    def __init__(self, process: RankExchange, session: Session):
        self.process = process
        self._session: Any = ref(session)
        self.accumulated: Gradients = {}
        self._seen: WeakSet[Variable] = WeakSet()
        self._plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()
        self._plan: Plan | None = None
        self._weights: dict[int, float] = {}
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
        computed: bool,
    ) -> None:
        """Meet the other ranks before a step: it is the same on all, and so are its variables."""
        world = self.process.world
        plan = self._plans.get(step)
        if plan is None:
            plan = self._plans[step] = Plan(self.process, self._empty or updates, gradients)
        samples = self.process.samples
        if self._empty and not self.accumulated:
            samples = NO_BATCH
        flags = 0
        if not plan.compared and any(v not in self._seen for v in plan.states()):
            is_late = (computed and not self._empty) or self.accumulated
            flags = _UNSEEN | (_LATE if is_late else 0)
        self._weights, flags = world.meet(
            STEP,
            plan.description,
            np.nan if samples is None else samples,
            flags,
        )
        if flags & _UNSEEN:
            self._synchronize(plan.states(), bool(flags & _LATE))
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

    def _complete(self, gradients):
        """The gradients with what was accumulated before."""
        own = self.accumulated
        return {w: _added(own[w], g) if w in own else g for w, g in gradients.items()}

    def _synchronize(self, variables, late):
        """Give all ranks the values of rank 0; GraphError if gradients of others are computed."""
        world, session = self.process.world, self._session()
        what = "the initial values of a training step"
        session.initialize(variables)
        digests = [blake2b(session.current(v).tobytes(), digest_size=8).digest() for v in variables]
        own = np.frombuffer(b"".join(digests), np.int64)
        every = world.recovering(lambda: world.gather(own, what))
        differ = [v for v, column in zip(variables, every.T, strict=True) if np.ptp(column)]
        if differ and late:
            names = ", ".join(v.name for v in differ[:3])
            raise GraphError(
                f"the values of {names} are not the same on all ranks, and gradients were computed "
                "from them already\n  hint: pd.distributed.broadcast() before the first step "
                "inside pd.guard() or no_sync()"
            )
        for v, array in zip(differ, send_values(world, session, differ, 0, what), strict=True):
            session.set(v, array)
        self._seen.update(variables)


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
    """The exchange of one step: its description, its buffers, and the variables that it reads."""

    def __init__(
        self, process: RankExchange, updates: Sequence[Update], gradients: Mapping[Variable, Any]
    ):
        self.process = process
        self.compared = False  # whether the ranks have compared all of its variables
        self._states = [ref(v) for v in _states(updates)]
        self.description = Description(_lines(updates, gradients, process.settings))
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

    def states(self) -> list[Variable]:
        """Return the persistent variables that the step reads or writes."""
        states = [state() for state in self._states]
        return [v for v in states if v is not None]

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
        world, sent = self.process.world, w.table.sent
        rows, values = sum_at_owners(world, pair, factor, wire, WHAT, sent)
        return rows // world.size, values


def _states(updates):
    """The persistent variables that training steps read or write, in the order of the graph.

    They have one value on all ranks: rows of sharded tables, with their slots, are left out.
    """
    assignments = [a for u in updates if u.gradients for a in u.assignments]
    states: dict[Variable, None] = {}
    for node in ancestors([a.value for a in assignments]):
        for x in node.inputs:
            origin = x if x is None or x.source is None else x.source
            if origin is not None and origin.is_persistent:
                states[origin] = None
    states.update(dict.fromkeys(a.variable for a in assignments))
    return [v for v in states if not v.is_shard]


def _lines(updates, gradients, settings):
    """Lines that are the same on ranks that may exchange their gradients."""
    lines = [str(settings)]
    for number, (w, g) in enumerate(gradients.items()):
        form = "rows of " if isinstance(g, tuple) else ""
        form = form if not w.is_shard else "rows of the sharded table "
        lines.append(f"gradient {number} of {form}{w.name}: {w.dtype}{list(w.dims)}")
    lines.append(f"no gradient {len(gradients)}")  # another rank may have one
    seam = [v for g in gradients.values() for v in (g if isinstance(g, tuple) else (g,))]
    backward = ancestors(seam)
    # sizes that are not known before a batch comes may be others on each rank
    feeds = dict.fromkeys(
        x for node in backward for x in node.inputs if x is not None and x.is_feed
    )
    for number, x in enumerate(feeds):
        lines.append(f"feed {number}: {x.dtype}{list(x.shape)}")
    lines.append(f"no feed {len(feeds)}")
    # the backward pass first: a difference there is what a user recognizes
    for number, node in enumerate(backward):
        lines.append(f"operator {number} of the gradients: {node.op_type}")
    values = [a.value for u in updates if u.gradients for a in u.assignments]
    for number, node in enumerate(ancestors(values, seam)):
        lines.append(f"operator {number} of the update: {node.op_type}")
    return lines


def _copy(gradient):
    return tuple(map(np.array, gradient)) if isinstance(gradient, tuple) else np.array(gradient)


def _added(a, b):
    return join_rows([a, b]) if isinstance(a, tuple) else np.asarray(a + b)
