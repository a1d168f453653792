"""The exchange of the gradients of one step: what is compared in it, and the buffers of it."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from ..graph.update import Update
from ..graph.variable import Variable, static
from ..run.exchange import Gradients
from .buffers import WHAT, Buffer, fill
from .comparison import Comparison
from .device_sums import name_of
from .exact import ExactSum, exact_rows, sum_exactly
from .overlap import Overlap
from .program import described
from .rows import gather_rows, send_rows
from .table_routes import sum_at_owners
from .top_k import Chosen
from .wires import Int8Wire

Errors = MutableMapping[Variable, np.ndarray]  # what was lost of gradients, by parameter


class Plan:
    """The exchange of one step: its description, what is compared in it, and its buffers.

    `rounding` says what rounds otherwise, which ranks that compare numbers have in common. `errors`
    are those of this rank, which compressed gradients have left for the next steps.
    """

    def __init__(
        self,
        process: Any,
        updates: Sequence[Update],
        gradients: Mapping[Variable, Any],
        fed: Mapping[Variable, Any],
        own: WeakSet[Variable],
        rounding: str,
        errors: Errors,
    ):
        self.errors = errors
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
        self._chosen: list[tuple[list[Any], Chosen]] = []  # of the step that is going on

    def prepare(self) -> None:
        """Make the buffers for the ranks of the world, which are fewer after some were lost."""
        world, settings = self.process.world, self.process.settings
        if self._ids != world.ids and not settings.reproducible and settings.compression != "top_k":
            self._ids = world.ids
            if self.dense:
                world.keep(self.dense)
            self.dense, first = [], 0
            for dtype, refs in self._dense.items():
                wire = Int8Wire if settings.compression == "int8" else settings.wire(dtype)
                shapes = [static(w().dims) for w in refs]
                buffer = Buffer(world, shapes, dtype, wire, settings.bucket_bytes, first)
                first += len(buffer.buckets)
                self.dense.append((refs, buffer))
            buffers = [buffer for _, buffer in self.dense]
            overlaps = settings.divisions > 1 and world.size > 1
            self._overlap = Overlap(buffers) if overlaps else None
            self._started = set()
        if settings.compression == "int8":
            for refs, buffer in self.dense:
                buffer.errors = [self._error(w()) for w in refs]

    def _error(self, w):
        """The compression error of a parameter's gradients so far, at first zeros."""
        found = self.errors.get(w)
        return np.zeros(static(w.dims), w.dtype) if found is None else found

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
        packed = process.settings.compression

        def operation():
            factor = process.factor(weights)
            add_up = self._sum_of_largest if packed == "top_k" else self._sum
            sums = add_up(gradients, factor)
            own = [self._sum_at_owners(w, gradients[w], factor) for w in shards]
            return sums, gather_rows(process.world, pairs, factor, wires) + own

        sums, rows = process.world.recovering(operation)
        if packed is not None:
            self._keep_errors()
        exchanged: Gradients = dict(zip([*tables, *shards], rows, strict=True))
        for refs, arrays in zip(self._dense.values(), sums, strict=True):
            exchanged.update(zip([w() for w in refs], arrays, strict=True))
        return exchanged

    def _keep_errors(self):
        """Keep what this step has lost of the gradients: it was not in the sums."""
        for refs, buffer in self.dense:
            lost = [np.array(array) for array in buffer.split(buffer.wire.errors)]
            self.errors.update(zip([w() for w in refs], lost, strict=True))
        for refs, chosen in self._chosen:
            self.errors.update(zip([w() for w in refs], chosen.rests, strict=True))

    def _sum_of_largest(self, gradients, factor):
        """The sums of the largest elements of the dense gradients, a list for each dtype."""
        self._chosen, sums = [], []
        for refs in self._dense.values():
            own = []
            for w in (w() for w in refs):
                array = np.empty(static(w.dims), w.dtype)
                fill(array, gradients[w], factor)
                own.append(array + self._error(w))
            chosen = Chosen(own, self.process.settings.top_k)
            self._chosen.append((refs, chosen))
            sums.append(chosen.sum(self.process.world))
        return sums

    def exchange_exactly(
        self,
        gradients: Gradients,
        accumulated: Mapping[Variable, Any],
        weights: Mapping[int, float],
    ) -> Gradients:
        """Return the same as `exchange`, with exact sums of all that the ranks have accumulated."""
        process = self.process
        dense: list[Any] = [w() for refs in self._dense.values() for w in refs]
        by_rows: list[Any] = [w() for w in (*self.sparse, *self.sharded)]

        def operation():
            world = process.world
            own, total = process.share(weights)
            parts = []
            for w in dense:
                part = ExactSum(static(w.dims))
                if w in accumulated:
                    part.merge(accumulated[w])
                part.add(np.asarray(gradients[w]))
                parts.append(part.scaled(int(own)))
            sums = sum_exactly(world, parts, [w.dtype for w in dense], total)
            every, rows = process.shares(weights), []
            for w in by_rows:
                pairs = [*accumulated.get(w, []), gradients[w]]
                numbers, values = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
                joined = numbers, values
                if w.is_shard:
                    sent = w.storage.table.sent
                    to_join = sum_at_owners(world, joined, 1.0, None, WHAT, sent, list)
                else:
                    to_join = send_rows(world, joined)
                numbers, values = exact_rows(to_join, [int(n) for n in every], total)
                rows.append((numbers // world.size if w.is_shard else numbers, values))
            return sums, rows

        sums, rows = process.world.recovering(operation)
        return dict(zip([*dense, *by_rows], [*sums, *rows], strict=True))

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
