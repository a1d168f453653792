"""Samples grouped into lists, the minibatches."""

import itertools
import operator

from pd_v2.reader.ahead import Holding, held
from pd_v2.reader.protocol import require_reader, wrapping

__all__ = ["batch"]


def batch(reader, batch_size):
    """A reader of lists of batch_size samples; the last list holds what is left."""
    require_reader("batch", reader)
    try:
        size = operator.index(batch_size)
    except TypeError:
        raise TypeError(f"batch: batch_size must be an integer, got {batch_size!r}") from None
    if size < 1:
        raise ValueError(f"batch: batch_size must be at least 1, got {size}")

    return wrapping(reader, lambda: _Groups(reader, size))


class _Groups(Holding):
    """Lists of `size` samples."""

    def __init__(self, reader, size):
        super().__init__(reader)
        self._size = size

    def __next__(self):
        group = list(itertools.islice(self.samples, self._size))
        if not group:
            raise StopIteration
        return group

    @property
    def held(self):
        """The number of batches that the held samples make, a fraction for the last."""
        return held(self._samples) / self._size
