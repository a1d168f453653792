"""Readers: functions without arguments that return an iterable of samples.

    train = reader.shuffle(dataset.mnist.train(), buf_size=8192)
    for image, label in train(): ...

A sample is whatever the reader yields, for a trainer a tuple with one field per data column.
"""

# isort: skip_file
# fmt: off
from pd_v2.online import online
from pd_v2.reader import creator
from pd_v2.reader.decorator import (
    ComposeNotAligned, PipeReader, buffered, chain, compose, firstn, map_readers, pipe_reader,
    shuffle, xmap_readers,
)
from pd_v2.reader.groups import batch as batched  # `paddle.batch`, as it was called at first

__all__ = [
    "ComposeNotAligned", "PipeReader", "buffered", "chain", "compose", "creator", "firstn",
    "map_readers", "online", "pipe_reader", "shuffle", "xmap_readers",
]
