"""Trainings that several ranks run: `python -m pd_v2 --own-files programs.py FOLDER`.

Those in LOCAL know nothing of other ranks; those in CLUSTER are trainers with data of their own.
Each rank writes what it has seen.
"""

import io
import os
import random
import sys

import numpy as np

import pd_v2 as paddle
from pd_v2 import build

L, T, A = paddle.layer, paddle.data_type, paddle.activation
SAMPLES, BATCH = 29, 7  # the last batch has one sample, less than there are ranks


class Seen:
    """An event handler that keeps costs, metrics and what else a program asks for, as arrays."""

    def __init__(self, trainer, pool):
        self.trainer, self.pool, self.arrays = trainer, pool, {}

    def __call__(self, event):
        if isinstance(event, paddle.event.EndForwardBackward):
            self.before_update(event)
        elif isinstance(event, paddle.event.EndIteration):
            self.add("cost", event.cost, *event.metrics.values())
        elif isinstance(event, paddle.event.EndPass):
            self.add("pass", *event.metrics.values())
            self.after_pass(event)

    def before_update(self, event):
        """Look at the gradients of a batch."""

    def after_pass(self, event):
        """Look at the parameters."""

    def add(self, name, *numbers):
        """Append a row of numbers."""
        self.arrays.setdefault(name, []).append(np.array(numbers, np.float64))

    def end(self):
        """Return all arrays, with the parameters and their averages."""
        found = {name: np.array(rows) for name, rows in self.arrays.items()}
        found.update({name: self.pool.get(name) for name in self.pool.names()})
        tar = io.BytesIO()
        self.trainer.save_parameter_to_tar(tar)
        tar.seek(0)
        averages = paddle.parameters.Parameters.from_tar(tar)
        return found | {f"average {name}": averages.get(name) for name in averages.names()}


def rows(count=SAMPLES, seed=5):
    def reader():
        rng = np.random.RandomState(seed)
        for _ in range(count):
            x = rng.normal(size=6)
            yield x, int(x[0] > x[1])

    return reader


def classifier(**attributes):
    x = L.data("x", T.dense_vector(6))
    label = L.data("label", T.integer_value(2))
    hidden = L.fc(x, 5, act=A.Tanh(), name="hidden", **attributes)
    output = L.fc(hidden, 2, act=A.Softmax(), name="output")
    cost = L.classification_cost(output, label)
    paddle.evaluator.auc(output, label)
    return cost, output, label


def trained(cost, optimizer, reader, seen=Seen, passes=2, **options):
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    handler = seen(trainer, pool)
    trainer.train(reader, passes, handler)
    return handler.end()


class LooksAtAll(Seen):
    """Asks for gradients, layers and tests."""

    def before_update(self, event):
        self.arrays.setdefault("gradient", []).append(self.pool.get_grad("_hidden.w0"))
        outputs = event.gm.getLayerOutputs(["output", "hidden"])
        self.add("outputs", *(outputs[name]["value"].sum() for name in outputs))
        self.add("shape", *outputs["output"]["value"].shape)

    def after_pass(self, event):
        test = self.trainer.test(paddle.batch(rows(11, seed=8), 3))
        self.add("test", test.cost, *test.metrics.values())
        self.add("tested", *event.gm.getLayerOutputs("output")["output"]["value"].shape)


def momentum():
    """Shuffled, with a schedule, clipping, a penalty, and a handler that looks at everything."""
    optimizer = paddle.optimizer.Momentum(
        momentum=0.9,
        learning_rate=0.05,
        learning_rate_schedule="discexp",
        learning_rate_decay_a=0.5,
        learning_rate_decay_b=20.0,
        regularization=paddle.optimizer.L2Regularization(rate=0.01),
        gradient_clipping_threshold=0.5,
    )
    reader = paddle.batch(paddle.reader.shuffle(rows(), 20), BATCH)
    return trained(classifier()[0], optimizer, reader, LooksAtAll)


def pruned():
    """A pruning mask, from weights that each rank sets otherwise, a second cost, averages."""
    hook = paddle.attr.Hook("pruning", 0.5)
    cost, output, _ = classifier(param_attr=paddle.attr.Param(update_hooks=hook))
    pool = paddle.parameters.create(cost)
    rank = int(os.environ.get("PADDLE_INIT_TRAINER_ID", "0"))
    pool.set("_hidden.w0", np.random.RandomState(rank).normal(size=(6, 5)).astype(np.float32))
    average = paddle.optimizer.ModelAverage(0.5, 4)
    trainer = paddle.trainer.SGD(
        cost,
        pool,
        paddle.optimizer.Adam(learning_rate=0.02, model_average=average),
        extra_layers=L.sum_cost(output),
    )
    seen = Seen(trainer, pool)
    trainer.train(paddle.batch(rows(), BATCH), 2, seen)
    return seen.end()


def words(count=SAMPLES, seed=3):
    def reader():
        rng = np.random.RandomState(seed)
        for _ in range(count):
            yield list(map(int, rng.randint(0, 30, rng.randint(1, 6)))), int(rng.randint(2))

    return reader


def sentences(**options):
    x = L.data("words", T.integer_value_sequence(30))
    attribute = paddle.attr.Param(name="table", sparse_update=True, l2_rate=0.02)
    embedded = L.embedding(x, 4, param_attr=attribute)
    output = L.fc(L.pooling(embedded, paddle.pooling.Sum()), 2, act=A.Softmax())
    return L.classification_cost(output, L.data("label", T.integer_value(2)))


def table():
    """Sequences, and rows of a table that are penalised when they are read again."""
    optimizer = paddle.optimizer.Momentum(learning_rate=0.05)
    return trained(sentences(), optimizer, paddle.batch(words(), BATCH))


def threaded():
    """Readers in threads, in whatever order these finish."""
    reader = paddle.reader.xmap_readers(lambda sample: sample, rows(), 4, 8, order=False)
    return trained(classifier()[0], paddle.optimizer.AdaGrad(), paddle.batch(reader, BATCH))


def normalized():
    """Batch normalization of the data: the mean of the ranks' means is that of the batch."""
    x = L.data("x", T.dense_vector(6))
    output = L.fc(L.batch_norm(x, name="norm"), 2, act=A.Softmax())
    cost = L.classification_cost(output, L.data("label", T.integer_value(2)))
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    return {"mean": trained(cost, optimizer, paddle.batch(rows(), BATCH))["_norm.w1"]}


def images():
    """Images of another size in each batch, of which the last has fewer samples than ranks."""
    x = L.data("x", T.dense_vector(16))
    c = L.img_conv(x, filter_size=3, num_filters=2, num_channels=1, act=A.Tanh(), name="filters")
    output = L.fc(L.bilinear_interp(c, 2, 2), 2, act=A.Softmax())
    cost = L.classification_cost(output, L.data("label", T.integer_value(2)))

    def reader():
        rng = np.random.RandomState(7)
        for samples, size in ((5, (4, 4)), (5, (3, 6)), (1, (3, 6))):
            yield [(rng.normal(size=size), k % 2) for k in range(samples)]

    return trained(cost, paddle.optimizer.Momentum(momentum=0.9, learning_rate=0.05), reader)


def runner():
    """A Runner with its own metrics, and a test of the same."""
    cost, output, label = classifier()
    tests, seen = [], []
    items = [
        paddle.runner.Counter(),
        paddle.runner.TestEvery(
            2, paddle.batch(rows(9, seed=8), 4), lambda _, result: tests.append(result)
        ),
        paddle.runner.Data(paddle.batch(rows(), BATCH)),
        KeepCosts(seen),
        paddle.runner.ForwardBackward(cost),
        paddle.runner.Evaluate(output, label, "accuracy"),
        paddle.runner.Update(paddle.optimizer.Adam(learning_rate=0.02)),
    ]
    with paddle.runner.runner_of(items) as training:
        training.run(2)
    results = [[test.cost, *test.metrics.values()] for test in tests]
    return {"tests": np.array(results), "seen": np.array(seen)}


def classes(**options):
    """Costs of some of 12 classes: a tree of sigmoids, and noise that is drawn."""
    x = L.data("x", T.dense_vector(6))
    label = L.data("label", T.integer_value(12))
    hidden = L.fc(x, 5, act=A.Tanh(), name="hidden")
    tree = L.hsigmoid(hidden, label, name="tree")
    return tree, L.nce(hidden, label, name="noise", num_neg_samples=4, **options)


def sampled():
    """The noise of `nce` is nearly always one class, so that all draws are the same."""
    likely = [1e-6] * 12
    likely[7] = 1.0 - 11e-6
    optimizer = paddle.optimizer.Momentum(momentum=0.5, learning_rate=0.05)
    return trained(classes(neg_distribution=likely), optimizer, paddle.batch(rows(), BATCH))


def noise():
    """Classes drawn for each sample, by each rank for its own."""
    optimizer = paddle.optimizer.Adam(learning_rate=0.02)
    return trained(classes(), optimizer, paddle.batch(rows(), BATCH))


class KeepCosts(paddle.runner.RunnerItem):
    """Appends cost and metrics of each batch to a list."""

    def __init__(self, seen):
        self.seen = seen

    def on_batch_end(self, following):
        context = self.context
        self.seen.append([context.cost, *context.metrics.values()])
        return following()


def shards(ranks):
    """The samples of each trainer; the last one has the most."""
    return [list(rows(8 + 9 * rank, seed=rank)()) for rank in range(ranks)]


def synchronous(ranks=None):
    """Trainers with shards of different sizes; with `ranks` one process that has all of them."""
    optimizer = paddle.optimizer.Momentum(
        momentum=0.5,
        learning_rate=0.05,
        learning_rate_schedule="discexp",
        learning_rate_decay_a=0.5,
        learning_rate_decay_b=10.0,
        gradient_clipping_threshold=0.3,
    )
    place = [os.environ.get(f"PADDLE_INIT_{n}") for n in ("TRAINER_ID", "NUM_GRADIENT_SERVERS")]
    if ranks is None:
        own, batch = shards(int(place[1]))[int(place[0])], 4
        reader, options = paddle.batch(lambda: iter(own), batch), {"is_local": False}
    else:
        steps = [[s[k : k + 4] for s in shards(ranks)] for k in range(0, 8 + 9 * ranks, 4)]
        joined = [[sample for part in parts for sample in part] for parts in steps]
        reader, options = lambda: iter([b for b in joined if b]), {}
    cost = classifier()[0]
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    seen = Seen(trainer, pool)
    trainer.train(reader, 2, seen)
    if ranks is None:  # of this trainer alone
        seen.add("own test", trainer.test(reader).cost)
    return seen.end()


LOCAL = momentum, pruned, table, threaded, normalized, images, runner, sampled
DRAWN = (noise,)  # as dropout masks: each rank has random numbers of its own
CLUSTER = (synchronous,)


def run(program, *args):
    """Return what a program has seen, from the start of a process."""
    with build.fresh():
        np.random.seed(1)
        random.seed(1)
        return program(*args)


def check(own, whole):
    """Check that a rank has seen what one process sees."""
    assert own.keys() == whole.keys()
    for key, value in whole.items():
        np.testing.assert_allclose(own[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


def main(folder):
    """Run all programs, the first one twice."""
    rank = os.environ["PADDLE_INIT_TRAINER_ID"]
    for program in (*LOCAL, *DRAWN, *CLUSTER):
        np.savez(f"{folder}/{program.__name__}-{rank}.npz", **run(program))
    np.savez(f"{folder}/again-{rank}.npz", **run(momentum))


if __name__ == "__main__":
    main(sys.argv[1])
