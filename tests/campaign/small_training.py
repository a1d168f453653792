"""A small training of each kind with everything that it writes, for `places`.

python tests/campaign/small_training.py FOLDER
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_core.training import (
    ArrayReader,
    Counter,
    Data,
    Device,
    ForwardBackward,
    Runner,
    SaveEvery,
    Update,
)

BATCHES, WIDTH = 6, 2000


def train_core(folder: Path) -> None:
    """Train with a Runner that saves; then save the parameters, and export."""
    rng = np.random.default_rng(0)
    features, targets = rng.random((8 * BATCHES, 4), np.float32), np.ones((8 * BATCHES, 1))
    x, y = pd.Variable("x", shape=[None, 4]), pd.Variable("y", shape=[None, 1])
    prediction = pd.layer.fc(pd.layer.fc(x, WIDTH, act="tanh"), 1)
    cost = pd.reduce_mean(pd.square(prediction - y))
    runner = Runner()
    for item in (
        Device(),
        Counter(),
        Data(ArrayReader(features, targets.astype(np.float32), batch_size=8), inputs=[x, y]),
        ForwardBackward(cost),
        Update(pd.AdamOptimizer(0.01)),
        SaveEvery(batches=2, path=folder / "saved"),
    ):
        runner.add_item(item)
    with runner:
        runner.run(1)
    pd.save(folder / "p.safetensors", prediction)
    pd.export_onnx(folder / "m.onnx", [prediction])


def train_2017(folder: Path) -> None:
    """Train with paddle.trainer, and write a tar after each pass."""
    paddle.init(use_gpu=False, trainer_count=1)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(4))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    prediction = paddle.layer.fc(paddle.layer.fc(x, size=WIDTH), size=1)
    cost = paddle.layer.square_error_cost(input=prediction, label=y)
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=1e-4)
    trainer = paddle.trainer.SGD(cost, parameters, optimizer)

    def reader():
        rng = np.random.default_rng(0)
        for _ in range(32):
            yield rng.random(4), [1.0]

    def handler(event):
        if isinstance(event, paddle.event.EndPass):
            with pd.atomic_write(folder / "p.tar") as file:
                parameters.to_tar(file)

    trainer.train(paddle.batch(reader, 8), num_passes=2, event_handler=handler)


if __name__ == "__main__":
    warnings.simplefilter("always")
    folder = Path(sys.argv[1])
    print("begins in", folder, flush=True)
    for train in (train_core, train_2017):
        train(folder)
    print("done", flush=True)
