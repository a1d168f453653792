"""Batches that go on where another process was, although a worker was ahead of it."""

import _thread
import itertools
import json
import random
import threading

import numpy as np
import pytest

import pd_v2 as paddle
from pd_core.training.generators import encoded, generators_state, set_generators
from pd_v2 import reader
from pd_v2.dataset.samples import Samples
from pd_v2.training.batches import Batches


def numbers():
    return range(23)


def noisy():
    for k in range(23):
        yield k + random.random(), float(np.random.normal())


NUMBERS = Samples(numbers)

READERS = {
    "in turn": lambda: (x for x in [[1], [2], [3], [4], [5]]),
    "from a list": lambda: iter([[1], [2], [3], [4], [5]]),
    "a list of samples": paddle.batch(lambda: list(range(23)), 3),
    "a data set": paddle.batch(NUMBERS, 4),
    "from a window": paddle.batch(reader.shuffle(noisy, 10), 2),
    "buffered": paddle.batch(reader.buffered(NUMBERS, 3), 2),
    "buffered window": paddle.batch(reader.buffered(reader.shuffle(noisy, 5), 3), 2),
    "window of buffered": paddle.batch(reader.shuffle(reader.buffered(NUMBERS, 3), 7), 2),
    "batches buffered": reader.buffered(paddle.batch(NUMBERS, 3), 2),
}
MAIN_DRAWS = [name for name in READERS if name != "buffered window"]


def train(batches, draws):
    """Iterate like a trainer whose handler may draw; yield what a batch saw and a checkpoint."""
    with batches:
        for batch in batches:
            feeds = batch.to_feeds()
            batches.read_ahead()
            noise = (random.random(), float(np.random.normal())) if draws else None
            state = {"batches": batches.state(), "generators": generators_state()}
            yield [feeds, noise, str(batch.place)], json.dumps(encoded(state))


def go_on(source, text):
    random.seed(99)
    np.random.seed(99)
    state = json.loads(text)
    batches = Batches(source, list, pass_id=3, tracks=True, state=state["batches"])
    set_generators(state["generators"], but=batches.draws_ahead)
    return batches


@pytest.mark.filterwarnings("ignore:read again from the beginning")
@pytest.mark.parametrize("name", READERS)
def test_each_batch_is_a_place_to_go_on_from(name):
    source, draws = READERS[name], name in MAIN_DRAWS
    random.seed(7)
    np.random.seed(7)
    seen = list(train(Batches(source, list, pass_id=3, tracks=True), draws))
    end = encoded(generators_state())
    assert len(seen) > 3
    for k, (_, text) in enumerate(seen):
        rest = list(train(go_on(source, text), draws))
        assert [batch for batch, _ in rest] == [batch for batch, _ in seen[k + 1 :]]
        assert encoded(generators_state()) == end


@pytest.mark.filterwarnings("ignore:read again from the beginning")
@pytest.mark.parametrize("name", READERS)
def test_the_beginning_is_a_place_too(name):
    batches = Batches(READERS[name], list, tracks=True)
    random.seed(7)
    np.random.seed(7)
    text = json.dumps(encoded({"batches": batches.state(), "generators": generators_state()}))
    expected = [batch.samples for batch in batches]
    assert [batch.samples for batch in go_on(READERS[name], text)] == expected


def test_a_position_while_the_worker_is_ahead():
    """It has read two batches, of which one was given out."""
    converted = threading.Semaphore(0)

    def convert(samples):
        converted.release()
        return samples

    source = paddle.batch(reader.shuffle(NUMBERS, 8), 2)
    batches = Batches(source, convert, tracks=True)
    random.seed(3)
    next(batches)
    batches.read_ahead()
    for _ in range(3):
        assert converted.acquire(timeout=30)
    next(batches)
    text = json.dumps(encoded({"batches": batches.state(), "generators": generators_state()}))
    assert json.loads(text)["batches"]["given"] == 1
    assert json.loads(text)["batches"]["batches"] == 2
    expected = [batch.samples for batch in batches]
    fresh = go_on(source, text)
    assert [batch.samples for batch in fresh] == expected
    assert str(next(go_on(source, text)).place).startswith("batch 2 of pass 3")


def test_an_error_of_the_reader_leaves_the_position():
    broken = True

    def fragile():
        for k in range(8):
            if broken and k == 5:
                raise OSError("disk gone")
            yield k

    source = paddle.batch(fragile, 2)
    batches = Batches(source, list, tracks=True)
    with pytest.raises(OSError, match="disk gone"):
        list(batches)
    broken = False
    with pytest.warns(UserWarning, match="fragile"):
        fresh = Batches(source, list, tracks=True, state=batches.state())
    assert [batch.samples for batch in fresh] == [[4, 5], [6, 7]]


def test_a_reader_with_too_few_batches_is_an_error():
    batches = Batches(paddle.batch(NUMBERS, 2), list, tracks=True)
    list(itertools.islice(batches, 3))
    short = paddle.batch(Samples(lambda: range(4)), 2)
    with pytest.raises(ValueError, match="ends after 4 items, the position is behind 6 items"):
        Batches(short, list, state=batches.state())


def test_positions_are_not_remembered_unless_asked_for():
    batches = Batches(paddle.batch(reader.shuffle(noisy, 4), 2), list)
    next(batches)
    with pytest.raises(ValueError, match="positions are not tracked, which tracks=True does"):
        batches.state()


def test_a_closed_one_that_went_on_leaves_no_thread():
    source = paddle.batch(reader.buffered(Samples(itertools.count), 2), 2)
    before = _thread._count()
    with Batches(source, list, tracks=True) as batches:
        next(batches)
        state = batches.state()
    with Batches(source, list, tracks=True, state=state) as batches:
        assert next(batches).to_feeds() == [2, 3]
        batches.read_ahead()
    pause = threading.Event()
    for _ in range(3000):
        if _thread._count() <= before:
            return
        pause.wait(0.01)
    raise AssertionError("a thread is left")
