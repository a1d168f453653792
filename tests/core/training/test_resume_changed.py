"""Resuming where the program has changed: what has no name is told by the line that makes it."""

import warnings

import pytest

import pd_core as pd
from pd_core.training import ArrayReader, Counter, Data, Device, Resume, SaveEvery, TrainStep

from .resuming import arrays, assert_same_state, train


def first():
    a = pd.nn.FC(3)
    b = pd.nn.FC(3)
    one = pd.AdamOptimizer(0.01)
    other = pd.AdamOptimizer(0.1)
    mean = pd.MovingAverage(0.5)
    means = pd.MovingAverage(0.9)
    return (a, one, mean), (b, other, means)


def exchanged():
    means = pd.MovingAverage(0.9)
    other = pd.AdamOptimizer(0.1)
    one = pd.AdamOptimizer(0.01)
    b = pd.nn.FC(3)
    a = pd.nn.FC(3)
    mean = pd.MovingAverage(0.5)
    return (a, one, mean), (b, other, means)


def more_of_them():
    before = pd.nn.FC(4), pd.AdamOptimizer(0.2), pd.MovingAverage()
    a = pd.nn.FC(3)
    b = pd.nn.FC(3)
    mean = pd.MovingAverage(0.5)
    between = pd.nn.FC(5), pd.AdamOptimizer(0.3), pd.MovingAverage()
    one = pd.AdamOptimizer(0.01)
    other = pd.AdamOptimizer(0.1)
    means = pd.MovingAverage(0.9)
    return (a, one, mean), (b, other, means), before, between


def edited():
    (a, _, mean), (b, _, means) = first()
    pair = [pd.AdamOptimizer(0.02), pd.AdamOptimizer(0.2)]
    return (a, pair[0], mean), (b, pair[1], means)


def renamed():
    a = pd.nn.FC(3, name="own")
    b = pd.nn.FC(3)
    one = pd.AdamOptimizer(0.01)
    other = pd.AdamOptimizer(0.1)
    mean = pd.MovingAverage(0.5)
    means = pd.MovingAverage(0.9)
    return (a, one, mean), (b, other, means)


def training(make):
    """Two networks that take turns, each with an optimizer and averages of its own."""

    def build():
        parts, counter = make(), Counter()

        def step(x, y):
            net, optimizer, mean = parts[counter.context.batches % 2]
            with pd.guard():
                cost = pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))
                optimizer.minimize(cost)
                mean.record(net.parameters())
                return cost

        data = ArrayReader(*arrays(), batch_size=3)
        return [Device(), counter, Data(data), TrainStep(step)]

    return build


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder of checkpoints after every batch, and the state in the end."""
    folder = tmp_path_factory.mktemp("saved")
    state, _ = train(training(first), SaveEvery(1, folder, keep=None))
    return folder, state


@pytest.mark.parametrize("make", [exchanged, more_of_them])
def test_lines_that_moved_have_their_state(make, saved):
    folder, whole = saved
    for batches in (1, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            state, _ = train(training(make), Resume(folder / f"batch-{batches:05d}"), seed=3)
        assert_same_state(state, whole)


def test_an_edited_line_among_more_of_its_kind_is_named(saved):
    text = "adamoptimizer_[01] of the checkpoint: told by order alone"
    with pytest.warns(pd.training.CheckpointWarning, match=text):
        train(training(edited), Resume(saved[0] / "batch-00004"))


def test_what_finds_no_owner_and_what_begins_anew(saved):
    with pytest.warns(pd.training.CheckpointWarning) as caught:
        train(training(renamed), Resume(saved[0] / "batch-00004"))
    text = "".join(str(warning.message) for warning in caught)
    assert "only in it: fc_" in text and "begin anew: own/W, own/B" in text


def test_a_network_that_comes_later_is_no_other_program(tmp_path):
    """What waits for something that is there, and begins in this pass, is as it should be."""

    def build():
        items, parts = training(lambda: first()[:1] * 2)(), first()
        items[3] = TrainStep(lambda x, y: parts_step(parts, items[1], x, y))
        return items

    def parts_step(parts, counter, x, y):
        net, optimizer, _ = parts[counter.context.batches >= 2]
        with pd.guard():
            cost = pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))
            optimizer.minimize(cost)
            return cost

    whole, _ = train(build, SaveEvery(1, tmp_path, keep=None), passes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state, _ = train(build, Resume(tmp_path / "batch-00002"), passes=1)
    assert_same_state(state, whole)
