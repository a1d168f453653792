"""Readers that work ahead of their consumer in daemon threads.

The threads start when the reader is iterated and stop when it ends, fails or is closed.
"""

import itertools
import threading
from collections import deque
from dataclasses import dataclass

from pd_v2.reader.ahead import ahead
from pd_v2.reader.protocol import require_reader

_END = object()


@dataclass(frozen=True)
class _Failure:
    """An exception on its way from a worker to the consumer."""

    error: BaseException


class _Channel:
    """A queue between threads, of bounded size (0: unbounded), that the consumer may close."""

    def __init__(self, size):
        self._size = size
        self._items = deque()
        self._passed = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item, turn=None):
        """Add an item, as the turn-th one if a turn is given; False once the channel is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._admits(turn))
            if not self._closed:
                self._items.append(item)
                self._passed += 1
                self._changed.notify_all()
            return not self._closed

    def get(self):
        """Remove the oldest item; _END once the channel is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._items)
            if self._closed:
                return _END
            self._changed.notify_all()
            return self._items.popleft()

    def close(self):
        """Release every thread that waits here and forget what was not fetched."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def _admits(self, turn):
        room = not self._size or len(self._items) < self._size
        return room and turn in (None, self._passed)


def buffered(reader, size):
    """Reads up to `size` samples ahead in a thread (0: without limit)."""
    require_reader("buffered", reader)
    _require_size("buffered: size", size, 0)

    @ahead
    def read():
        channel = _Channel(size)
        _start(_pump, reader, channel.put)
        try:
            yield from _received(channel)
        finally:
            channel.close()

    return read


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """mapper(sample) in process_num threads, fed by another thread that reads.

    Samples come in the order in which they are ready; with order=True, in the reader's order.
    """
    require_reader("xmap_readers", reader)
    if not callable(mapper):
        raise TypeError(f"xmap_readers: mapper must be a function, got {type(mapper).__name__}")
    _require_size("xmap_readers: process_num", process_num, 1)
    _require_size("xmap_readers: buffer_size", buffer_size, 0)

    @ahead
    def read():
        raw, mapped = _Channel(buffer_size), _Channel(buffer_size)
        turns = itertools.count()
        _start(_pump, reader, lambda item: raw.put((next(turns), item)), process_num)
        for _ in range(process_num):
            _start(_map, mapper, raw, mapped, order)
        try:
            yield from _received(mapped, process_num)
        finally:
            raw.close()
            mapped.close()

    return read


def _require_size(what, size, least):
    if size < least:
        raise ValueError(f"{what} must be at least {least}, got {size}")


def _start(work, *args):
    threading.Thread(
        target=work, args=args, name=f"pd_v2.reader{work.__name__}", daemon=True
    ).start()


def _pump(reader, put, ends=1):
    """Put the samples of a reader, its failure if it fails, and `ends` end marks."""
    try:
        for sample in reader():
            if not put(sample):
                return
    except BaseException as error:
        put(_Failure(error))
    for _ in range(ends):
        put(_END)


def _map(mapper, raw, mapped, order):
    """Pass outcomes from raw to mapped, up to and including one end mark."""
    while (received := raw.get()) is not _END:
        turn, item = received
        delivered = mapped.put(_outcome(mapper, item), turn if order else None)
        if item is _END or not delivered:
            return


def _outcome(mapper, item):
    if item is _END or isinstance(item, _Failure):
        return item
    try:
        return mapper(item)
    except BaseException as error:
        return _Failure(error)


def _received(channel, ends=1):
    """The samples in a channel until all end marks have come; a worker's failure is raised here."""
    while ends:
        item = channel.get()
        if item is _END:
            ends -= 1
        elif isinstance(item, _Failure):
            raise item.error
        else:
            yield item
