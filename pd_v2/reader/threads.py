"""Readers that prefetch samples in daemon threads.

The threads start when the reader is iterated and stop when it ends, fails, is closed or garbage
collected. The consumer may be the main thread, where a KeyboardInterrupt can come between any two
bytecodes: so it takes no locks that Python code has to release, only queues with atomic operations.
"""

import _thread
import threading
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace

from pd_core.training.positions import known
from pd_v2.reader.prefetch import prefetching
from pd_v2.reader.protocol import require_reader, wrapping

_END = object()
_settings = SimpleNamespace(keeps_order=False)


@dataclass(frozen=True)
class _Failure:
    """An exception in a worker, to be raised in the consumer."""

    error: BaseException


class _Semaphore:
    """A semaphore for samples in flight (0: unlimited); one thread acquires, another releases."""

    def __init__(self, size):
        self._bounded, self._free = bool(size), size
        self._released = SimpleQueue()
        self.closed = False

    def acquire(self):
        """Wait for a slot; return False once the semaphore is closed."""
        if self._bounded and not self._free:
            self._released.get()
        elif self._bounded:
            self._free -= 1
        return not self.closed

    def release(self):
        """Free the slot of a sample that the consumer has received."""
        if self._bounded:
            self._released.put(None)

    def close(self):
        """Let `acquire` return False from now on."""
        self.closed = True
        self._released.put(None)


class _Cleanup:
    """A context manager that calls functions on exit, to stop threads, or when it is deleted.

    The latter happens if a KeyboardInterrupt comes before the block is entered.
    """

    _functions = ()  # __del__ may run before __init__

    def __init__(self, *functions):
        self._functions = functions

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for function in self._functions:
            function()

    def __del__(self):
        self.__exit__()


def buffered(reader, size):
    """Prefetch up to `size` samples in a thread (0: without limit)."""
    require_reader("buffered", reader)
    _require_size("buffered: size", size, 0)

    def read():
        slots, ready = _Semaphore(size), SimpleQueue()
        with _Cleanup(slots.close):
            _start(_read, reader, slots, ready)
            yield from _samples(_received(ready), slots)

    return prefetching(wrapping(reader, known(read, reader, threads=True)))


def keep_order():
    """Let all `xmap_readers` of this process give samples in the order of their readers.

    Processes that read the same then get the same batches.
    """
    _settings.keeps_order = True


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """Apply mapper(sample) in process_num threads; another thread reads.

    Samples come in the order of completion; with order=True, in the reader's order.
    """
    require_reader("xmap_readers", reader)
    if not callable(mapper):
        raise TypeError(f"xmap_readers: mapper must be a function, got {type(mapper).__name__}")
    _require_size("xmap_readers: process_num", process_num, 1)
    _require_size("xmap_readers: buffer_size", buffer_size, 0)
    # a buffer before the mappers, one behind them, and one sample in each mapper
    size = 2 * buffer_size + process_num if buffer_size else 0

    def read():
        slots, raw, ready = _Semaphore(size), SimpleQueue(), SimpleQueue()
        with _Cleanup(slots.close, partial(raw.put, _END)):
            _start(_read, reader, slots, raw)
            for _ in range(process_num):
                _start(_map, mapper, slots, raw, ready)
            items = _received(ready, process_num)
            in_order = order or _settings.keeps_order
            yield from _samples(_in_order(items) if in_order else items, slots)

    return prefetching(wrapping(reader, known(read, reader, draws=True, threads=True)))


def _require_size(what, size, least):
    if size < least:
        raise ValueError(f"{what} must be at least {least}, got {size}")


def _start(work, *args):
    thread = threading.Thread(
        target=work, args=args, name=f"pd_v2.reader{work.__name__}", daemon=True
    )
    # `start` waits for the new thread with a lock: not in a thread that may be interrupted
    _thread.start_new_thread(thread.start, ())


def _read(reader, slots, raw):
    """Put (index, sample) of a reader, or its failure, then an end mark."""
    index = 0
    try:
        for index, sample in enumerate(reader(), 1):
            if not slots.acquire():
                return
            raw.put((index, sample))
    except BaseException as error:
        raw.put((index + 1, _Failure(error)))
    raw.put(_END)


def _map(mapper, slots, raw, ready):
    """Map samples up to the end mark, which is put back for the other mappers."""
    while (received := raw.get()) is not _END and not slots.closed:
        index, item = received
        ready.put((index, _mapped(mapper, item)))
    raw.put(_END)
    ready.put(_END)


def _mapped(mapper, item):
    if isinstance(item, _Failure):
        return item
    try:
        return mapper(item)
    except BaseException as error:
        return _Failure(error)


def _received(ready, ends=1):
    """Yield the (index, item) pairs in a queue, until all end marks have come."""
    while ends:
        received = ready.get()
        if received is _END:
            ends -= 1
        else:
            yield received


def _in_order(received):
    """Sort (index, item) pairs, whose indices are consecutive from 1."""
    pending, expected = {}, 1
    for index, item in received:
        pending[index] = item
        while expected in pending:
            yield expected, pending.pop(expected)
            expected += 1


def _samples(received, slots):
    """Yield the samples and free their slots; raise the failure of a worker."""
    for _, item in received:
        slots.release()
        if isinstance(item, _Failure):
            raise item.error
        yield item
