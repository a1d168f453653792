"""Values of tables whose rows are spread over the ranks of a job, a block of rows at a time.

No rank holds a whole table, unless a program asks for its value.
"""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

import pd_core as pd
from pd_core.distributed.alone import can_exchange

from ..formats.parameter_file import FileValue

LARGEST = 1 << 22  # bytes of a value that each rank reads as a whole
_BLOCK_ELEMENTS = 1 << 20
_WIDEST = 1 << 15


class OwnRows(NamedTuple):
    """The rows of this rank of a table, in the shape of its shard, and the size of the table."""

    rows: np.ndarray
    size: int


def drawn(table, stream, config):
    """Return this rank's rows of what a parameter of this ParameterConfig draws from a RandR."""
    width, is_uniform = table.shape[1], config.initial_strategy == 1
    distribution = config.initial_mean, config.initial_std
    if width <= _WIDEST and (is_uniform or width % 2 == 0):
        draw = stream.uniform_rows if is_uniform else stream.normal_rows
        own = np.zeros(table.shard.dims, np.float32)
        rows = draw(*distribution, table.shape, table.rank, table.ranks)
        own[: len(rows)] = rows
        return own
    # a pair of normal values may be of two rows
    height = max(2, _BLOCK_ELEMENTS // width // 2 * 2)
    draw = stream.uniform_parts if is_uniform else stream.normal_parts
    return _own_rows(table, draw(*distribution, int(config.size), height * width))


def own_rows(table, value):
    """Return this rank's rows of a whole value: an array, OwnRows, or one that is in a file."""
    if isinstance(value, OwnRows):
        return value.rows
    if not isinstance(value, FileValue):
        return table.own_part(np.asarray(value).reshape(table.shape))
    width = table.shape[1]
    count = max(1, _BLOCK_ELEMENTS // width) * width
    starts = range(0, value.size, count)
    return _own_rows(table, (value.elements(s, min(s + count, value.size)) for s in starts))


def _own_rows(table, blocks):
    """The rows of this rank in blocks of whole rows, which follow each other."""
    own = np.zeros(table.shard.dims, np.float32)
    start = 0
    for block in blocks:
        rows = block.reshape(-1, *table.shape[1:])
        first = (table.rank - start) % table.ranks
        mine = rows[first :: table.ranks]
        place = (start + first) // table.ranks
        own[place : place + len(mine)] = mine
        start += len(rows)
    return own


class SpreadValue:
    """The value of a table in a session, for `write_tar`; all ranks write it together."""

    def __init__(self, table, session):
        self._table, self._session = table, session
        self.size = int(np.prod(table.shape, dtype=np.int64))
        self._rest = table.blocks(session)

    def parts(self):
        """Yield all rows in their order, once."""
        return self._rest

    def drain(self):
        """Take part in what the other ranks read or still write."""
        for _ in self._rest:
            pass

    @contextmanager
    def shared(self):
        """Take part to the end, in a `with`, also after an error of this rank alone."""
        try:
            yield
        except Exception:
            if can_exchange():
                self.drain()
            raise

    def array(self):
        """Return the whole table, float32 of its shape."""
        with self.shared():
            whole, start = np.empty(self._table.shape, np.float32), 0
            for block in self.parts():
                whole[start : start + len(block)] = block
                start += len(block)
            return whole

    def is_finite(self):
        """Return whether all rows are finite, on all ranks."""
        own = all(np.isfinite(b).all() for b in self._table.own_blocks(self._session))
        return all(pd.distributed.allgather(bool(own)))
