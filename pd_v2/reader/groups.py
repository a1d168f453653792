"""`paddle.batch`: samples grouped into minibatches."""

import itertools

from pd_core.training.positions import known, not_tracked
from pd_v2.reader.iterators import ReaderIterator
from pd_v2.reader.prefetch import available
from pd_v2.reader.protocol import require_reader, whole_number, wrapping

__all__ = ["batch"]


def batch(reader, batch_size):
    """Return a reader of lists of batch_size samples; the last list may be shorter."""
    require_reader("batch", reader)
    size = whole_number("batch: batch_size", batch_size)
    if size < 1:
        raise ValueError(f"batch: batch_size must be at least 1, got {size}")

    return wrapping(reader, known(lambda: _Minibatches(reader, size), reader))


class _Minibatches(ReaderIterator):
    """Lists of `size` samples."""

    name = "batch"

    def __init__(self, reader, size):
        super().__init__(reader)
        self._size, self._whole = size, True

    def __next__(self):
        self._whole = False  # until no error can come
        samples = list(itertools.islice(self.samples, self._size))
        self._whole = True
        if not samples:
            raise StopIteration
        return samples

    @property
    def available(self):
        """The number of available batches, which may be a fraction."""
        return available(self._samples) / self._size

    def _state(self):
        if not self._whole:
            raise not_tracked(self._reader)
        return super()._state()
