"""What a resumed training does first is not what the one before did first, and yet it is the same.

Names are given and programs are built when they are first needed; tests come in between; and there
may be nothing left to train.
"""

import copy
import pickle

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic import seen
from pd_core.training import (
    ArrayReader,
    Average,
    CallEvery,
    Counter,
    Data,
    Device,
    ForwardBackward,
    Resume,
    RunnerItem,
    SaveBest,
    SaveEvery,
    StopEarly,
    TestEvery,
    TrainStep,
    Update,
)

from .resuming import arrays, assert_same_state, train

FEATURES, LABELS = arrays()


def cost_of(net, x, y):
    return pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))


def items(step, data=None):
    """The items of a training by `step(number of the batch, x, y)`."""
    counter = Counter()
    data = data or ArrayReader(FEATURES, LABELS, batch_size=4)
    return [Device(), counter, Data(data), TrainStep(lambda *b: step(counter.context.batches, *b))]


def forget():
    """Forget what lines have seen, as in a fresh process."""
    for table in (seen.sizes, seen.numbers, seen.changing):
        table.clear()


def assert_resumes(build, folder, *batches, passes=2):
    """Check that a training goes on from the checkpoints after so many batches."""
    forget()
    whole, context = train(build, SaveEvery(1, folder, keep=None), passes=passes)
    for k in batches:
        forget()
        again, resumed = train(build, Resume(folder / f"batch-{k:05d}"), passes=passes, seed=9)
        assert_same_state(again, whole)
        assert resumed.pass_metrics == context.pass_metrics
    return whole


# ---- names


def by_turns(build):
    """A training by two parts, the first in even batches, the second in odd ones."""

    def made():
        parts = build(), build()

        def step(k, x, y):
            net, optimizer = parts[k % 2]
            with pd.guard():
                cost = cost_of(net, x, y)
                optimizer.minimize(cost)
                return cost

        return items(step)

    return made


PARTS = {
    "networks": lambda: (pd.nn.Sequential(pd.nn.FC(3)), pd.AdamOptimizer(0.01)),
    "schedules": lambda: (
        pd.nn.FC(3, name=f"own{pd.AdaGradOptimizer()._numbered.number}"),
        pd.SGDOptimizer(pd.schedules.ExponentialDecay(0.1, 0.5)),
    ),
}


@pytest.mark.parametrize("build", PARTS.values(), ids=PARTS)
def test_networks_that_take_turns(build, tmp_path):
    """The one that comes first after the resume came second before."""
    whole = assert_resumes(by_turns(build), tmp_path, 1, 2, 5)
    assert len(whole["values"]) in (16, 6)


def test_two_optimizers_of_one_network(tmp_path):
    def build():
        net, pair = pd.nn.FC(3), (pd.AdamOptimizer(0.01), pd.AdamOptimizer(0.1))

        def step(k, x, y):
            with pd.guard():
                cost = cost_of(net, x, y)
                pair[k % 2].minimize(cost)
                return cost

        return items(step)

    assert_resumes(build, tmp_path, 1, 2)


def test_a_network_is_trained_after_another_one(tmp_path):
    """The first one takes no more steps, and its averages neither."""

    def build():
        nets = pd.nn.FC(3), pd.nn.FC(3)
        optimizers = pd.AdamOptimizer(0.01), pd.AdamOptimizer(0.01)
        averages = pd.MovingAverage(0.5), pd.MovingAverage(0.5)

        def step(k, x, y):
            part = k // 3
            with pd.guard():
                cost = cost_of(nets[part], x, y)
                optimizers[part].minimize(cost)
                averages[part].record(nets[part].parameters())
                return cost

        return items(step)

    whole = assert_resumes(build, tmp_path, 1, 3, 4)
    assert {"fc_1/W", "adamoptimizer_1/weight1", "average_1/weight"} <= whole["values"].keys()


def test_names_are_free_where_nothing_else_needs_them():
    """A program that made an optimizer before, and dropped it, goes on with its state."""
    pd.reset(seed=0)
    scope = pd.graph.names.names()
    scope.set_earlier({"adamoptimizer_0": ("adamoptimizer", 0, None)})
    pd.AdamOptimizer(0.1)
    net, optimizer = pd.nn.FC(3), pd.AdamOptimizer(0.1)
    with pd.guard():
        optimizer.minimize(cost_of(net, FEATURES, LABELS))
    assert pd.default_session().optimizers[optimizer].name == "adamoptimizer_0"
    assert not scope.earlier


def test_copies_have_numbers_of_their_own():
    pd.reset(seed=0)
    layer, optimizer, average = pd.nn.FC(3), pd.SGDOptimizer(0.1), pd.MovingAverage(0.9)
    layer(pd.Variable("x", shape=[None, 4]))
    twins = copy.deepcopy(layer), copy.deepcopy(average), pickle.loads(pickle.dumps(layer))
    for twin in (*twins, copy.copy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        number = vars(twin).get("_numbered")
        kind = {pd.nn.FC: layer, pd.MovingAverage: average}.get(type(twin), optimizer)
        assert number is None or number is not vars(kind)["_numbered"]


# ---- what lines have seen


def lengths():
    """Batches of sequences of several lengths."""
    rng = np.random.default_rng(1)
    sizes = (2, 5, 3, 2, 4)
    return [(rng.normal(size=(3, n, 4)).astype(np.float32), rng.integers(0, 3, 3)) for n in sizes]


def of_lengths():
    net, optimizer = pd.nn.Sequential(pd.nn.LayerNorm(), pd.nn.FC(3)), pd.NAdamOptimizer(0.05)

    def step(k, x, y):
        with pd.guard():
            cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.reduce_mean(net(x), 1), y))
            optimizer.minimize(cost)
            return cost

    return items(step, lengths())


def of_numbers():
    net, optimizer = pd.nn.FC(3), pd.NAdamOptimizer(0.05)

    def step(k, x, y):
        with pd.guard():
            scores = net(pd.dropout(x, 0.1 + 0.03 * k)) / (0.7 + 0.1 * k)
            cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
            optimizer.minimize(cost)
            return cost

    return items(step, ArrayReader(FEATURES, LABELS, batch_size=2))


@pytest.mark.parametrize("build", [of_lengths, of_numbers])
def test_lines_go_on_with_what_they_had_seen(build, tmp_path):
    """What differs from call to call is no constant of programs, which would round otherwise."""
    assert_resumes(build, tmp_path, 1, 2, 4, passes=1)


def test_what_lines_have_seen_is_checked():
    state = {"sizes": [["a.py:3", "float32", 2, [None, 4]]], "changing": ["a.py:3"]}
    state["numbers"] = [["a.py:3", "layer", "scale", 7, [[11, [], "AACAPw=="]]]]
    forget()
    seen.set_earlier(seen.decoded(state))
    try:
        assert seen.seen() == state  # it is in the next checkpoint, too
    finally:
        seen.set_earlier({})
    for bad in ({"sizes": [["a.py:3", "float32", 2, [4]]]}, {"numbers": [["a"]]}, {"x": []}):
        with pytest.raises(ValueError, match="what lines have seen"):
            seen.decoded(bad)


# ---- tests in between


def static(reader, *more):
    def build():
        x = pd.Variable(name="x", shape=[None, 4])
        y = pd.Variable(name="y", shape=[None], dtype="int64")
        cost = cost_of(pd.nn.FC(3), x, y)
        data = reader()
        step = [ForwardBackward(cost), Update(pd.MomentumOptimizer(0.1))]
        return [Device(), Counter(), Data(data, [x, y]), *step, *(make(data) for make in more)]

    return build


def shuffled(**options):
    return ArrayReader(FEATURES, LABELS, batch_size=4, **{"shuffle": True, **options})


READERS = {
    "the reader of the training": lambda data: TestEvery(batches=1, reader=data),
    "another one": lambda data: TestEvery(batches=1, reader=shuffled()),
    "drawn samples": lambda data: TestEvery(
        batches=1, reader=shuffled(weights=np.arange(len(LABELS)))
    ),
}


@pytest.mark.parametrize("test", READERS.values(), ids=READERS)
def test_tests_read_the_same_samples(test, tmp_path):
    """However many tests there were, and the training reads what it reads without them."""
    results, build = [], static(shuffled, test)
    _, context = train(build, SaveEvery(1, tmp_path, keep=None), passes=3)
    plain, _ = train(static(shuffled), passes=3)
    for k in (1, 3, 8):
        state, resumed = train(build, Resume(tmp_path / f"batch-{k:05d}"), passes=3, seed=9)
        results.append(resumed.test_metrics)
        assert_same_state(state, plain)
    assert results == [context.test_metrics] * 3


# ---- nothing is left to train


class Sees(RunnerItem):
    """What callbacks may read before the first batch."""

    def on_pass_begin(self, following):
        c = self.context
        self.seen = [c.cost, c.batch_size, dict(c.metrics), dict(c.pass_metrics)]
        following()


def test_numbers_of_the_batch_and_pass_before(tmp_path):
    step = lambda: items(lambda k, x, y: {"cost": k + 0.5, "double": 2 * k + 1.0})  # noqa: E731
    whole, resumed = Sees(), Sees()
    _, context = train(step, whole, SaveEvery(path=tmp_path, passes=1, keep=None))
    train(step, resumed, Resume(tmp_path / "batch-00003"))
    assert whole.seen == resumed.seen == [2.5, 4, {"double": 5.0}, {"cost": 1.5, "double": 3.0}]
    _, ended = train(step, Resume(tmp_path / "batch-00006"))
    for name in ("cost", "batch_size", "metrics", "pass_metrics"):
        assert getattr(ended, name) == getattr(context, name)
    for copied in (copy.deepcopy(ended.metrics), pickle.loads(pickle.dumps(ended.metrics))):
        assert copied == {"double": 11.0}


class Stepping(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = pd.nn.Sequential(pd.nn.FC(4), pd.nn.BatchNorm1d(), pd.nn.FC(3))
        self.optimizer = pd.AdamOptimizer(0.05)

    def forward(self, x):
        return self.net(x)

    def train_one_batch(self, x, y):
        output = self.forward(x)
        cost = pd.reduce_mean(pd.softmax_cross_entropy(output, y))
        self.optimizer.minimize(cost)
        return output, cost


@pytest.mark.parametrize("done", [3, 6])
def test_a_module_that_no_batch_builds(done, tmp_path):
    """The checkpoint is that of the last batch of a pass, or of the training."""

    def fitted(name, *more):
        pd.reset(seed=1)
        module, average = Stepping(), pd.MovingAverage(0.9)
        callbacks = [StopEarly("cost", 5, restore_best=True), Average(average)]
        callbacks += [SaveBest(tmp_path / name, "cost"), *more]
        data = ArrayReader(FEATURES, LABELS, batch_size=4)
        fit = {"loss": "softmax_cross_entropy", "epochs": 2, "verbose": False}
        history = module.fit(data, callbacks=callbacks, **fit)
        with average.applied():
            predicted = module.predict(FEATURES)
        module.save(tmp_path / f"{name}-all")
        state = {k: v.tobytes() for k, v in module.optimizer.state().items()}
        files = [(tmp_path / f"{name}{end}").read_bytes() for end in ("", "-all.safetensors")]
        return dict(history), predicted.tobytes(), state, files

    saved = tmp_path / "saved"
    whole = fitted("whole", SaveEvery(1, saved, keep=None))
    (tmp_path / "again").write_bytes((tmp_path / "whole").read_bytes())  # of the passes before
    assert fitted("again", Resume(saved / f"batch-{done:05d}")) == whole


def test_the_state_of_an_optimizer_without_steps(tmp_path):
    """Of a parameter that is frozen, and of one that takes no step any more, all is there."""
    made = []

    def build():
        net, optimizer = pd.nn.FC(3, name="net"), pd.AdamOptimizer(0.01)
        made.append(optimizer)

        def step(k, x, y):
            with pd.guard():
                cost = cost_of(net, x, y)
                optimizer.minimize(cost)
                return cost

        def freeze(context):
            net.B.trainable = context.batches < 2

        return [*items(step), CallEvery(freeze, batches=1)]

    def state():
        return {k: v.tobytes() for k, v in made[-1].state().items()}

    train(build, SaveEvery(1, tmp_path, keep=None))
    whole = state()
    for k in (3, 6):
        train(build, Resume(tmp_path / f"batch-{k:05d}"), seed=9)
        assert state() == whole
