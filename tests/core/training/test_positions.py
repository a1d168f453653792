"""Positions of iterators that are read again, and the states of the global generators."""

import functools
import itertools
import json
import random

import numpy as np
import pytest

from pd_core.training import positions
from pd_core.training.generators import encoded, generators_state, set_generators


def noisy():
    for k in range(9):
        yield k, random.random(), float(np.random.normal())


def through_json(state):
    return json.loads(json.dumps(encoded(state)))


def draws():
    normals = np.random.normal(size=3).tolist()
    return [random.random(), random.gauss(0, 1), *normals, *np.random.randint(0, 9, 4).tolist()]


# ---- generators


@pytest.mark.parametrize("through", [lambda state: state, through_json])
def test_a_state_gives_the_same_draws(through):
    random.seed(3)
    np.random.seed(3)
    random.gauss(0, 1)  # keeps a second number for later
    np.random.normal()
    state = through(generators_state())
    expected = draws()
    set_generators(state)
    assert draws() == expected


def test_the_state_is_that_of_the_standard_modules():
    random.seed(11)
    np.random.seed(12)
    state = through_json(generators_state())
    draws()
    set_generators(state)
    assert random.getstate() == random.Random(11).getstate()
    np.testing.assert_array_equal(
        np.random.get_state()[1], np.random.RandomState(12).get_state()[1]
    )


def test_one_generator_may_be_left_out():
    random.seed(1)
    np.random.seed(1)
    state = generators_state()
    expected = random.random(), np.random.rand()
    set_generators(state, but=["numpy"])
    assert (random.random() == expected[0]) and (np.random.rand() != expected[1])
    set_generators(generators_state(with_numpy=False))
    here = np.random.get_state()[1].copy()
    set_generators(through_json(generators_state(with_numpy=False)))
    np.testing.assert_array_equal(np.random.get_state()[1], here)


def test_a_part_of_a_state_is_refused():
    """`random` takes any object for its second number, NumPy a state without one."""
    state = through_json(generators_state())
    version, words, _ = state["random"]
    with pytest.raises(TypeError, match=r"^random has no number 'text'$"):
        set_generators({**state, "random": [version, words, "text"]})
    part = {key: value for key, value in state["numpy"].items() if key != "gauss"}
    with pytest.raises(ValueError, match=r"^numpy.random has the entries .*, not .*"):
        set_generators({**state, "numpy": part})
    assert through_json(generators_state()) == state


def test_states_differ_where_something_was_drawn():
    state = generators_state()
    assert state == generators_state()
    np.random.rand()
    assert state.differing(generators_state()) == {"numpy"}
    random.random()
    assert state.differing(generators_state()) == {"random", "numpy"}
    assert state != generators_state() and state != "a state"


def test_numbers_of_numpy_are_encoded_as_numbers():
    assert encoded({"a": [np.int64(3), (np.float32(0.5),)]}) == {"a": [3, [0.5]]}


# ---- positions


@pytest.mark.parametrize("place", range(11))
def test_a_generator_function_is_read_again(place):
    items = positions.positioned(noisy)
    list(itertools.islice(items, place))
    state = through_json({"items": items.state(), "generators": generators_state()})
    expected = list(items), draws()
    random.seed(0)
    np.random.seed(0)
    items = positions.restored(noisy, state["items"])
    set_generators(state["generators"], but=positions.draws_ahead(items))
    assert (list(items), draws()) == expected


class Counter:
    """An iterator with a position, and with a thread that draws from `random`."""

    draws_ahead = ("random",)

    def __init__(self, stop=5):
        self.at, self.stop = 0, stop

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.stop:
            raise StopIteration
        self.at += 1
        return self.at

    def state(self):
        return self.at

    def restore(self, state):
        self.at = state


def test_an_iterator_with_a_position_is_used_as_it_is():
    items = positions.positioned(Counter)
    assert type(items) is Counter and [next(items), next(items)] == [1, 2]
    items = positions.resumed(Counter, items.state())
    assert list(items) == [3, 4, 5]
    assert positions.draws_ahead(items) == {"random"}


def test_what_is_read_again_is_said_once():
    items = positions.positioned(noisy)
    assert positions.resumed(noisy, items.state()).count == 0  # nothing to read again
    next(items)
    message = rf"read again from the beginning.*: noisy \({__file__}:\d+\)\n  hint: iterators with"
    with pytest.warns(UserWarning, match=message) as caught:
        positions.resumed(noisy, items.state())
    assert [warning.filename for warning in caught] == [__file__]


def test_known_readers_are_read_again_silently():
    source = positions.rereadable(lambda: iter("abc"))
    items = positions.positioned(source)
    assert next(items) == "a"
    assert items.state() == {"items": 1}
    assert list(positions.resumed(source, items.state())) == ["b", "c"]


def test_what_readers_are_made_of():
    quiet = positions.rereadable(lambda: iter("abc"))
    drawing = positions.rereadable(noisy, draws=True)
    assert positions.traits(quiet) == (False, False, ())
    assert positions.traits(drawing) == (True, False, ())
    assert positions.traits(noisy) == (True, False, (noisy,))
    both = positions.known(lambda: None, quiet, noisy)
    assert positions.traits(both) == (True, False, (noisy,))
    threaded = positions.known(lambda: None, both, threads=True)
    assert positions.traits(threaded) == (False, True, (noisy,))
    assert positions.traits(positions.known(lambda: None, quiet, threads=True)) == (
        *(False, False),
        (),
    )


def test_a_function_around_a_known_reader_is_not_known():
    quiet = positions.rereadable(lambda: iter("abc"))

    @functools.wraps(quiet)
    def around():
        for letter in quiet():
            yield letter, random.random()

    assert positions.traits(around) == (True, False, (around,))


def test_too_few_items_are_an_error():
    state = {"items": 7, "called": generators_state(), "read_again": ["three"]}

    def three():
        return iter("abc")

    message = r"three \(.*\) ends after 3 items, the position is behind 7 items"
    with pytest.raises(ValueError, match=message):
        positions.restored(three, state)
    with pytest.raises(ValueError, match=message):
        positions.skip(three(), 7, three)


def test_a_position_of_another_kind_is_an_error():
    foreign = positions.positioned(noisy)
    next(foreign)
    with pytest.raises(ValueError, match="reader Counter is another one than that of the pos"):
        positions.restored(Counter, foreign.state())
    with pytest.raises(ValueError, match=r"reader noisy .* is another one than that of the pos"):
        positions.restored(noisy, 3)
    with pytest.raises(ValueError, match="expected a number of items, got a state of 3"):
        positions.restored(positions.rereadable(lambda: iter("abc")), 3)


def test_an_untracked_beginning_has_no_position():
    items = positions.rereadable(noisy, draws=True)()
    assert items.state() == {"items": 0}
    next(items)
    with pytest.raises(ValueError, match=r"noisy .* has no position: it was opened without"):
        items.state()


def test_counting_stays_exact_in_slices():
    items = positions.positioned(lambda: iter(range(100)))
    for taken in (3, 0, 50):
        list(itertools.islice(items, taken))
    assert items.count == 53 and items.state()["items"] == 53
    list(items)
    assert items.count == 100 and items.state()["ended"]


def test_closing_closes_the_items():
    closed = []

    def read():
        try:
            yield from "abc"
        finally:
            closed.append(True)

    items = positions.positioned(read)
    next(items)
    items.close()
    assert closed == [True] and list(items) == []
    positions.positioned(lambda: iter("abc")).close()
