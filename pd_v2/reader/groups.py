"""`paddle.batch`: samples grouped into minibatches."""

import itertools
import operator

from pd_v2.reader.prefetch import ReaderIterator, available
from pd_v2.reader.protocol import require_reader, wrapping

__all__ = ["batch"]


def batch(reader, batch_size):
    """Return a reader of lists of batch_size samples; the last list may be shorter."""
    require_reader("batch", reader)
    try:
        size = operator.index(batch_size)
    except TypeError:
        raise TypeError(f"batch: batch_size must be an integer, got {batch_size!r}") from None
    if size < 1:
        raise ValueError(f"batch: batch_size must be at least 1, got {size}")

    return wrapping(reader, lambda: _Minibatches(reader, size))


class _Minibatches(ReaderIterator):
    """Lists of `size` samples."""

    def __init__(self, reader, size):
        super().__init__(reader)
        self._size = size

    def __next__(self):
        samples = list(itertools.islice(self.samples, self._size))
        if not samples:
            raise StopIteration
        return samples

    @property
    def available(self):
        """The number of available batches, which may be a fraction."""
        return available(self._samples) / self._size
