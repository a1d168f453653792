"""A resume that fails at an item, or before its first batch, changes nothing."""

import random

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    ArrayReader,
    Counter,
    Data,
    Device,
    Evaluate,
    ForwardBackward,
    ReduceRate,
    Resume,
    RunnerItem,
    SaveEvery,
    StopEarly,
    Update,
    runner_of,
)
from pd_core.training.generators import generators_state

from .resuming import arrays, assert_same_state

FEATURES, LABELS = arrays()


class Log(RunnerItem):
    """What a user's item remembers, changed in place; one method may fail."""

    def __init__(self, fails=None, error=None):
        self.seen, self.fails, self.error = ["before"], fails, error or ValueError("a reason")

    def _perhaps(self, method):
        if method == self.fails:
            self.fails = None
            raise self.error

    def on_pass_begin(self, following):
        self._perhaps("on_pass_begin")
        following()

    def on_batch_end(self, following):
        self.seen.append(self.context.batches)
        return following()

    def state(self):
        return {"seen": self.seen}

    def check(self, state):
        self._perhaps("check")

    def restore(self, state):
        self.seen[:] = state["seen"]
        self._perhaps("restore")


class Other(Log):
    pass


def items(*more):
    x = pd.Variable(name="x", shape=[None, 4])
    y = pd.Variable(name="y", shape=[None], dtype="int64")
    scores = pd.layer.fc(pd.dropout(pd.layer.fc(x, 4, act="tanh"), 0.5), 3)
    reader = ArrayReader(FEATURES, LABELS, batch_size=4, shuffle=True)
    return [
        *(Device(), Counter(), Data(reader, [x, y])),
        ForwardBackward(pd.reduce_mean(pd.softmax_cross_entropy(scores, y))),
        *(Update(pd.AdamOptimizer(0.01)), Evaluate(scores, y, "accuracy")),
        *(StopEarly("cost", 9), ReduceRate(0.5, "cost", 9), *more),
    ]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    pd.reset(seed=0)
    folder = tmp_path_factory.mktemp("saved")
    with runner_of([*items(Log(), Other()), SaveEvery(1, folder, keep=None)]) as runner:
        runner.run(2)
    return folder


def resumed(*more, seed=7):
    """Resume and run, in a world that has trained a little; return the error."""
    pd.reset(seed=seed)
    random.seed(seed), np.random.seed(seed)
    made = items()
    session, reader = pd.default_session(), made[2].reader
    trained = pd.trainable_variables()
    session.store.initialize(trained[:2])  # the others get their first values with the checkpoint
    session.set(trained[0], np.ones(trained[0].dims, np.float32))
    values, generators = session.state(), generators_state()
    with pytest.raises(BaseException) as caught, runner_of([*made, *more]) as runner:
        runner.run(2)
    assert_same_state(session.state(), values)
    assert generators_state() == generators and reader.state()["passes"] == 0
    assert not session.store.waiting
    assert [session.has(v) for v in trained] == [
        True,
        True,
        False,
        False,
    ]
    return caught.value


@pytest.mark.parametrize("batches", [2, 3, 5])
@pytest.mark.parametrize("fails", ["check", "restore"])
def test_an_item_of_a_user_fails(fails, batches, saved):
    path, log, last = saved / f"batch-{batches:05d}", Log(), Other(fails)
    error = resumed(log, last, Resume(path))
    assert type(error) is pd.GraphError
    assert str(error) == (
        f"{path}: Other.{fails}() raised ValueError: a reason\n  nothing is restored"
    )
    assert error.__cause__ is last.error and log.seen == last.seen == ["before"]


@pytest.mark.parametrize("fails", ["check", "restore", "on_pass_begin"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt(kind, fails, saved):
    log, last = Log(), Other(fails, kind("now"))
    assert resumed(log, last, Resume(saved)) is last.error
    assert log.seen == last.seen == ["before"]


def test_the_first_pass_does_not_begin(saved):
    log, last = Log(), Other("on_pass_begin")
    assert resumed(log, last, Resume(saved / "batch-00002")) is last.error
    assert log.seen == last.seen == ["before"]


def test_the_runner_is_refused_after_the_resume(saved):
    """SaveEvery begins when everything is restored."""
    log, last, path = Log(), Other(), saved / "batch-00002"
    error = resumed(log, last, Resume(path), SaveEvery(1, saved))
    assert "has batch-00003 of another training" in str(error)
    assert log.seen == last.seen == ["before"]


def test_what_cannot_be_taken_back_is_said(saved):
    class Stubborn(Log):
        def restore(self, state):
            if state["seen"] == ["before"]:
                raise OSError("once is enough")
            super().restore(state)

    pd.reset(seed=0)
    folder = saved.parent / "stubborn"
    with runner_of([*items(Stubborn(), Other()), SaveEvery(1, folder)]) as runner:
        runner.run(1)
    error = resumed(Stubborn(), Other("restore"), Resume(folder))
    notes = ["  then, as this was taken back: OSError('once is enough')"]
    assert str(error.__cause__) == "a reason" and error.__notes__ == notes


def test_a_training_that_goes_on_keeps_nothing_of_before(saved):
    pd.reset(seed=7)
    with runner_of([*items(Log(), Other()), Resume(saved / "batch-00002")]) as runner:
        assert runner.context.undo is not None
        runner.run_one_pass()
        assert runner.context.undo is None and runner.items[-2].seen == ["before", 1, 2, 3]
