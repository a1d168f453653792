"""Trainings by Runners and `Module.fit` that several ranks run.

`python -m tests.core.distributed.runner_programs FOLDER WAYS...`. Each rank writes what it ends
with. One process trains on the batches of these numbers of ways together.
"""

import random
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed, training

f32 = np.float32
rank, size, ways, folder = 0, 1, 1, Path()

ROWS, BATCH = 42, 10  # the last batch has fewer rows than three ranks
rng = np.random.default_rng(5)
FEATURES = rng.standard_normal((ROWS, 5)).astype(f32)
LABELS = (FEATURES[:, 0] > 0).astype(np.int64)


class Records(training.RunnerItem):
    """What each batch and the last pass said."""

    def __init__(self):
        self.batches = []

    def on_batch_end(self, following):
        context = self.context
        self.batches.append([context.cost, context.batch_size, *context.metrics.values()])
        return following()

    def on_pass_end(self, following):
        following()
        self.context.after(self._note)

    def _note(self):
        context = self.context
        self.end = {f"pass/{k}": v for k, v in context.pass_metrics.items()}
        self.end |= {f"test/{k}": v for k, v in context.test_metrics.items()}
        self.end["rate"], self.end["samples"] = context.rate_factor or 1.0, context.samples


def network():
    x, y = pd.Variable([None, 5]), pd.Variable([None], dtype="int64")
    scores = pd.fc(pd.fc(x, 6, act="tanh"), 2)
    return x, y, scores, pd.reduce_mean(pd.softmax_cross_entropy(scores, y))


def ran(*items, passes=3):
    records, session = Records(), pd.default_session()
    with training.runner_of([training.Device(), training.Counter(), *items, records]) as runner:
        runner.run(passes)
    values = {v.name: array for v, array in session.values().items()}
    return {**values, **records.end, "batches": np.array(records.batches)}


def split_runner():
    """Batches that all ranks read, with all that writes, tests and decides."""
    x, y, scores, cost = network()
    bar = open(folder / f"bar-{rank}", "w")  # noqa: SIM115
    test = training.ArrayReader(FEATURES[:13], LABELS[:13], batch_size=6)
    reader = training.ArrayReader(FEATURES, LABELS, batch_size=BATCH, shuffle=True)
    return ran(
        training.Data(reader, inputs=[x, y], split=True),
        training.Log(folder / "log", every=1, histograms_every=2),
        training.Progress(file=bar, disable=False),
        training.ForwardBackward(cost),
        training.Update(pd.AdamOptimizer(0.05, regularizer=pd.L2(0.01), clip=pd.ClipGlobalNorm(1))),
        training.Evaluate(pd.softmax(scores), y, ["accuracy", "auc"]),
        training.TestEvery(passes=1, reader=test),
        training.ReduceRate(0.5, monitor="cost", min_delta=10.0),
        training.StopEarly(monitor="test/cost", min_delta=10.0, patience=2),
        passes=9,
    )


def parts():
    """The batches of each way in a pass: of different numbers and sizes."""
    sizes = [[4, 4, 3], [2, 5], [], [6]][:ways]
    ends = np.cumsum([0, *[sum(each) for each in sizes]])
    batches = []
    for first, each in zip(ends, sizes, strict=False):
        places = np.cumsum([first, *each])
        batches.append([slice(a, b) for a, b in pairwise(places)])
    return batches


def own_reader():
    """The batches of this rank; one process has those of all ways, one after the other."""
    each = parts()
    if size > 1:
        for rows in each[rank]:
            yield FEATURES[rows], LABELS[rows]
        return
    for number in range(max(map(len, each))):
        rows = np.concatenate([np.arange(ROWS)[p[number]] for p in each if number < len(p)])
        yield FEATURES[rows], LABELS[rows]


def own_runner():
    x, y, scores, cost = network()
    return ran(
        training.Data(own_reader, inputs=[x, y]),
        training.ForwardBackward(cost),
        training.Update(pd.MomentumOptimizer(0.1)),
        training.Evaluate(pd.softmax(scores), y, ["accuracy"]),
        training.TestEvery(passes=1, reader=own_reader),
    )


def two_players():
    """Two costs that take turns."""
    x, y, _, cost = network()
    with pd.namespace("second"):
        other = pd.reduce_mean(pd.square(pd.fc(x, 1)))
    reader = training.ArrayReader(FEATURES, LABELS, batch_size=BATCH)
    first = [w for w in pd.trainable_variables() if not w.name.startswith("second")]
    return ran(
        training.Data(reader, inputs=[x, y], split=True),
        training.ForwardBackward(cost),
        training.Update(pd.AdamOptimizer(0.05), var_list=first),
        training.ForwardBackward(other),
        training.Update(pd.SGDOptimizer(0.05)),
    )


class Net(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = pd.nn.FC(6, act="tanh"), pd.nn.FC(2)
        self.optimizer = pd.AdamOptimizer(0.05)

    def forward(self, x):
        return self.last(self.first(x))


class SteppingNet(Net):
    def train_one_batch(self, x, y):
        scores = self.forward(x)
        cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
        self.optimizer.backward_and_update(cost)
        return scores, cost


def functions():
    """A function as the step: of split batches, then of own ones."""
    net = Net()

    def cost(x, y, trains=True):
        with pd.guard():
            value = pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))
            if trains:
                net.optimizer.minimize(value)
            return {"cost": float(value), "twice": 2.0 * float(value)}

    step = training.TrainStep(cost, test=lambda x, y: cost(x, y, trains=False))
    reader = training.ArrayReader(FEATURES, LABELS, batch_size=BATCH)
    test = training.TestEvery(passes=1, reader=reader)
    split = {f"split/{k}": v for k, v in ran(training.Data(reader, split=True), step, test).items()}
    if ways > 2:  # then one has no batch at all, which a function cannot do without
        return split
    test = training.TestEvery(passes=1, reader=own_reader)
    return {**split, **ran(training.Data(own_reader), step, test)}


LOSS = pd.nn.SoftmaxCrossEntropy


def fitted(net, **options):
    history = net.fit(
        FEATURES,
        LABELS,
        validation_split=0.3,
        metrics=["accuracy"],
        batch_size=9,
        epochs=3,
        **options,
    )
    values = {v.name: array for v, array in pd.default_session().values().items()}
    return {**values, **{f"history/{k}": np.array(v) for k, v in history.items()}}


def fit():
    net = Net()
    weights = {"class_weight": {0: 2.0}, "sample_weight": np.linspace(0, 1, ROWS)}
    return fitted(net, optimizer=net.optimizer, loss=LOSS(), **weights)


def fit_step():
    return fitted(SteppingNet(), loss=LOSS())


def shuffled():
    """Batches in the order of Python's global generator, other on each rank at first."""
    order = list(range(ROWS))
    random.shuffle(order)
    for first in range(0, ROWS, BATCH):
        yield FEATURES[order[first : first + BATCH]], LABELS[order[first : first + BATCH]]


def fit_reader():
    random.seed(rank)
    net = Net()
    history = net.fit(shuffled, optimizer=net.optimizer, loss=LOSS(), epochs=2)
    return {"cost": np.array(history.cost), "W": net.parameters()[0].val()}


def results():
    """Evaluation and prediction, of all ranks and of one alone."""
    net = Net()
    net.compile([(None, 5)], is_train=False)
    options = {"loss": LOSS(), "metrics": ["accuracy"], "batch_size": BATCH}
    every, predicted = net.evaluate(FEATURES, LABELS, **options), net.predict(FEATURES)
    if rank == 0:
        alone = net.evaluate(FEATURES, LABELS, split=False, **options)
        np.testing.assert_allclose([*alone.values()], [*every.values()], rtol=1e-6)
        own = net.predict(FEATURES[:1], split=False)
        np.testing.assert_allclose(own, predicted[:1], rtol=1e-5)
    return {**{key: np.array(value) for key, value in every.items()}, "predicted": predicted}


OWN = [own_runner, functions]  # which depend on the number of ways
PROGRAMS = [*OWN, split_runner, two_players, fit, fit_step, fit_reader, results]


def main(path, *numbers):
    global rank, size, ways, folder
    distributed.init()
    rank, size = distributed.rank(), distributed.world_size()
    folder = Path(path)
    for first, ways in enumerate([size] if size > 1 else map(int, numbers)):
        for program in OWN if first else PROGRAMS:
            pd.reset(seed=3)
            name = f"{program.__name__}-{ways}" if program in OWN else program.__name__
            np.savez(folder / f"{name}-{rank}.npz", **program())


if __name__ == "__main__":
    main(*sys.argv[1:])
