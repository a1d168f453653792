"""A training with local steps: `pd-v2 --local-steps 2 --own-files local_steps.py FOLDER`.

Each rank writes its weights after every batch and pass, and the costs of tests.
"""

import os
import sys

import numpy as np

import pd_core as pd
import pd_v2 as paddle

PASSES, BATCHES, BATCH, EVERY, RATE = 2, 5, 4, 2, 0.02
TESTED = 2  # the batch after which a test is made, in the middle of a round
RNG = np.random.default_rng(4)
FEATURES = RNG.standard_normal((BATCHES * BATCH, 3)).astype(np.float32)
TARGETS = RNG.standard_normal((BATCHES * BATCH, 1)).astype(np.float32)
NAME = "weights"


def samples():
    return zip(FEATURES, TARGETS, strict=True)


def cost_of():
    x = paddle.layer.data("x", paddle.data_type.dense_vector(3))
    start = paddle.attr.Param(name=NAME, initial_mean=0.0, initial_std=0.0)
    linear = paddle.activation.Linear()
    y = paddle.layer.fc(x, 1, act=linear, bias_attr=False, param_attr=start)
    label = paddle.layer.data("y", paddle.data_type.dense_vector(1))
    return paddle.layer.square_error_cost(y, label)


def trained():
    """The weights after each batch, at the end of each pass, and the costs of tests."""
    cost = cost_of()
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=RATE))
    seen, ends, tests = [], [], []
    reader = paddle.batch(samples, BATCH)

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            seen.append(pool.get(NAME))
            if event.batch_id == TESTED:
                tests.append(trainer.test(reader).cost)
        elif isinstance(event, paddle.event.EndPass):
            ends.append(pool.get(NAME))

    trainer.train(reader, PASSES, handler)
    return {"seen": np.array(seen), "ends": np.array(ends), "tests": np.array(tests)}


def table_error():
    """Return the error text of local steps with a table whose rows are spread over the ranks."""
    words = paddle.layer.data("words", paddle.data_type.integer_value(8))
    spread = paddle.attr.Param(name="table", sparse_update=True)
    cost = paddle.layer.sum_cost(paddle.layer.embedding(words, 2, param_attr=spread))
    try:
        paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Momentum())
    except pd.GraphError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    found = trained() | {"error": np.array(table_error())}
    np.savez(f"{sys.argv[1]}/{os.environ['PADDLE_INIT_TRAINER_ID']}.npz", **found)
