"""The ranks of an MPI job in a Runner: parts of batches, numbers over all ranks, one place to stop.

A batch of a runner is one batch of the job: each rank has a part of it, or none. With every batch
the ranks tell each other how many samples they have, their costs, and whether one is to stop.
"""

import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ..distributed import allgather, is_initialized, world_size
from ..distributed.process import current
from ..distributed.world import BATCH, NO_BATCH, Description
from ..graph.errors import GraphError
from .batches import batch_size_of

T = TypeVar("T")

TERMINATED, INTERRUPTED = 1, 2  # signals that a rank got
_LOST = 4  # a rank was lost since this one knew the sizes of the batch

_NEXT = Description(["the next batch"])


class Ranks:
    """The job as one Runner sees it.

    `samples` is the number of this rank's samples in the current batch, 0 if it has no part of it;
    None if the item that reads has not said. `splits` says that batches are read whole on all ranks
    and each takes its rows.
    """

    def __init__(self, splits: bool = False) -> None:
        self.samples: int | None = None
        self.splits = splits
        self.signals = 0  # that this rank got
        self.all_signals: int | None = None  # that any rank got, as of the last batch
        self._sizes: dict[int, int] | None = None  # of the parts, by the `ids` of their ranks
        self._handler: Any = None

    @property
    def rank(self) -> int:
        """The number of this process in the job."""
        return current().world.rank

    @property
    def size(self) -> int:
        """The number of processes in the job."""
        return current().world.size

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes and prints."""
        return self.rank == 0

    # ---- batches

    def bounds(self, samples: int) -> tuple[int, int]:
        """Return the first and the end of this rank's rows in a batch that all ranks have."""
        return samples * self.rank // self.size, samples * (self.rank + 1) // self.size

    def part(self, batch: Any) -> tuple[Any, int]:
        """Return this rank's part of a batch of a test, and its number of samples.

        Where all ranks have read the batch, it is this rank's rows. If these are none, it is the
        first row, which does not count: lookups in sharded tables are made on all ranks together.
        """
        samples = batch_size_of(batch)
        if not self.splits:
            return batch, samples
        first, end = self.bounds(samples)
        rows = slice(first, end) if first < end else slice(0, 1)
        return rows_of(batch, samples, rows), end - first

    def take_part(self, samples: int) -> None:
        """Note a batch of so many samples that all ranks have read."""
        world, ends = current().world, [samples * (r + 1) // self.size for r in range(self.size)]
        self._sizes = dict(zip(world.ids, np.diff([0, *ends]).tolist(), strict=True))
        self.samples = self._sizes[world.id]

    def all_reduce_size(self, samples: int | None) -> int | None:
        """Note a batch of this rank alone, None at the end of its pass.

        Returns the number of samples of all ranks; None if the pass is over on all of them.
        """
        weight = NO_BATCH if samples is None else float(samples)
        world = current().world
        weights = world.barrier(BATCH, _NEXT, weight).weights
        if all(w == NO_BATCH for w in weights.values()):
            return None
        self._sizes = {i: int(max(w, 0)) for i, w in weights.items()}
        self.samples = self._sizes[world.id]
        return sum(self._sizes.values())

    def compare_first(self, samples: int, digest: str | None) -> None:
        """Check that all ranks have read the same first batch of a pass: size, first sample."""
        lines = [f"a batch of {samples} samples", f"a first sample with the digest {digest}"]
        current().world.barrier(BATCH, Description(lines))

    def gather_parts(self, samples: int, part: T | None) -> list[T]:
        """Return what the ranks have computed for their rows of a batch of so many samples."""
        sizes, parts = zip(*allgather((samples, part)), strict=True)
        _check_equal(sizes)
        return [each for each in parts if each is not None]

    def end(self, batches: int) -> None:
        """Wait for the others at the end of a pass of so many batches that all ranks have read."""
        current().world.barrier(BATCH, Description([f"a pass of {batches} batches"]))

    @contextmanager
    def weighing(self) -> Iterator[None]:
        """Weigh gradients in the means of training steps by the samples of this batch."""
        process = current()
        outer, process.samples = process.samples, float(self.samples or NO_BATCH)
        try:
            yield
        finally:
            process.samples = outer

    # ---- numbers

    def all_reduce(
        self, numbers: Mapping[str, float], evaluators: Sequence[Any], samples: int
    ) -> tuple[dict[str, float], int]:
        """Return the means of numbers over the samples of a batch on all ranks, and their number.

        `samples` are those of this rank if `Data` has not said so. Each evaluator joins what the
        metrics of all ranks have counted. The results have the same bits everywhere.
        """
        parts, self._sizes = self._sizes, None
        own = samples if self.samples is None else self.samples
        if parts is not None and not evaluators and numbers.keys() == {"cost"}:
            world, total = current().world, sum(parts.values())
            place = Description([f"a batch of {total} samples"])
            flags = self.signals | (_LOST if tuple(parts) != world.ids else 0)
            costs, signals, _ = world.barrier(BATCH, place, numbers["cost"], flags)
            if signals & _LOST:  # some ranks may know other sizes than the rest
                every, sizes = map(list, zip(*allgather((dict(numbers), own)), strict=True))
            else:
                every = [{"cost": cost} for cost in costs.values()]
                sizes = [parts[i] for i in costs]
            signals &= ~_LOST
        else:
            counted = [evaluator.counted() for evaluator in evaluators]
            read = None if parts is None else sum(parts.values())
            gathered = allgather((self.signals, own, dict(numbers), counted, read))
            each_signals, sizes, every, each_counted, whole = map(list, zip(*gathered, strict=True))
            _check_equal(whole)
            signals = int(np.bitwise_or.reduce(each_signals))
            for evaluator, sums in zip(evaluators, zip(*each_counted, strict=True), strict=True):
                evaluator.join(sums)
        self.all_signals = signals
        return _means(every, sizes), sum(sizes)

    def all_reduce_test(
        self, totals: Mapping[str, float], samples: int, tests: Sequence[Any]
    ) -> tuple[dict[str, float], int]:
        """Return the sums of a test over all ranks, and its samples; `tests` join their metrics."""
        gathered = allgather((dict(totals), samples, [test.counted() for test in tests]))
        for test, sums in zip(tests, zip(*[g[2] for g in gathered], strict=True), strict=True):
            test.join(sums)
        every = [g[0] for g in gathered if g[1]]
        names = every[0] if every else {}
        summed = {name: sum([each[name] for each in every]) for name in names}
        return summed, sum([g[1] for g in gathered])

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in their order."""
        return allgather(value)

    def settle(self, session: Any) -> None:
        """Average what local steps have changed, before parameters are of use to all ranks."""
        part = current().of(session)
        if part is not None and part.local.count:
            part.average()

    def compare(self, session: Any) -> None:
        """Check that all ranks have the same values before a checkpoint."""
        process = current()
        part = process.of(session)
        if part is not None and process.settings.check_every is not None:
            part.compare(None, "a checkpoint")

    def on_first(self, function: Callable[[], T]) -> T:
        """Return what a function returns on rank 0, where alone it is called; its error likewise.

        Result and error are picklable.
        """
        first: Any = None
        while first is None:  # again, if rank 0 is lost meanwhile
            result, error, is_first = None, None, self.is_first
            if is_first:
                try:
                    result = function()
                except Exception as raised:
                    error = raised
            every = allgather((result, _sendable(error)) if is_first else None)
            first = next((each for each in every if each is not None), None)
        if error is not None:
            raise error
        if first[1] is not None:
            raise first[1]
        return first[0]

    # ---- signals

    def open(self) -> None:
        """Let Ctrl-C end all ranks after the same batch from now on; a second one ends at once."""
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._interrupt)

    def close(self) -> None:
        """Handle Ctrl-C as before."""
        handler, self._handler = self._handler, None
        if handler is not None:
            signal.signal(signal.SIGINT, handler)

    def _interrupt(self, number, frame):
        if self.signals & INTERRUPTED:
            raise KeyboardInterrupt
        self.signals |= INTERRUPTED

    def check_interrupt(self) -> None:
        """Raise KeyboardInterrupt, once, if a rank got Ctrl-C."""
        if self.has_got(INTERRUPTED):
            self.signals &= ~INTERRUPTED
            self.all_signals = None
            raise KeyboardInterrupt

    def has_got(self, which: int) -> bool:
        """Whether a rank got a signal: any as of the last batch, else this one."""
        got = self.signals if self.all_signals is None else self.all_signals
        return bool(got & which)


def job(splits: bool = False) -> Ranks | None:
    """Return the job that this process is part of; None for a process alone."""
    return Ranks(splits) if is_initialized() and world_size() > 1 else None


def is_writer(ranks: Ranks | None) -> bool:
    """Return whether this process writes: rank 0 of a job, or a process alone."""
    return ranks is None or ranks.is_first


def on_first(ranks: Ranks | None, function: Callable[[], T]) -> T:
    """Return what a function returns, in a job on rank 0, where alone it is called."""
    return function() if ranks is None else ranks.on_first(function)


def rows_of(batch: Any, samples: int, rows: slice) -> Any:
    """Return some rows of a batch of so many samples, in its nesting of dicts, tuples and lists.

    Numbers belong to all rows. GraphError for an array of another number of rows.
    """
    if isinstance(batch, Mapping):
        return {key: _rows(value, samples, rows) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        make: Any = getattr(type(batch), "_make", type(batch))
        return make([_rows(value, samples, rows) for value in batch])
    return _rows(batch, samples, rows)


def _rows(value, samples, rows):
    shape = getattr(value, "shape", None)
    if shape is None:
        is_list = isinstance(value, (tuple, list)) and value
        if is_list and all(getattr(a, "shape", ()) for a in value):
            return rows_of(value, samples, rows)  # several arrays
        shape = np.shape(value)
    if not shape:
        return value
    if shape[0] != samples:
        raise GraphError(
            f"Data: split=True takes rows of each array, and a batch of {samples} samples has one "
            f"of the shape {tuple(shape)}"
        )
    return value[rows]


def _check_equal(whole):
    """Check that all ranks have read a batch of the same number of samples."""
    for rank, samples in enumerate(whole):
        if samples != whole[0]:
            raise GraphError(
                f"the ranks disagree: rank {rank} has a batch of {samples} samples; rank 0 has a "
                f"batch of {whole[0]} samples"
            )


def _means(every, sizes):
    """The means of the numbers of all ranks by name, each by its number of samples."""
    counted = [(numbers, n) for numbers, n in zip(every, sizes, strict=True) if n]
    total = sum(sizes)
    if not total:
        raise GraphError("a batch has no samples on any rank")
    means = {}
    for name in counted[0][0]:
        if any(name not in numbers for numbers, _ in counted):
            raise GraphError(f"the ranks disagree: there is no {name!r} on all of them")
        means[name] = sum([numbers[name] * n for numbers, n in counted]) / total
    return means


def _sendable(error):
    """An error that other ranks can raise."""
    if error is None:
        return None
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  its own error
    except Exception:
        return RuntimeError(f"rank 0: {type(error).__name__}: {error}")
    return error
