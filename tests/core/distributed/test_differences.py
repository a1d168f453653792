"""Ranks that differ: an error on all of them that names what, with its values, and where."""

import re

import pytest

from tests.core.distributed import jobs
from tests.core.distributed.differences import CASES, EQUAL, KINDS, STEPS, TURN
from tests.thinned import one_of_each

MODULE = "tests.core.distributed.differences"
# each difference in one way to train, the ways in turn, and some in others
CHOSEN = one_of_each(CASES, lambda name: CASES[name][1], 4)


@pytest.fixture(scope="module")
def printed():
    """What one job with these cases has printed."""
    return jobs.run(2, "-m", MODULE, *CHOSEN).stdout


@pytest.fixture(scope="module")
def ended(printed):
    """How each case ended: {name: [(steps, text) of each rank]}."""
    lines = re.findall(r"<(.*?)> (\d), (\d+): (.*)", printed)
    every = {}
    for name, _, steps, text in sorted(lines, key=lambda line: line[1]):
        every.setdefault(name, []).append((int(steps), text.replace("|", "\n")))
    return every


@pytest.mark.parametrize("name", CHOSEN)
def test_a_difference_is_found_on_all_ranks(ended, name):
    _, kind = CASES[name]
    _, steps, words = KINDS[kind]
    assert len(ended[name]) == 2
    for done, text in ended[name]:
        assert done == steps, text
        assert "the ranks disagree" in text
        assert re.search(words, text, re.DOTALL), text


@pytest.mark.parametrize("name", [program.__name__ for program in EQUAL])
def test_what_is_no_difference(ended, name):
    assert [text for _, text in ended[name]] == ["trained"] * 2
    assert len(set(ended[name])) == 1


def test_a_rank_that_leaves_out_an_optimizer(ended):
    assert [done for done, _ in ended["players"]] == [STEPS - 1] * 2
    for _, text in ended["players"]:
        assert "rank 1 has gradient 0 of fc_1.W" in text
        assert "rank 0 has gradient 0 of fc_0.W" in text


@pytest.mark.parametrize(
    "name, steps, what", [("checkpoint", TURN + 1, "a checkpoint"), ("compared", TURN, "compare()")]
)
def test_all_values_are_compared(ended, name, steps, what):
    for done, text in ended[name]:
        assert done == steps, text
        assert text.startswith(f"{what}: the ranks disagree\n  net/dense/")


def test_ranks_decide_by_the_same_numbers(printed):
    """Costs of 2.0 in the mean, four times: the first is the best, each other one reduces."""
    assert re.findall(r"<rate> \d: (.*)", printed) == ["0.012500000186264515"] * 2
    assert re.findall(r"<saved> \d: (.*)", printed) == ["[]"] * 2
