"""Minibatches between reader and step: on demand or prefetched; order of errors."""

import math
import threading

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import event as events
from pd_v2.reader.prefetch import available, prefetching
from pd_v2.training.batches import Batches

A, L, T = paddle.activation, paddle.layer, paddle.data_type


class Journal(list):
    """The list of events, in their order."""

    def reader(self, *items, prefetches=False, error=None):
        def read():
            for item in items:
                self.append(("read", item))
                yield item
            if error is not None:
                raise error

        return prefetching(read) if prefetches else read

    def convert(self, samples):
        self.append(("convert", samples))
        if samples == "bad":
            raise ValueError("the samples do not fit")
        return {"feeds of": samples}


def each(batches):
    """Iterate like a trainer: while one batch is used the next ones may be prefetched."""
    with batches:
        for batch in batches:
            batches.read_ahead()
            yield batch


def test_a_batch_is_read_and_converted_on_demand():
    seen = Journal()
    for batch in each(Batches(seen.reader("a", "b"), seen.convert)):
        seen.append(("got", batch.samples))
        assert batch.to_feeds() == {"feeds of": batch.samples}
    steps = ("read", "got", "convert")
    assert seen == [(step, name) for name in "ab" for step in steps]


def test_a_prefetching_reader_works_during_the_last_batch():
    seen = Journal()
    batches = Batches(seen.reader("a", "b", "c", prefetches=True), seen.convert)
    first = next(batches)
    assert first.to_feeds() == {"feeds of": "a"} and len(first) == 1
    assert seen == [("read", "a"), ("convert", "a")]  # read_ahead was not called yet
    batches.read_ahead()
    batches.read_ahead()  # without effect while the worker is busy
    wait_for(lambda: ("convert", "c") in seen)
    assert [batch.samples for batch in each(batches)] == ["b", "c"]
    assert seen == [(step, name) for name in "abc" for step in ("read", "convert")]


def wait_for(condition):
    done = threading.Event()
    for _ in range(1000):
        if condition():
            return
        done.wait(0.005)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("prefetches", [False, True])
def test_errors_come_in_their_places(prefetches):
    seen, got = Journal(), []
    for batch in each(Batches(seen.reader("a", "bad", "c", prefetches=prefetches), seen.convert)):
        got.append(batch.samples)
        if batch.samples == "bad":
            with pytest.raises(ValueError, match="do not fit"):
                batch.to_feeds()
        else:
            batch.to_feeds()
    assert got == ["a", "bad", "c"]


@pytest.mark.parametrize("prefetches", [False, True])
@pytest.mark.parametrize("error", [OSError("the disk"), SystemExit(3)])
def test_what_a_reader_raises_comes_after_its_batches(prefetches, error):
    seen, got = Journal(), []
    batches = Batches(seen.reader("a", prefetches=prefetches, error=error), seen.convert)
    with pytest.raises(type(error)) as caught:
        got += (b.samples for b in each(batches))
    assert caught.value is error and got == ["a"]


@pytest.mark.parametrize("prefetches", [False, True])
def test_an_empty_reader(prefetches):
    assert list(each(Batches(Journal().reader(prefetches=prefetches), None))) == []


def test_a_closed_stream_reads_no_further_and_closes_the_reader():
    closed, seen = threading.Event(), Journal()

    def read():
        try:
            for name in "abcdef":
                seen.append(name)
                yield name
        finally:
            closed.set()

    for _ in each(Batches(prefetching(read), lambda samples: {})):
        break
    assert closed.wait(5) and seen in ([*"abcde"[:n]] for n in range(1, 6))


def listed():
    return iter([0, 1, 2, 3])


def generated():
    yield from listed()


READERS = {
    "a list": (listed, math.inf),
    "a tuple": (lambda: iter((0, 1, 2, 3)), math.inf),
    "a generator": (generated, 0),
    "a map": (lambda: map(abs, listed()), 0),
    "map_readers": (paddle.reader.map_readers(abs, listed), 0),
    "buffered": (paddle.reader.buffered(generated, 2), math.inf),
    "xmap_readers": (paddle.reader.xmap_readers(abs, generated, 1, 2), math.inf),
}


@pytest.mark.parametrize("reader, count", READERS.values(), ids=READERS)
def test_what_readers_hold(reader, count):
    assert available(reader()) == count
    groups = paddle.batch(reader, 3)()
    assert available(groups) == 0  # the reader is not even called yet
    assert len(next(groups)) == 3 and available(groups) == count
    found = each(Batches(paddle.batch(reader, 3), None))
    assert sorted(x for b in found for x in b.samples) == [0, 1, 2, 3]


def test_a_shuffle_holds_the_rest_of_its_window():
    """So what it shuffles is never asked before its turn, nor are random numbers drawn."""
    seen = Journal()
    shuffled = paddle.reader.shuffle(seen.reader(*range(14)), 7)()
    assert available(shuffled) == 0
    order = [next(shuffled)]
    assert available(shuffled) == 6 and len(seen) == 7
    order += [next(shuffled) for _ in range(6)]
    assert available(shuffled) == 0 and len(seen) == 7
    order += shuffled
    assert sorted(order[:7]) == list(range(7)) and sorted(order[7:]) == list(range(7, 14))

    seen.clear()
    stream = paddle.batch(paddle.reader.shuffle(seen.reader(*range(8)), 6), 2)
    batches, counts = Batches(stream, len), []
    for batch in each(batches):
        counts.append((len(batch), len(seen)))
        wait_for(lambda: available(batches._samples) == 0)
    assert counts == [(2, 6)] * 3 + [(2, 8)]


# ---- in a training


def line():
    """y = x w from w = 0 for x [1] and t [1]: a trainer and its pool."""
    x, t = (L.data(name=n, type=T.dense_vector(1)) for n in "xt")
    cost = L.square_error_cost(L.fc(x, 1, A.Linear(), "y", bias_attr=False), label=t)
    pool = paddle.parameters.create(cost)
    pool["_y.w0"] = np.zeros((1, 1))
    return paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.1)), pool


def test_a_reader_sees_what_the_last_batch_has_done():
    """A plain reader is asked when all events of the batch before are over."""
    trainer, pool = line()
    seen = []

    def read():
        for _ in range(3):
            seen.append(("read", round(float(pool["_y.w0"][0]), 3)))
            yield [([1.0], [1.0])]

    def handler(event):
        if isinstance(event, events.EndIteration):
            seen.append(("end", event.batch_id))

    trainer.train(read, event_handler=handler)
    reads = [("read", w) for w in (0.0, 0.2, 0.36)]
    assert seen == [entry for k in range(3) for entry in (reads[k], ("end", k))]


HOWS = {
    "in turn": lambda items: lambda: (x for x in items),
    "from a list": lambda items: lambda: iter(items),
    "from a window": lambda items: paddle.reader.shuffle(lambda: (x for x in items), 1),
    "buffered": lambda items: paddle.reader.buffered(lambda: iter(items), 3),
}
each_way = pytest.mark.parametrize("reader_of", HOWS.values(), ids=HOWS)


@each_way
def test_events_costs_and_values_are_the_same(reader_of):
    trainer, pool = line()
    samples = [([float(k)], [1.0]) for k in range(5)]
    seen = []
    trainer.train(
        paddle.batch(reader_of(samples), 2),
        num_passes=2,
        event_handler=lambda e: seen.append((type(e).__name__, getattr(e, "cost", None))),
    )
    names = ["BeginIteration", "EndForwardBackward", "EndIteration"]
    assert [name for name, _ in seen] == (["BeginPass", *names * 3, "EndPass"]) * 2
    w, expected = 0.0, []
    for chunk in ([0, 1], [2, 3], [4]) * 2:
        x = np.array(chunk, np.float64)
        expected.append(((w * x - 1) ** 2).mean())
        w -= 0.1 * 2 * ((w * x - 1) * x).sum()
    assert [c for _, c in seen if c is not None] == pytest.approx(expected, rel=1e-4)
    assert pool["_y.w0"][0] == pytest.approx(w, rel=1e-4)


@each_way
def test_bad_samples_are_found_after_begin_iteration(reader_of):
    trainer, pool = line()
    items = [[([1.0], [1.0])], [([1.0, 2.0], [1.0])]]
    seen = []
    with pytest.raises(ValueError, match=r"data layer 'x' \(column 0\), sample 0: expected 1 num"):
        trainer.train(
            reader_of(items),
            event_handler=lambda e: seen.append((type(e).__name__, getattr(e, "batch_id", None))),
        )
    assert seen[-2:] == [("EndIteration", 0), ("BeginIteration", 1)]
    assert pool["_y.w0"][0] == pytest.approx(0.2)


class Stop(Exception):
    pass


@pytest.mark.parametrize("prefetches", [False, True])
def test_a_handler_that_stops_the_training(prefetches):
    trainer, pool = line()
    closed = threading.Event()

    def read():
        try:
            while True:
                yield [([1.0], [1.0])]
        finally:
            closed.set()

    def handler(event):
        if isinstance(event, events.EndIteration) and event.batch_id == 1:
            raise Stop

    with pytest.raises(Stop):
        source = paddle.reader.buffered(read, 2) if prefetches else read
        trainer.train(source, event_handler=handler)
    assert closed.wait(5)
    assert pool["_y.w0"][0] == pytest.approx(0.36)
    trainer.train(lambda: iter([[([1.0], [1.0])]]))
    assert pool["_y.w0"][0] == pytest.approx(0.488)
