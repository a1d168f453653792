"""Prefetching readers: order, bounds, failures, and threads that end."""

import _thread
import itertools
import sys
import threading
import time
from os.path import dirname, join

import numpy as np
import pytest

from pd_v2 import reader
from pd_v2.minibatch import batch
from pd_v2.training.batches import Batches

PATIENCE_SECONDS = 30


def reader_threads():
    threads = (t for t in threading.enumerate() if t.name.startswith("pd_v2.reader"))
    return [t for t in threads if t.is_alive()]  # others are being started


def assert_all_end(threads):
    assert threads
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


@pytest.mark.parametrize("size", [0, 1, 2, 19])
def test_buffered_keeps_the_order_each_time(size):
    buffered = reader.buffered(lambda: range(10), size)
    assert list(buffered()) == list(range(10))
    assert list(buffered()) == list(range(10))


def test_buffered_takes_arrays_and_none_for_samples():
    samples = list(reader.buffered(lambda: [np.zeros(2), None, np.ones(2)], 2)())
    assert samples[1] is None
    np.testing.assert_array_equal(samples[2], [1.0, 1.0])


def test_buffered_reads_ahead_no_further_than_its_size():
    read = []
    fourth = threading.Event()

    def source():
        for i in range(100):
            read.append(i)
            if i == 3:
                fourth.set()
            yield i

    samples = reader.buffered(source, 2)()
    assert next(samples) == 0
    assert fourth.wait(PATIENCE_SECONDS)  # 1 and 2 wait in the buffer, 3 in the thread's hand
    assert read == [0, 1, 2, 3]
    assert list(samples) == list(range(1, 100))


def test_nothing_is_read_before_the_first_sample_is_asked_for():
    called = []
    buffered = reader.buffered(lambda: called.append(1) or [], 2)
    samples = buffered()
    assert called == []
    assert list(samples) == []
    assert called == [1]


def failing_after_two():
    yield from (1, 2)
    raise OSError("disk gone")


def test_buffered_raises_the_readers_error_after_its_samples():
    samples = reader.buffered(failing_after_two, 10)()
    assert [next(samples), next(samples)] == [1, 2]
    with pytest.raises(OSError, match="disk gone"):
        next(samples)


def test_a_closed_buffered_reader_releases_its_thread():
    samples = reader.buffered(itertools.count, 2)()
    assert next(samples) == 0
    threads = reader_threads()
    samples.close()
    assert_all_end(threads)


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("process_num", [1, 2, 16])
@pytest.mark.parametrize("buffer_size", [0, 1, 4])
def test_xmap_maps_every_sample(order, process_num, buffer_size):
    mapped = reader.xmap_readers(
        lambda x: x + 1, lambda: range(50), process_num, buffer_size, order
    )
    for _ in range(2):
        results = list(mapped())
        assert (results if order else sorted(results)) == list(range(1, 51))


def second_is_ready_first():
    """A mapper that holds sample 0 back until sample 1 is mapped."""
    second = threading.Event()

    def mapper(sample):
        if sample == 1:
            second.set()
        assert sample or second.wait(PATIENCE_SECONDS)
        return sample

    return mapper


@pytest.mark.parametrize("order", [True, False])
def test_xmap_reads_ahead_no_further_than_its_buffers(order):
    asked, ahead = [], []

    def source():
        for i in range(100):
            ahead.append(i + 1 - len(asked))
            yield i

    mapped = reader.xmap_readers(str, source, 3, 2, order)()
    for i in range(100):
        asked.append(i)
        next(mapped)
        wait_until(lambda: len(ahead) >= min(100, len(asked) + 8))
    assert max(ahead) == 8  # 2 * 2 + 3 on their way, and 1 in hand


def test_xmap_order_waits_for_the_slow_sample():
    mapped = reader.xmap_readers(second_is_ready_first(), lambda: range(4), 2, 1, order=True)
    assert list(mapped()) == [0, 1, 2, 3]


def test_xmap_without_order_does_not_wait():
    release = threading.Event()

    def mapper(sample):
        assert sample or release.wait(PATIENCE_SECONDS)
        return sample

    mapped = reader.xmap_readers(mapper, lambda: range(4), 2, 1)()
    assert [next(mapped) for _ in range(3)] == [1, 2, 3]
    release.set()
    assert list(mapped) == [0]


@pytest.mark.parametrize("order", [True, False])
def test_xmap_raises_the_mappers_error(order):
    mapped = reader.xmap_readers(lambda x: 1 // (x - 3), lambda: range(50), 4, 2, order)()
    threads = []
    with pytest.raises(ZeroDivisionError):
        for _ in mapped:
            threads = threads or reader_threads()
    if order:
        assert_all_end(threads)


@pytest.mark.parametrize("order", [True, False])
def test_xmap_raises_the_readers_error(order):
    with pytest.raises(OSError, match="disk gone"):
        list(reader.xmap_readers(str, failing_after_two, 3, 1, order)())


@pytest.mark.parametrize("order", [True, False])
def test_a_closed_xmap_releases_its_threads(order):
    mapped = reader.xmap_readers(str, itertools.count, 5, 1, order)()
    before = set(reader_threads())
    next(mapped)
    wait_until(lambda: len(set(reader_threads()) - before) == 6)  # they start one by one
    threads = set(reader_threads()) - before
    mapped.close()
    assert_all_end(threads)


@pytest.mark.parametrize(
    "combined",
    [
        lambda source: reader.buffered(reader.xmap_readers(str, source, 3, 2, True), 2),
        lambda source: reader.xmap_readers(str, reader.buffered(source, 1), 2, 2),
        lambda source: reader.shuffle(reader.buffered(source, 2), 4),
        lambda source: reader.map_readers(max, reader.buffered(source, 2), source),
        lambda source: reader.chain(reader.buffered(source, 2), reader.buffered(source, 2)),
        lambda source: reader.compose(reader.buffered(source, 1), lambda: [1, 2]),
    ],
)
@pytest.mark.parametrize("ending", ["closed", "forgotten"])
def test_what_a_reader_is_made_of_ends_with_it(combined, ending):
    """The threads end, and the generators that they read from are closed."""
    open_sources = []

    def source():
        open_sources.append(1)
        try:
            yield from itertools.count()
        finally:
            open_sources.pop()

    before = reader_threads()
    samples = combined(source)()
    next(samples)
    threads = set(reader_threads()) - set(before)
    if ending == "closed":
        samples.close()
    del samples
    assert_all_end(threads)
    assert open_sources == []


def test_what_batches_are_made_of_ends_when_they_are_forgotten():
    before = reader_threads()
    batches = batch(reader.buffered(itertools.count, 2), 3)()
    assert next(batches) == [0, 1, 2]
    threads = set(reader_threads()) - set(before)
    del batches
    assert_all_end(threads)


# ---- Ctrl-C


class Interrupt:
    """Raises KeyboardInterrupt at the n-th step of this thread within the files of the package.

    A step is a line or a return: a signal is handled between two operations of a line at most.
    """

    def __init__(self, n):
        self.left = n

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(FILES) or forgets(frame):
            return None
        if event in ("line", "return"):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

    def during(self, work):
        """Run `work`; return whether the interrupt was raised."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        return self.left <= 0


def forgets(frame):
    """Return whether a frame is inside of __del__, where Python ignores exceptions."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


ROOT = dirname(reader.__file__)
FILES = (
    *(join(ROOT, "threads.py"), join(ROOT, "prefetch.py")),
    join(dirname(ROOT), "training", "batches.py"),
)


# an interrupt that comes while a forgotten generator is being closed is ignored by Python
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "made_of",
    [
        lambda source: batch(reader.buffered(source, 2), 2),
        lambda source: batch(reader.xmap_readers(str, reader.buffered(source, 1), 2, 2, True), 2),
        lambda source: lambda: iter([[1], [2], [3]]),
    ],
    ids=["buffered", "xmap", "list"],
)
def test_wherever_an_interrupt_comes_no_thread_is_left(made_of):
    """Read like a trainer: with prefetching, and not to the end."""

    def train():
        with Batches(made_of(itertools.count), lambda samples: {}) as batches:
            for _ in range(3):
                next(batches).to_feeds()
                batches.read_ahead()

    before, count = _thread._count(), 1  # a thread of an earlier test may still be ending
    while Interrupt(count).during(train):
        count += 1
    assert count > 50
    wait_until(lambda: _thread._count() <= before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reader.buffered(list, -1), "buffered: size must be at least 0, got -1"),
        (lambda: reader.xmap_readers(str, list, 0, 1), "process_num must be at least 1, got 0"),
        (lambda: reader.xmap_readers(str, list, 1, -2), "buffer_size must be at least 0, got -2"),
    ],
)
def test_impossible_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_xmap_needs_a_function():
    with pytest.raises(TypeError, match="xmap_readers: mapper must be a function, got NoneType"):
        reader.xmap_readers(None, list, 1, 1)
