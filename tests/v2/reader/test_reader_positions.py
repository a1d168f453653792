"""Readers that go on where another process was: the rest is the same, bit for bit."""

import _thread
import itertools
import json
import pickle
import random
import warnings

import numpy as np
import pytest

from pd_core.training import positions
from pd_core.training.generators import encoded, generators_state, set_generators
from pd_v2 import reader
from pd_v2.dataset.samples import Samples
from pd_v2.minibatch import batch
from pd_v2.reader import creator, decorator, iterators
from pd_v2.recordio.chunks import write_records
from tests.thinned import thinned

from . import test_reader_threads
from .test_reader_threads import Interrupt, reader_threads, wait_until

DISTURBED = 99


def seed(number):
    random.seed(number)
    np.random.seed(number)


def plain(sample):
    """A sample as types that can be compared."""
    if isinstance(sample, list | tuple):
        return [plain(part) for part in sample]
    return sample.tolist() if isinstance(sample, np.ndarray | np.generic) else sample


def rest_of(items, source):
    """What is still to come: of this pass, of the next one, and of the generators."""
    rest = [plain(item) for item in items]
    following = [plain(item) for item in source()]
    return rest, following, encoded(generators_state())


def checkpoint(source, place):
    """Take `place` items of a pass; return the checkpoint as JSON, and what comes behind it."""
    seed(7)
    items = positions.positioned(source)
    list(itertools.islice(items, place))
    state = {"items": items.state(), "generators": generators_state()}
    return json.dumps(encoded(state)), rest_of(items, source)


def go_on(source, text):
    """Return a fresh iterator at a checkpoint, whatever the generators' states are."""
    seed(DISTURBED)
    state = json.loads(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        items = positions.resumed(source, state["items"])
    set_generators(state["generators"], but=positions.draws_ahead(items))
    return items


def assert_goes_on(make, places):
    """Check each place, and that a checkpoint of what goes on is a good one too."""
    for place in places:
        text, expected = checkpoint(make(), place)
        fresh = make()
        assert rest_of(go_on(fresh, text), fresh) == expected, f"behind item {place}"
        again = make()
        items = go_on(again, text)
        second = json.dumps(encoded({**json.loads(text), "items": items.state()}))
        list(items)  # until its threads draw no more
        fresh = make()
        assert rest_of(go_on(fresh, second), fresh) == expected, f"twice, behind item {place}"


# ---- readers of a user


def listed():
    return [(k, k * k) for k in range(13)]


def nothing():
    return iter(())


def noisy():
    """Draws from both generators with each sample."""
    for k in range(11):
        yield k + random.random(), float(np.random.normal())


def shuffled_once():
    """Draws when it begins."""
    order = list(range(12))
    random.shuffle(order)
    yield from order


def drawn_when_called():
    order = np.random.permutation(9).tolist()
    return iter(order)


def shuffled_in_parts():
    """What comes later depends on numbers that were drawn before."""
    for start in range(0, 12, 4):
        part = list(range(start, start + 4))
        random.shuffle(part)
        yield from part


def last_words():
    """Draws behind its last sample."""
    yield from "abcde"
    random.random()


class Countdown:
    """A reader's iterator with a position of its own."""

    restored = 0

    def __init__(self):
        self.left = 10

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def state(self):
        return {"left": self.left}

    def restore(self, state):
        type(self).restored += 1
        self.left = state["left"]


def jitter(*samples):
    return (*samples, random.random(), float(np.random.normal()))


def double(sample):
    return (sample, sample)


USERS = (
    *(listed, nothing, noisy, shuffled_once, drawn_when_called, shuffled_in_parts, last_words),
    Countdown,
)
# What these give later does not depend on numbers that another reader may draw in between.
INDEPENDENT = [source for source in USERS if source is not shuffled_in_parts]
ARRAY = creator.np_array(np.arange(14.0).reshape(7, 2))
DATASET = Samples(lambda: (k * 3 for k in range(10)))
DRAWN = Samples(shuffled_once, draws=True)

EACH = {
    "np_array": ARRAY,
    "data set": DATASET,
    "drawn data set": DRAWN,
    "map_readers": reader.map_readers(jitter, noisy, listed),
    "shuffle": reader.shuffle(noisy, 4),
    "shuffle of a list": reader.shuffle(listed, 5),
    "shuffle of parts": reader.shuffle(shuffled_in_parts, 3),
    "one by one": reader.shuffle(noisy, 1),
    "chain": reader.chain(shuffled_once, noisy, nothing, DATASET),
    "chain of shuffles": reader.chain(reader.shuffle(listed, 3), drawn_when_called),
    "compose": reader.compose(DATASET, DATASET, shuffled_in_parts, check_alignment=False),
    "aligned": reader.compose(listed, reader.shuffle(listed, 9)),
    "firstn": reader.firstn(noisy, 6),
    "firstn of too few": reader.firstn(last_words, 60),
    "firstn of none": reader.firstn(noisy, 0),
    "endless": reader.firstn(itertools.count, 9),
    "buffered": reader.buffered(listed, 2),
    "buffered draws": reader.buffered(reader.map_readers(jitter, noisy), 3),
    "buffered shuffle": reader.buffered(reader.shuffle(shuffled_in_parts, 4), 0),
    "xmap": reader.xmap_readers(double, listed, 3, 2, order=True),
    "xmap that draws": reader.xmap_readers(jitter, listed, 1, 2, order=True),
    "xmap in turn": reader.xmap_readers(double, reader.buffered(noisy, 2), 2, 1, order=True),
    "unordered": reader.xmap_readers(double, listed, 1, 2),
    "batch": batch(noisy, 4),
    "batch of a shuffle": batch(reader.shuffle(shuffled_in_parts, 5), 3),
    "shuffle of batches": reader.shuffle(batch(noisy, 2), 3),
    "pipe_reader": reader.pipe_reader("printf '1 2\\n3\\n4\\n5 6 7\\n8'", lambda lines: lines),
    "a thread beside draws": reader.compose(
        reader.xmap_readers(double, DATASET, 2, 2, order=True), noisy, check_alignment=False
    ),
    "draws behind a thread": reader.shuffle(
        reader.map_readers(jitter, reader.xmap_readers(double, DATASET, 2, 2, order=True)), 4
    ),
    "numpy ahead, random here": reader.shuffle(
        reader.buffered(reader.map_readers(lambda k: k + np.random.normal(), DATASET), 2), 4
    ),
}


@pytest.mark.parametrize(
    "source", [*EACH.values(), *USERS], ids=[*EACH, *(u.__name__ for u in USERS)]
)
def test_every_reader_goes_on_behind_every_item(source):
    length = len(list(source()))
    assert_goes_on(lambda: source, thinned(range(length + 2), 2))


def test_a_reader_with_a_position_goes_there_itself():
    before = Countdown.restored
    text, _ = checkpoint(batch(Countdown, 3), 2)
    assert next(go_on(batch(Countdown, 3), text)) == [3, 2, 1]
    assert Countdown.restored == before + 1


def test_text_goes_on_behind_every_line(tmp_path):
    (tmp_path / "data.txt").write_bytes(b"a\n\nb\r\n\xff\nc")
    assert_goes_on(lambda: creator.text_file(str(tmp_path / "data.txt")), range(6))


# ---- random compositions

QUIET = [ARRAY, DATASET, Countdown, listed]


def composed(choose, depth, leaves):
    """A random composition of leaves; of quiet ones, a composition that draws nothing either."""
    if not depth:
        return choose.choice(leaves)
    quiet = leaves is QUIET
    below = composed(choose, depth - 1, leaves)
    beside = composed(choose, choose.randrange(depth), leaves)
    size = choose.randint(1, 5)
    kinds = [
        lambda: reader.map_readers(lambda *samples: samples if quiet else jitter(samples), below),
        lambda: reader.map_readers(lambda *samples: samples, below, beside),
        lambda: reader.chain(below, beside),
        lambda: reader.compose(below, beside, check_alignment=False),
        lambda: reader.firstn(below, 3 * size),
        lambda: batch(below, size),
    ]
    if quiet:
        kinds += [
            lambda: reader.buffered(below, size),
            lambda: reader.xmap_readers(double, below, 2, size, order=True),
        ]
    else:
        kinds += [lambda: reader.shuffle(below, size)] * 2
    return choose.choice(kinds)()


def with_threads(choose):
    """Threads that do not draw below what does, or the other way round.

    Who draws first is not determined otherwise.
    """
    if choose.random() < 0.5:
        quiet = composed(choose, 3, QUIET)
        return reader.shuffle(reader.map_readers(jitter, quiet), choose.randint(1, 6))
    below = composed(choose, 2, [noisy])  # draws from both generators from the first sample on
    size = choose.randint(0, 3)
    if choose.random() < 0.5:
        return batch(reader.buffered(below, size), 2)
    return reader.chain(reader.xmap_readers(double, below, 1, size, order=True))


@pytest.mark.parametrize("number", thinned(range(60), 3))
@pytest.mark.parametrize("threads", [False, True], ids=["plain", "threads"])
def test_compositions_go_on_behind_every_item(number, threads):
    def make():
        choose = random.Random(number)
        return with_threads(choose) if threads else composed(choose, 3, INDEPENDENT)

    seed(7)
    length = len(list(make()()))
    assert_goes_on(make, range(0, length + 2, 1 + length // 6))


# ---- RecordIO


def test_records_go_on_behind_every_one(tmp_path):
    for part in range(3):
        samples = [pickle.dumps((part, k)) for k in range(part * 3)]
        write_records(tmp_path / f"data-{part}", samples)
    source = creator.recordio(f"{tmp_path}/data-*", buf_size=2)
    assert list(source()) == [(part, k) for part in range(3) for k in range(part * 3)]
    assert_goes_on(lambda: source, range(11))
    assert_goes_on(lambda: reader.shuffle(source, 4), range(11))


def test_one_cloud_reader_goes_on(tmp_path):
    write_records(tmp_path / "data", [pickle.dumps(k) for k in range(6)])

    def make():
        return creator.cloud_reader(str(tmp_path / "data"), f"job {next(JOBS)}")

    text, _ = checkpoint(make(), 4)
    assert list(go_on(make(), text)) == [4, 5]


JOBS = itertools.count()


# ---- what is said


def test_readers_that_are_read_again_are_named_once():
    source = reader.chain(reader.buffered(noisy, 2), reader.shuffle(shuffled_once, 3), noisy)
    text, _ = checkpoint(source, 15)
    state = json.loads(text)["items"]
    with pytest.warns(UserWarning, match="read again from the beginning") as caught:
        positions.resumed(source, state)
    (warning,) = caught
    assert f"shuffled_once ({__file__}:" in str(warning.message)
    assert "noisy" not in str(warning.message)  # one has ended, the other is at its beginning
    assert warning.filename == __file__


def test_a_reader_below_a_thread_is_named_too():
    source = batch(reader.buffered(noisy, 2), 2)
    state = json.loads(checkpoint(source, 1)[0])["items"]
    with pytest.warns(UserWarning, match=r"the training goes on: noisy \(.*:\d+\)\n  hint: "):
        positions.resumed(source, state).close()


def test_our_own_readers_are_read_again_silently():
    source = batch(reader.shuffle(reader.chain(DRAWN, DATASET, ARRAY), 5), 2)
    state = json.loads(checkpoint(source, 9)[0])["items"]
    assert len(list(positions.resumed(source, state))) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda source: source,
        lambda source: batch(source, 2),
        lambda source: reader.buffered(source, 2),
        lambda source: reader.chain(source, listed),
    ],
)
def test_a_reader_that_ends_too_soon_is_an_error(make):
    length = 12

    def counted():
        return iter(range(length))

    source = make(counted)
    text, _ = checkpoint(source, 5)
    length = 2
    message = r"counted \(.*\) ends after 2 items, the position is behind (5|10) items"
    with pytest.raises(ValueError, match=message):
        go_on(source, text)


def test_a_position_of_another_reader_is_an_error():
    text, _ = checkpoint(reader.shuffle(listed, 3), 2)
    for other in (batch(listed, 2), reader.chain(listed), listed, DATASET):
        with pytest.raises(ValueError, match="is another one than that of the position"):
            go_on(other, text)
    text, _ = checkpoint(listed, 2)
    for other in (batch(listed, 2), DATASET, Countdown):
        with pytest.raises(ValueError, match="is another one than that of the position"):
            go_on(other, text)


@pytest.mark.parametrize("entry", ["given", "generators"])
def test_a_part_of_a_place_in_a_window_is_refused(entry):
    """Without the number of those that were given, a window would be left out."""
    text, _ = checkpoint(reader.shuffle(listed, 3), 2)
    state = json.loads(text)
    del state["items"][entry]
    with pytest.raises(ValueError, match="expected a place in a window, got a state of"):
        go_on(reader.shuffle(listed, 3), json.dumps(state))


@pytest.mark.parametrize("source", EACH.values(), ids=EACH)
def test_a_position_needs_to_be_asked_for_in_time(source):
    """Remembering it costs something."""
    items = source()
    taken = list(itertools.islice(items, 1))
    known = positions.traits(source)
    if taken and (known.draws or known.draws_ahead):
        with pytest.raises(ValueError, match="has no position"):
            items.state()


@pytest.mark.parametrize("combine", [lambda s: batch(s, 3), lambda s: reader.map_readers(abs, s)])
def test_after_an_error_there_is_no_position(combine):
    def failing():
        yield 1
        raise OSError("disk gone")

    items = positions.positioned(combine(failing))
    with pytest.raises(OSError, match="disk gone"):
        list(items)
    with pytest.raises(ValueError, match="has no position"):
        items.state()


# ---- Ctrl-C


@pytest.mark.parametrize(
    "source",
    [
        batch(reader.buffered(listed, 2), 2),
        reader.shuffle(reader.xmap_readers(double, reader.buffered(listed, 1), 2, 2, True), 3),
        reader.chain(nothing, reader.buffered(listed, 2)),
    ],
    ids=["buffered", "xmap", "chain"],
)
def test_an_interrupt_while_going_on_leaves_no_thread(source, monkeypatch):
    text, _ = checkpoint(source, 4)
    state = json.loads(text)["items"]
    files = (*test_reader_threads.FILES, positions.__file__, iterators.__file__, decorator.__file__)
    monkeypatch.setattr(test_reader_threads, "FILES", files)
    wait_until(lambda: not reader_threads())
    before, count, gone_on = _thread._count(), 1, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while Interrupt(count).during(lambda: gone_on.append(positions.resumed(source, state))):
            count += 1
    assert count > 50 and len(gone_on) == 1
    gone_on.clear()
    wait_until(lambda: _thread._count() <= before)
