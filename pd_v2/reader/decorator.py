"""Reader decorators: functions that take readers and return a new one.

Nothing is read before the new reader is iterated.
"""

import itertools
import math
import sys
from operator import length_hint

from pd_core.training import positions
from pd_core.training.generators import generators_state, set_generators
from pd_v2.reader import shuffling
from pd_v2.reader.iterators import ReaderIterator, Sources, Stream, restored_each
from pd_v2.reader.pipe import PipeReader, pipe_reader
from pd_v2.reader.protocol import require_reader, whole_number, wrapping
from pd_v2.reader.threads import buffered, xmap_readers

__all__ = [
    "ComposeNotAligned", "PipeReader", "buffered", "chain", "compose", "firstn", "map_readers",
    "pipe_reader", "shuffle", "xmap_readers",
]  # fmt: skip

_MISSING = object()


class ComposeNotAligned(ValueError):
    """Raised if readers composed with check_alignment have different numbers of samples."""


def map_readers(func, *readers):
    """Apply func(a, b, ...) to the samples of readers in lockstep, up to the shortest.

    With None in place of a function, a sample is the tuple (a, b, ...).
    """
    if func is None:
        func = _as_row
    if not callable(func):
        raise TypeError(f"map_readers: func must be a function, got {type(func).__name__}")
    _require_readers("map_readers", readers)

    return positions.known(lambda: Stream(_Mapped(func, readers)), *readers, draws=True)


def _as_row(*samples):
    return samples


class _Mapped(Sources):
    """Samples of several readers, mapped."""

    name = "map_readers"

    def __init__(self, func, readers):
        super().__init__(*readers)
        self._func = func

    def items(self):
        return map(self._func, *self.open())


def shuffle(reader, buf_size):
    """Shuffle samples within windows of buf_size, with the `random` module.

    A window is full as soon as it has no less: of 2.5 with 3 samples.
    """
    require_reader("shuffle", reader)
    if isinstance(buf_size, float):
        size = sys.maxsize if buf_size == math.inf else math.ceil(buf_size)
    else:
        size = whole_number("shuffle: buf_size", buf_size)
    size = max(size, 1)

    read = positions.known(lambda: _Shuffled(reader, size), reader, draws=True)
    return wrapping(reader, read)


class _Shuffled(ReaderIterator):
    """Samples shuffled within windows; the rest of the current window is available.

    The position is the beginning of the window and the number of samples given out from it. To read
    the window again, the global generators have to be where they were.
    """

    name = "shuffle"

    def __init__(self, reader, size):
        super().__init__(reader)
        self._size, self._window = size, iter(())
        self._beginning, self._count = None, 0

    def __next__(self):
        for sample in self._window:
            return sample
        self._read_window()
        return next(self._window)

    def _read_window(self, order=None):
        """Read and shuffle a window, with `random` in the state `order` where that is given."""
        samples, beginning = self.samples, None
        known = positions.traits(self._reader)
        if self._tracks:
            beginning = {"source": samples.state()}
        if self._tracks and (known.draws or known.draws_ahead):
            beginning["generators"] = generators_state()
        window = list(itertools.islice(samples, self._size))
        if order is not None:
            positions.draws_ahead(samples)  # now: threads that began with the window have drawn
            set_generators(order)
        if self._tracks and (known.draws_ahead or not known.draws):
            beginning["order"] = generators_state(with_numpy=False)
        shuffling.shuffle(window)
        self._beginning, self._count, self._window = beginning, len(window), iter(window)

    @property
    def available(self):
        """The number of samples left in the window."""
        return length_hint(self._window)

    def _state(self):
        if self._beginning is None:
            return super()._state()
        return {**self._beginning, "given": self._count - length_hint(self._window)}

    def _restore(self, state):
        known, entries = positions.traits(self._reader), state.keys() - {"of", "source"}
        draws = {"generators"} if known.draws or known.draws_ahead else set()
        order = {"order"} if known.draws_ahead or not known.draws else set()
        if entries and entries != {"given"} | draws | order:
            raise positions.other_reader(self._reader, "a place in a window", state)
        self._samples = positions.restored(self._reader, state["source"], self._discard)
        if not entries:
            return
        if "generators" in state:
            set_generators(state["generators"], but=positions.draws_ahead(self._samples))
        self._read_window(state.get("order"))
        positions.skip(self._window, state["given"], self._reader)

    def _discard(self, samples, count):
        """Take samples of the windows before; draw for them, as the reader may draw in between."""
        left = count
        while left > 0 and (window := list(itertools.islice(samples, min(left, self._size)))):
            shuffling.shuffle(window)
            left -= len(window)
        positions.require_all(count - left, count, self._reader)

    def close(self):
        super().close()
        self._window = iter(())


def chain(*readers):
    """Concatenate readers: all samples of the first, then all of the second, and so on."""
    _require_readers("chain", readers)

    return positions.known(lambda: Stream(_Chained(*readers)), *readers)


class _Chained(Sources):
    """Samples of several readers, one reader after the other; the first `_current` have ended."""

    name = "chain"
    _current = 0

    def items(self):
        self.open()
        return itertools.chain.from_iterable(self._each())

    def _each(self):
        while self._current < len(self.readers):
            yield self.iterators[self._current]
            self._current += 1

    def state(self):
        states = [items.state() for items in self.iterators[self._current :]]
        return {"current": self._current, "sources": states}

    def restore(self, state):
        self._current = state["current"]
        rest = restored_each(self.readers[self._current :], state["sources"])
        self.iterators = [iter(()) for _ in range(self._current)] + rest


def compose(*readers, check_alignment=True):
    """Zip readers; samples are joined to one flat tuple: (1, 2) and 3 make (1, 2, 3).

    ComposeNotAligned if their lengths differ; with check_alignment=False the surplus is dropped.
    """
    _require_readers("compose", readers)

    return positions.known(lambda: Stream(_Composed(readers, check_alignment)), *readers)


class _Composed(Sources):
    """Samples of several readers, joined."""

    name = "compose"

    def __init__(self, readers, check_alignment):
        super().__init__(*readers)
        self._rows = _aligned if check_alignment else _shortest

    def items(self):
        return map(_joined, self._rows(self.open()))


def firstn(reader, n):
    """Limit a reader to the first n samples."""
    require_reader("firstn", reader)
    n = whole_number("firstn: n", n)
    if n < 0:
        raise ValueError(f"firstn: n must not be negative, got {n}")

    return wrapping(reader, positions.known(lambda: Stream(_First(reader, n)), reader))


class _First(Sources):
    """The first samples of a reader; `_left` has an element for each that is still to come."""

    name = "firstn"

    def __init__(self, reader, n):
        super().__init__(reader)
        self._left = itertools.repeat(True, n)

    def items(self):
        (samples,) = self.open()
        return itertools.compress(itertools.islice(samples, length_hint(self._left)), self._left)

    def state(self):
        return {**super().state(), "left": length_hint(self._left)}

    def restore(self, state):
        super().restore(state)
        self._left = itertools.repeat(True, state["left"])


def _require_readers(who, readers):
    if not readers:
        raise TypeError(f"{who}: at least one reader is needed")
    for reader in readers:
        require_reader(who, reader)


def _joined(row):
    return tuple(itertools.chain.from_iterable(map(_as_tuple, row)))


def _as_tuple(sample):
    return sample if isinstance(sample, tuple) else (sample,)


def _shortest(streams):
    return zip(*streams, strict=False)


def _aligned(streams):
    """Zip streams; ComposeNotAligned if one ends before the others."""
    for count, row in enumerate(itertools.zip_longest(*streams, fillvalue=_MISSING)):
        ended = [str(i) for i, sample in enumerate(row) if sample is _MISSING]
        if ended:
            raise ComposeNotAligned(
                f"compose: outputs of readers are not aligned: of {len(row)} readers, "
                f"number {', '.join(ended)} ended after {count} samples and another went on"
            )
        yield row
