"""States of evaluators that belong to another one, or to none."""

import numpy as np
import pytest

import pd_core as pd
from pd_v2.evaluator import base, detection, ranking
from pd_v2.formats.proto import EvaluatorConfig


def sums():
    return base.Sums(2, lambda total, rows: {"": total / rows})


ROWS = np.zeros((2, 3))
REFUSED = [
    (sums, [1.0], "there are 2 sums, in the state 1"),
    (sums, [1.0, None], "not a number"),
    (sums, [1.0, np.array(["a"])], "not real numbers"),
    (base.NoTally, [1.0], r"there is nothing to keep, in the state \[1.0\]"),
    (ranking.Histogram, {"bins": np.arange(3)}, "auc: the state lacks 'counts'"),
    (ranking.Histogram, {"bins": ROWS, "counts": ROWS}, "auc: 'bins' .* not 1-D real numbers"),
    (
        ranking.Histogram,
        {"bins": np.arange(2), "counts": ROWS},
        r"\[2\] bins with weights of shape \[2, 3\]",
    ),
    (ranking.Pairs, [ROWS[0]] * 3, r"4 columns of as many rows, in the state of \[3, 3, 3\]"),
    (ranking.Pairs, [ROWS[0]] * 3 + [ROWS[0, :2]], r"in the state of \[3, 3, 3, 2\]"),
    (
        lambda: detection.Detections(0.5, False, "Integral"),
        {"boxes": [[0, 2]], "judgements": [[0, ROWS]]},
        "a row is a score and whether it is right, not 3 numbers",
    ),
]


@pytest.mark.parametrize(("make", "state", "message"), REFUSED)
def test_a_state_that_is_none_of_its_own(make, state, message):
    tally = make()
    before = tally.compute() if tally.state() != sums().state() else None
    with pytest.raises((ValueError, TypeError), match=message):
        tally.restore(state)
    assert before is None or tally.compute() == before


def test_other_evaluators_change_nothing():
    """Neither do those of the right names, the second of which has no such state."""

    def made(*names):
        configs = [EvaluatorConfig(type="sum", name=name) for name in names]
        return base.Accumulator([base.Evaluator(c, (), (), sums) for c in configs])

    own, state = made("a", "b"), made("a", "b").state()
    own.update([(1.0, 2.0), (3.0, 2.0)])
    with pytest.raises(pd.GraphError, match=r"the evaluators \['a', 'b'\], in the state \['a'\]"):
        own.restore(state[:1])
    state[1]["tally"] = [1.0]
    with pytest.raises(ValueError, match="there are 2 sums"):
        own.restore(state)
    assert own.metrics() == {"a": 0.5, "b": 1.5}


PARTS = [
    *(np.float32(x) for x in (0.1, 1e-45, 3.4e38, np.nan, -np.inf)),
    *(np.int64(2**63 - 1), np.int64(2**53 + 1), np.float64(0.1), np.bool_(True)),
]


@pytest.mark.parametrize("part", PARTS, ids=repr)
@pytest.mark.parametrize("of_array", [np.array, lambda x: np.array([x, x])])
def test_sums_are_those_of_numpy(part, of_array):
    """An array of no axes is added as a number of Python."""
    tally, expected = base.Sums(1, lambda total: {"": total}), np.float64(0.0)
    for _ in range(3):
        tally.update(of_array(part))
        expected = expected + of_array(part)
    (found,) = tally.sums
    assert (type(found), np.asarray(found).tobytes()) == (
        type(expected),
        np.asarray(expected).tobytes(),
    )


@pytest.mark.parametrize("batches", [1, 31, 32, 33, 70])
def test_sums_whenever_they_are_read(batches):
    """They are added up for some batches together, in their order; a state has all of them."""
    parts = np.random.default_rng(0).normal(size=(batches, 2)).astype(np.float32)
    expected, read = [np.float64(0.0)] * 2, sums()
    unread, restored = sums(), sums()
    for total, rows in parts:
        expected = [expected[0] + total, expected[1] + rows]
        for tally in (read, unread, restored):
            tally.update(np.array(total), np.array(rows))
        assert read.state() == expected
    assert unread.compute() == {"": expected[0] / expected[1]}
    restored.restore([1.0, 2.0])
    assert restored.state() == [1.0, 2.0]


def test_sums_of_scalars_and_arrays_in_turns():
    tally, expected = base.Sums(1, lambda total: {"": total}), np.float64(0.0)
    for part in (np.array(0.1), np.array([0.2, 0.3]), np.array(1e9), np.array([1e-9, 1.0])):
        tally.update(part)
        expected = expected + part
    assert tally.state()[0].tobytes() == expected.tobytes()
