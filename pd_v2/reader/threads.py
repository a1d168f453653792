"""Readers that work ahead of their consumer in daemon threads.

The threads start when the reader is iterated and stop when it ends, fails, is closed or forgotten.
The consumer may be the main thread, where a KeyboardInterrupt may come between any two steps: it
takes no lock that Python code would have to release, only queues whose operations are single steps.
"""

import _thread
import threading
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from pd_v2.reader.ahead import ahead
from pd_v2.reader.protocol import require_reader, wrapping

_END = object()


@dataclass(frozen=True)
class _Failure:
    """An exception on its way from a worker to the consumer."""

    error: BaseException


class _Room:
    """A semaphore for samples in flight, 0: unlimited. One thread acquires, another releases."""

    def __init__(self, size):
        self._bounded, self._free = bool(size), size
        self._given = SimpleQueue()
        self.closed = False

    def take(self):
        """Wait until there is room; False once it is closed."""
        if self._bounded and not self._free:
            self._given.get()
        elif self._bounded:
            self._free -= 1
        return not self.closed

    def give(self):
        """A sample has arrived."""
        if self._bounded:
            self._given.put(None)

    def close(self):
        """Nothing is taken any more."""
        self.closed = True
        self._given.put(None)


class _Ending:
    """A `with` that ends threads when it is left; they also end when nobody holds it.

    That is what an interrupt on the way into the block leaves to do.
    """

    _steps = ()  # an interrupt may come before there are any

    def __init__(self, *steps):
        self._steps = steps

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for step in self._steps:
            step()

    def __del__(self):
        self.__exit__()


def buffered(reader, size):
    """Reads up to `size` samples ahead in a thread (0: without limit)."""
    require_reader("buffered", reader)
    _require_size("buffered: size", size, 0)

    @ahead
    def read():
        room, ready = _Room(size), SimpleQueue()
        with _Ending(room.close):
            _start(_pump, reader, room, ready)
            yield from _delivered(_received(ready), room)

    return wrapping(reader, read)


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """mapper(sample) in process_num threads, fed by another thread that reads.

    Samples come in the order in which they are ready; with order=True, in the reader's order.
    """
    require_reader("xmap_readers", reader)
    if not callable(mapper):
        raise TypeError(f"xmap_readers: mapper must be a function, got {type(mapper).__name__}")
    _require_size("xmap_readers: process_num", process_num, 1)
    _require_size("xmap_readers: buffer_size", buffer_size, 0)
    # a buffer before the mappers, one behind them, and what they have at hand
    size = 2 * buffer_size + process_num if buffer_size else 0

    @ahead
    def read():
        room, raw, ready = _Room(size), SimpleQueue(), SimpleQueue()
        with _Ending(room.close, partial(raw.put, _END)):
            _start(_pump, reader, room, raw)
            for _ in range(process_num):
                _start(_map, mapper, room, raw, ready)
            items = _received(ready, process_num)
            yield from _delivered(_in_order(items) if order else items, room)

    return wrapping(reader, read)


def _require_size(what, size, least):
    if size < least:
        raise ValueError(f"{what} must be at least {least}, got {size}")


def _start(work, *args):
    thread = threading.Thread(
        target=work, args=args, name=f"pd_v2.reader{work.__name__}", daemon=True
    )
    # `start` waits until it runs, with a lock: not in a thread that may be interrupted
    _thread.start_new_thread(thread.start, ())


def _pump(reader, room, raw):
    """Put (turn, sample) of a reader, or its failure, and an end mark."""
    turn = 0
    try:
        for turn, sample in enumerate(reader(), 1):
            if not room.take():
                return
            raw.put((turn, sample))
    except BaseException as error:
        raw.put((turn + 1, _Failure(error)))
    raw.put(_END)


def _map(mapper, room, raw, ready):
    """Pass outcomes on, up to the end mark, which is left to the other mappers."""
    while (received := raw.get()) is not _END and not room.closed:
        turn, item = received
        ready.put((turn, _outcome(mapper, item)))
    raw.put(_END)
    ready.put(_END)


def _outcome(mapper, item):
    if isinstance(item, _Failure):
        return item
    try:
        return mapper(item)
    except BaseException as error:
        return _Failure(error)


def _received(ready, ends=1):
    """The (turn, item) pairs in a queue, until all end marks have come."""
    while ends:
        received = ready.get()
        if received is _END:
            ends -= 1
        else:
            yield received


def _in_order(received):
    """(turn, item) pairs, sorted: each turn comes once, and none is left out."""
    early, due = {}, 1
    for turn, item in received:
        early[turn] = item
        while due in early:
            yield due, early.pop(due)
            due += 1


def _delivered(received, room):
    """The samples; a worker's failure is raised here."""
    for _, item in received:
        room.give()
        if isinstance(item, _Failure):
            raise item.error
        yield item
