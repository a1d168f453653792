"""Exact resume of static graphs: from every checkpoint to the same bits."""

import random

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    ArrayReader,
    Average,
    Counter,
    Data,
    Device,
    Evaluate,
    ForwardBackward,
    Observe,
    ReduceRate,
    RunnerItem,
    StopEarly,
    TestEvery,
    Update,
)
from tests.thinned import thinned

from .resuming import arrays, assert_resumes

S = pd.schedules
FEATURES, LABELS = arrays()


def feeds():
    x = pd.Variable(name="x", shape=[None, 4])
    y = pd.Variable(name="y", shape=[None], dtype="int64")
    return x, y


def items(cost, inputs, *optimized, reader=None):
    reader = reader or ArrayReader(FEATURES, LABELS, batch_size=4, shuffle=True)
    return [Device(), Counter(), Data(reader, inputs), ForwardBackward(cost), *optimized]


def classifier(optimizer=None, *more, hidden=None, reader=None, evaluated=False):
    """A function that builds a classifier with an optimizer."""

    def build():
        x, y = feeds()
        layer = pd.layer.fc(x, 5, act="tanh")
        layer = hidden(layer) if hidden else layer
        scores = pd.layer.fc(layer, 3)
        cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
        made = optimizer() if optimizer else pd.SGDOptimizer(0.1)
        rings = items(cost, [x, y], Update(made), reader=reader and reader())
        rings += [Evaluate(scores, y, ["accuracy", "f1"])] if evaluated else []
        return [*rings, *(make() for make in more)]

    return build


OPTIMIZERS = {
    "sgd": lambda: pd.SGDOptimizer(0.1),
    "momentum": lambda: pd.MomentumOptimizer(0.1),
    "nesterov": lambda: pd.MomentumOptimizer(0.1, nesterov=True),
    "adam": lambda: pd.AdamOptimizer(0.01),
    "adamw": lambda: pd.AdamWOptimizer(0.01),
    "adamax": lambda: pd.AdamaxOptimizer(0.01),
    "adagrad": lambda: pd.AdaGradOptimizer(0.1),
    "decayed-adagrad": lambda: pd.DecayedAdaGradOptimizer(0.1),
    "rmsprop": lambda: pd.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
    "adadelta": lambda: pd.AdaDeltaOptimizer(1.0),
    "nadam": lambda: pd.NAdamOptimizer(0.01),
    "radam": lambda: pd.RAdamOptimizer(0.01),
    "lion": lambda: pd.LionOptimizer(0.01),
    "lamb": lambda: pd.LAMBOptimizer(0.01, accumulate=2),
    "adafactor": lambda: pd.AdaFactorOptimizer(0.01),
    "muon": lambda: pd.MuonOptimizer(0.01, groups=[{"params": "B$", "use_muon": False}]),
    "lookahead": lambda: pd.Lookahead(pd.AdamOptimizer(0.01), k=3),
    "groups": lambda: pd.AdamWOptimizer(0.01, groups=[{"params": "B$", "weight_decay": 0}]),
    "penalised": lambda: pd.AdamOptimizer(0.01, regularizer=pd.L2(0.1), clip=pd.ClipNorm(0.1)),
}
SCHEDULES = {
    "exponential": S.ExponentialDecay(0.1, 0.5, every=2.0),
    "staircase": S.ExponentialDecay(0.1, 0.5, every=2.0, staircase=True),
    "inverse": S.InverseTimeDecay(0.1, 0.5),
    "polynomial": S.PolynomialDecay(0.1, steps=5.0, power=2.0),
    "cosine": S.CosineDecay(0.1, steps=5.0),
    "piecewise": S.Piecewise((1.0, 3.0), (0.1, 0.05, 0.01)),
    "restarts": S.CosineRestarts(0.1, 2, factor=2),
    "one-cycle": S.OneCycle(0.1, 6),
    "warmup": S.Warmup(S.CosineDecay(0.1, steps=6.0), steps=3.0),
}


@pytest.mark.parametrize("name", thinned(OPTIMIZERS, 2))
def test_optimizers_resume(name, tmp_path):
    assert_resumes(classifier(OPTIMIZERS[name]), tmp_path)


def test_every_optimizer_is_tested():
    """L-BFGS, which calls a closure, is resumed in its own tests."""
    made = {type(make()) for make in OPTIMIZERS.values()}
    every = {getattr(pd, name) for name in pd.__all__ if name.endswith("Optimizer")}
    assert made == (every | {pd.Lookahead}) - {pd.LBFGSOptimizer}


@pytest.mark.parametrize("name", thinned(SCHEDULES, 2))
def test_schedules_resume(name, tmp_path):
    assert_resumes(classifier(lambda: pd.MomentumOptimizer(SCHEDULES[name])), tmp_path)


def test_every_schedule_is_tested():
    """ReduceOnPlateau, which observes a metric, is resumed by another test."""
    kinds = {c for c in vars(S).values() if isinstance(c, type) and c.__module__ == S.__name__}
    assert {type(s) for s in SCHEDULES.values()} == kinds - {S.ReduceOnPlateau}


def test_dropout_and_batch_norm_resume(tmp_path):
    def hidden(layer):
        return pd.dropout(pd.layer.batch_norm(layer), 0.5)

    assert_resumes(classifier(hidden=hidden, evaluated=True), tmp_path, passes=3)


def test_noise_of_the_graph_resumes(tmp_path):
    def hidden(layer):
        return layer + pd.gaussian_random([5]) * 0.1

    assert_resumes(classifier(hidden=hidden), tmp_path)


def test_moving_averages_resume(tmp_path):
    class Averaged(pd.SGDOptimizer):
        def minimize(self, *args, **kwargs):
            update = super().minimize(*args, **kwargs)
            followed = pd.MovingAverage(0.5).follow(update)
            followed.gradients = update.gradients
            return followed

    assert_resumes(classifier(lambda: Averaged(0.1)), tmp_path)


@pytest.mark.parametrize("optimizer", ["adam", "momentum", "rmsprop"])
def test_row_sparse_tables_resume(optimizer, tmp_path):
    words = np.random.default_rng(2).integers(0, 9, (12, 3))

    def build():
        x = pd.Variable(name="x", shape=[None, 3], dtype="int64")
        y = pd.Variable(name="y", shape=[None], dtype="int64")
        initializer = pd.uniform_initializer(-1.0, 1.0)
        table = pd.Variable([9, 4], name="table", initializer=initializer, row_sparse=True)
        scores = pd.layer.fc(pd.reduce_mean(pd.gather(table, x), 1), 3)
        cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
        reader = ArrayReader(words, LABELS, batch_size=2, shuffle=True)
        return items(cost, [x, y], Update(OPTIMIZERS[optimizer]()), reader=reader)

    assert_resumes(build, tmp_path, passes=1)


def test_two_optimizers_of_a_gan_resume(tmp_path):
    rng = np.random.default_rng(0)
    real, noise = (rng.normal(size=(12, 3)).astype(np.float32) for _ in range(2))

    def build():
        x, z = pd.Variable(name="x", shape=[None, 3]), pd.Variable(name="z", shape=[None, 3])

        def drawn():
            with pd.namespace("g"):
                return pd.dropout(pd.fc(z, 3, W="W", B="b"), 0.2)

        def judged(v):
            with pd.namespace("d"):
                return pd.fc(pd.tanh(pd.fc(v, 4, W="W1", B="b1")), 1, W="W2", B="b2")

        fake = judged(drawn())
        cost_d = pd.reduce_mean(pd.softplus(-judged(x)) + pd.softplus(fake))
        cost_g = pd.reduce_mean(pd.softplus(-fake))
        return [
            *items(cost_d, [x, z], reader=ArrayReader(real, noise, batch_size=4, shuffle=True)),
            Update(pd.AdamOptimizer(0.01), pd.trainable_variables("d/")),
            ForwardBackward(cost_g),
            Update(pd.AdamOptimizer(0.02), pd.trainable_variables("g/")),
        ]

    assert_resumes(build, tmp_path)


# ---- what watches, tests and ends a training


def held_out():
    return ArrayReader(FEATURES[:4], LABELS[:4])


def test_a_reduced_rate_resumes(tmp_path):
    build = classifier(
        OPTIMIZERS["momentum"], lambda: ReduceRate(0.5, monitor="cost", min_delta=10.0)
    )
    assert_resumes(build, tmp_path, passes=4)


def test_a_reduced_schedule_resumes(tmp_path):
    build = classifier(
        lambda: pd.SGDOptimizer(SCHEDULES["exponential"]),
        lambda: ReduceRate(0.5, monitor="cost", min_delta=10.0),
    )
    assert_resumes(build, tmp_path, passes=3)


def test_a_plateau_resumes(tmp_path):
    def build():
        plateau = S.ReduceOnPlateau(0.5, factor=0.5, patience=1, threshold=0.5)
        return classifier(lambda: pd.SGDOptimizer(plateau), lambda: Observe(plateau))()

    assert_resumes(build, tmp_path, passes=4)
    rates = [a for v, a in pd.default_session().values().items() if v.name == "plateau_0/rate"]
    assert rates == [0.25]


def test_an_average_resumes(tmp_path):
    average = lambda: Average(pd.MovingAverage(0.9, warmup=True))  # noqa: E731
    assert_resumes(classifier(OPTIMIZERS["adam"], average), tmp_path)
    assert {v.name for v in pd.default_session().values()} >= {"average_0/weight"}


def test_an_early_stop_resumes(tmp_path):
    build = classifier(None, lambda: StopEarly("cost", patience=2, min_delta=10.0))
    assert_resumes(build, tmp_path, passes=9, batches=9)


def test_a_stopped_training_stays_stopped(tmp_path):
    class Stop(RunnerItem):
        def on_batch_end(self, following):
            if self.context.batches == 4:  # the first of the second pass
                self.context.stop()
            return following()

        def on_pass_end(self, following):
            session = self.context.session
            for v in self.context.parameters.values():  # the end of a pass changes something
                session.set(v, session.get(v) * 0.5)
            following()

    assert_resumes(classifier(None, Stop), tmp_path, passes=5, batches=4)


def test_a_pass_that_was_ended_stays_ended(tmp_path):
    class Short(RunnerItem):
        ended = 0

        def on_batch_end(self, following):
            following()
            return self.context.batches in (2, 4)

    assert_resumes(classifier(None, Short), tmp_path, passes=3)


def test_results_of_tests_resume(tmp_path):
    """A test in every second pass: the pass after it compares with the same result."""
    build = classifier(
        None,
        lambda: TestEvery(passes=2, reader=held_out()),
        lambda: ReduceRate(0.5, monitor="test/cost", patience=1, min_delta=10.0),
    )

    def from_the_start():
        rings = build()
        rings.append(TestFirst())
        return rings

    class TestFirst(RunnerItem):
        """A result before the first test."""

        __test__ = False

        def initialize(self, context, following):
            context.test_metrics["cost"] = 1.0
            super().initialize(context, following)

    assert_resumes(from_the_start, tmp_path, passes=5)


# ---- data


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_array_reader_resumes(shuffle, tmp_path):
    reader = lambda: ArrayReader(FEATURES, LABELS, batch_size=5, shuffle=shuffle, seed=8)  # noqa: E731
    assert_resumes(classifier(reader=reader), tmp_path, passes=3)


def test_a_list_of_batches_resumes(tmp_path):
    batches = [(FEATURES[k : k + 3], LABELS[k : k + 3]) for k in range(0, 12, 3)]
    assert_resumes(classifier(reader=lambda: batches), tmp_path)


def drawing():
    """A reader that draws its order and its noise while it is read."""

    def read():
        order = np.random.permutation(12)
        for rows in order.reshape(4, 3):
            noise = np.float32(random.random())
            yield FEATURES[rows] + noise + np.random.normal(size=4).astype(np.float32), LABELS[rows]

    return read


def test_a_reader_that_draws_resumes(tmp_path):
    assert_resumes(classifier(reader=drawing), tmp_path)


def test_rings_that_draw_resume(tmp_path):
    class Noise(RunnerItem):
        """Noise on a parameter, at each of its calls."""

        def add(self):
            for name, v in self.context.parameters.items():
                session = self.context.session
                noise = np.random.normal(size=v.dims).astype(np.float32) * 0.01
                if name.endswith("b"):
                    session.set(v, session.get(v) + noise)

        def on_batch_begin(self, following):
            self.add()
            return following()

        def on_batch_end(self, following):
            self.add()
            return following()

        def on_pass_end(self, following):
            following()
            self.add()

    assert_resumes(classifier(None, Noise, reader=drawing), tmp_path)
