"""Minibatches: samples grouped into lists."""

import itertools
import operator

from pd_v2.reader.protocol import require_reader

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

    def batches():
        samples = iter(reader())
        while group := list(itertools.islice(samples, size)):
            yield group

    batches.works_ahead = getattr(reader, "works_ahead", False)
    return batches
