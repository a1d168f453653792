"""Reader decorators: functions that take readers and return a new one.

Nothing is read before the new reader is iterated.
"""

import itertools
import operator

from pd_v2.reader import shuffling
from pd_v2.reader.pipe import PipeReader, pipe_reader
from pd_v2.reader.prefetch import ReaderIterator
from pd_v2.reader.protocol import require_reader, wrapping
from pd_v2.reader.threads import buffered, xmap_readers

__all__ = [
    "ComposeNotAligned",
    "PipeReader",
    "buffered",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "pipe_reader",
    "shuffle",
    "xmap_readers",
]

_MISSING = object()


class ComposeNotAligned(ValueError):
    """Raised if readers composed with check_alignment have different numbers of samples."""


def map_readers(func, *readers):
    """Apply func(a, b, ...) to the samples of readers in lockstep, up to the shortest."""
    if not callable(func):
        raise TypeError(f"map_readers: func must be a function, got {type(func).__name__}")
    _require_readers("map_readers", readers)

    def mapped():
        yield from map(func, *(reader() for reader in readers))

    return mapped


def shuffle(reader, buf_size):
    """Shuffle samples within windows of buf_size, with the `random` module."""
    require_reader("shuffle", reader)

    return wrapping(reader, lambda: _Shuffled(reader, max(buf_size, 1)))


class _Shuffled(ReaderIterator):
    """Samples shuffled within windows; the rest of the current window is available."""

    def __init__(self, reader, size):
        super().__init__(reader)
        self._size, self._window = size, iter(())

    def __next__(self):
        for sample in self._window:
            return sample
        window = list(itertools.islice(self.samples, self._size))
        shuffling.shuffle(window)
        self._window = iter(window)
        return next(self._window)

    @property
    def available(self):
        """The number of samples left in the window."""
        return operator.length_hint(self._window)

    def close(self):
        super().close()
        self._window = iter(())


def chain(*readers):
    """Concatenate readers: all samples of the first, then all of the second, and so on."""
    _require_readers("chain", readers)

    def chained():
        yield from itertools.chain.from_iterable([reader() for reader in readers])

    return chained


def compose(*readers, check_alignment=True):
    """Zip readers; samples are joined to one flat tuple: (1, 2) and 3 make (1, 2, 3).

    ComposeNotAligned if their lengths differ; with check_alignment=False the surplus is dropped.
    """
    _require_readers("compose", readers)

    def composed():
        streams = [reader() for reader in readers]
        rows = _aligned(streams) if check_alignment else zip(*streams, strict=False)
        for row in rows:
            yield tuple(itertools.chain.from_iterable(map(_as_tuple, row)))

    return composed


def firstn(reader, n):
    """Limit a reader to the first n samples."""
    require_reader("firstn", reader)
    if n < 0:
        raise ValueError(f"firstn: n must not be negative, got {n}")

    def first():
        yield from itertools.islice(reader(), n)

    return wrapping(reader, first)


def _require_readers(who, readers):
    if not readers:
        raise TypeError(f"{who}: at least one reader is needed")
    for reader in readers:
        require_reader(who, reader)


def _as_tuple(sample):
    return sample if isinstance(sample, tuple) else (sample,)


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
