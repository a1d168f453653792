"""Parts of batches for the ranks of a job, and states of such trainings."""

from collections import namedtuple

import numpy as np
import pytest

import pd_core as pd
from pd_core import training
from pd_core.training.fit.history import Recorder
from pd_core.training.ranks import Ranks, job, on_first, rows_of

Pair = namedtuple("Pair", ["x", "y"])
X = np.arange(12).reshape(6, 2)
PARTS = slice(2, 4)


def test_rows_of_nested_batches():
    batch = {"x": X, "several": [X, X[:, 0]], "rate": 0.1, "list": [1, 2, 3, 4, 5, 6]}
    part = rows_of(batch, 6, PARTS)
    np.testing.assert_array_equal(part["x"], X[PARTS])
    np.testing.assert_array_equal(part["several"][1], X[PARTS, 0])
    assert part["rate"] == 0.1
    assert part["list"] == [3, 4]


def test_rows_of_tuples_keep_their_class():
    part = rows_of(Pair(X, X[:, 0]), 6, PARTS)
    assert isinstance(part, Pair)
    assert part.y.tolist() == [4, 6]
    assert rows_of(X, 6, PARTS).tolist() == X[PARTS].tolist()


def test_arrays_of_other_lengths_are_not_split():
    with pytest.raises(pd.GraphError, match=r"a batch of 6 samples has one of the shape \(5,\)"):
        rows_of((X, np.zeros(5)), 6, PARTS)


def test_a_process_alone_is_no_job():
    assert job() is None
    assert on_first(None, lambda: 3) == 3
    assert not Ranks(splits=True).has_got(1)


class Second(Ranks):
    """The second of two ranks, of which the first has batches of 4 samples."""

    rank, size, is_first = 1, 2, False

    def all_reduce_size(self, samples):
        self.samples = samples or 0
        return 4


def test_a_function_needs_a_batch_of_its_rank(monkeypatch):
    monkeypatch.setattr("pd_core.training.runner.job", Second)
    with (
        runner([], seen=[]) as run,
        pytest.raises(pd.GraphError, match="rank 1 has no batches, and TrainStep takes no step"),
    ):
        run.run()


def gathered(monkeypatch, other):
    """Let `allgather` return the values of this rank and of another one."""
    monkeypatch.setattr("pd_core.training.ranks.allgather", lambda value: [value, other])


def test_numbers_are_weighted_by_samples(monkeypatch):
    gathered(monkeypatch, (0, 1, {"cost": 4.0, "n": 2.0}, [], None))
    assert Ranks().all_reduce({"cost": 1.0, "n": 1.0}, [], 2) == ({"cost": 2.0, "n": 4 / 3}, 3)
    gathered(monkeypatch, (0, 0, {"cost": np.nan, "n": 2.0}, [], None))
    assert Ranks().all_reduce({"cost": 1.0, "n": 1.0}, [], 2) == ({"cost": 1.0, "n": 1.0}, 2)


def test_numbers_are_the_same_on_all_ranks(monkeypatch):
    gathered(monkeypatch, (0, 2, {"cost": 1.0}, [], None))
    with pytest.raises(pd.GraphError, match="there is no 'n' on all of them"):
        Ranks().all_reduce({"cost": 1.0, "n": 1.0}, [], 2)


def test_a_batch_has_samples_on_some_rank(monkeypatch):
    gathered(monkeypatch, (0, 0, {"cost": 1.0, "n": 1.0}, [], None))
    with pytest.raises(pd.GraphError, match="a batch has no samples on any rank"):
        Ranks().all_reduce({"cost": 1.0, "n": 1.0}, [], 0)


def test_parts_are_of_the_same_batch(monkeypatch):
    gathered(monkeypatch, (3, None))
    assert Ranks().gather_parts(3, "own") == ["own"]
    with pytest.raises(pd.GraphError, match="rank 1 has a batch of 3 samples; rank 0 has a batch"):
        Ranks().gather_parts(4, "own")


def state_of(*others, position=None):
    part = {"position": position, "reader": None, "generators": None}
    return {**part, "ranks": [part, *others], "before": None}


def test_own_places_are_not_of_split_batches():
    data = training.Data([(X,)], split=True)
    with pytest.raises(pd.GraphError, match="of 2 ranks with batches of their own"):
        data.check(state_of({}))


def runner(reader, *more, seen=None):
    step = training.TrainStep(lambda x: seen.append(int(x[0])) or 0.0)
    items = [training.Device(), training.Counter(), training.Data(reader), *more, step]
    return training.runner_of(items)


class Reader:
    """A reader whose passes begin at other numbers, and which has a state."""

    def __init__(self):
        self.passes = 0

    def __call__(self):
        self.passes += 1
        return iter([(np.array([10 * self.passes + k]),) for k in range(8)])

    def state(self):
        return self.passes

    def restore(self, state):
        self.passes = state


class SaveAt(training.RunnerItem):
    def __init__(self, batches, path):
        self.batches, self.path = batches, path

    def on_batch_end(self, following):
        if self.context.batches == self.batches:
            self.context.after(lambda: self.context.runner.save(self.path))
        return following()


def test_one_process_after_two_with_own_batches(tmp_path):
    """Two ranks had taken 3 batches each of the second pass: one leaves out 6."""
    with runner(Reader(), SaveAt(11, tmp_path / "one"), seen=[]) as run:
        run.run(2)
    checkpoint = training.read_checkpoint(tmp_path / "one")
    place = checkpoint.parts["Data"]
    checkpoint.parts["Data"] = {**place, "ranks": [place, place], "before": 1}
    training.write_checkpoint(tmp_path / "two", checkpoint)
    seen = []
    with (
        runner(Reader(), training.Resume(tmp_path / "two"), seen=seen) as run,
        pytest.warns(training.CheckpointWarning, match="leaves out the first 6 samples"),
    ):
        run.run(3)
    assert seen == [26, 27, *range(30, 38)]


def test_history_of_a_checkpoint_is_checked():
    recorder = Recorder()
    recorder.check({"cost": [1.0, 2]})
    with pytest.raises((TypeError, ValueError)):
        recorder.check({"cost": 3})
