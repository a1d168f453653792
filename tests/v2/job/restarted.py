"""Trainings that are killed and started again: `pd-v2 ... -m tests.v2.job.restarted NAME FILE`.

Each writes its parameters, with their averages where there are any, to FILE. The last of PROGRAMS
is one of the core, for any launcher.
"""

import os
import random
import sys
from pathlib import Path

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from tests.v2.job import programs

L, T, A = paddle.layer, paddle.data_type, paddle.activation
PASSES = int(os.environ.get("PASSES", "3"))
SAMPLES, BATCH = 240, 8


def train(cost, optimizer, reader, path, **options):
    """Train, and write the parameters."""
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    trainer.train(reader, PASSES, lambda event: None)
    if pd.distributed.rank() == 0:
        with open(path, "wb") as file:
            trainer.save_parameter_to_tar(file)


def momentum(path):
    """Shuffled batches, a schedule, clipping and a penalty."""
    optimizer = paddle.optimizer.Momentum(
        momentum=0.9,
        learning_rate=0.05,
        learning_rate_schedule="discexp",
        learning_rate_decay_a=0.9,
        learning_rate_decay_b=200.0,
        regularization=paddle.optimizer.L2Regularization(rate=0.001),
        gradient_clipping_threshold=0.5,
    )
    reader = paddle.reader.shuffle(programs.rows(SAMPLES), 100)
    train(programs.classifier()[0], optimizer, paddle.batch(reader, BATCH), path)


def dropout(path):
    """Random masks, batch normalization, and averages of the parameters."""
    x, label = L.data("x", T.dense_vector(6)), L.data("label", T.integer_value(2))
    hidden = L.batch_norm(L.fc(x, 8, act=A.Linear()), act=A.Relu(), name="norm")
    output = L.fc(L.dropout(hidden, 0.3), 2, act=A.Softmax())
    average = paddle.optimizer.ModelAverage(0.5, 50)
    optimizer = paddle.optimizer.Adam(learning_rate=0.01, model_average=average)
    cost = L.classification_cost(output, label)
    train(cost, optimizer, paddle.batch(programs.rows(SAMPLES), BATCH), path)


def table(path):
    """Sequences, and rows of a table."""
    optimizer = paddle.optimizer.AdaGrad(learning_rate=0.05)
    train(programs.sentences(), optimizer, paddle.batch(programs.words(SAMPLES), BATCH), path)


def cluster(path):
    """Trainers with data of their own, of which one has more."""
    rank = pd.distributed.rank()
    reader = paddle.batch(programs.rows(SAMPLES // 2 + 20 * rank, seed=rank), BATCH // 2)
    optimizer = paddle.optimizer.RMSProp(learning_rate=0.01)
    train(programs.classifier()[0], optimizer, reader, path, is_local=False)


def core(path, folder="saved"):
    """A Runner of the core, with Resume."""
    pd.distributed.init()
    x, y = pd.Variable([None, 5]), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(pd.fc(pd.dropout(pd.fc(x, 6, act="tanh"), 0.2), 1) - y))
    rng = np.random.default_rng(7)
    features = rng.standard_normal((SAMPLES, 5)).astype(np.float32)
    reader = pd.training.ArrayReader(features, features[:, :1], batch_size=BATCH, shuffle=True)
    items = [
        pd.training.Device(),
        pd.training.Resume(folder, begin=True),
        pd.training.SaveEvery(10, folder),
        pd.training.Counter(),
        pd.training.Data(reader, inputs=[x, y], split=True),
        pd.training.ForwardBackward(cost),
        pd.training.Update(pd.AdamOptimizer(0.01)),
    ]
    runner = pd.training.Runner()
    for item in items:
        runner.add_item(item)
    with runner:
        runner.run(PASSES)
    if pd.distributed.rank() == 0:
        values = {v.name: value for v, value in pd.default_session().values().items()}
        kept = {name: values[name] for name in sorted(values)}
        Path(path).write_bytes(b"".join(value.tobytes() for value in kept.values()))


PROGRAMS = {f.__name__: f for f in (momentum, dropout, table, cluster, core)}


if __name__ == "__main__":
    random.seed(1)
    np.random.seed(1)
    PROGRAMS[sys.argv[1]](sys.argv[2])
