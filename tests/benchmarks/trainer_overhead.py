"""What `paddle.trainer.SGD.train` costs beside its compiled step, for the book's perceptron.

784-128-64-10, batch 128, momentum and decay, with batches that are there as lists of tuples. The
step is one evaluation of the core; all else in train() is overhead: conversion, events, schedule,
metrics. Where a batch is converted while the step before it runs, the step itself takes longer if
no core is free; so the same step is also timed alone, on arrays that are there. The script binds
itself to two cores, where the platform can.
"""

import os
import time

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

import numpy as np

import pd_core as pd
import pd_v2 as paddle

BATCH, BATCHES, PASSES = 128, 50, 40
L, A, T = paddle.layer, paddle.activation, paddle.data_type


class Clock:
    """Takes the time of the core's evaluations, in the place of `pd.eval`."""

    def __init__(self):
        self.evaluate, self.inside = pd.eval, 0.0

    def __call__(self, *args, **options):
        start = time.perf_counter()
        try:
            return self.evaluate(*args, **options)
        finally:
            self.inside += time.perf_counter() - start


def perceptron():
    """The trainer of the book's second chapter."""
    x = L.data(name="pixel", type=T.dense_vector(784))
    hidden = L.fc(L.fc(x, size=128, act=A.Relu()), size=64, act=A.Relu())
    label = L.data(name="label", type=T.integer_value(10))
    cost = L.classification_cost(L.fc(hidden, size=10, act=A.Softmax()), label=label)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=0.1 / BATCH,
        momentum=0.9,
        regularization=paddle.optimizer.L2Regularization(rate=0.0005 * BATCH),
    )
    return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)


def batches(kind):
    """Lists of BATCH tuples (784 numbers, label), the numbers as `kind` makes them."""
    rng = np.random.default_rng(0)
    samples = [
        (kind(rng.uniform(-1, 1, 784).astype(np.float32)), int(rng.integers(10)))
        for _ in range(BATCH * BATCHES)
    ]
    return [samples[k : k + BATCH] for k in range(0, len(samples), BATCH)]


def alone(trainer, prepared):
    """A function that makes the steps of one pass on arrays that are there: seconds."""
    convert = trainer._converter(None)
    feeds = [convert(batch) for batch in prepared]
    targets = [trainer._update, *trainer._training_targets]
    for each in feeds:
        each[trainer._updater.rate] = np.array(1e-4, np.float32)

    def run():
        start = time.perf_counter()
        for each in feeds:
            pd.eval(targets, each)
        return time.perf_counter() - start

    return run


def measured(trainer, reader, prepared):
    """µs a batch: the step alone, the step in train(), and all else there. Least disturbed passes.

    Passes of both kinds take turns.
    """
    clock, found, bare = Clock(), [], []
    trainer.train(reader)
    step = alone(trainer, prepared)
    for _ in range(PASSES):
        bare.append(step())
        pd.eval = clock
        try:
            clock.inside, start = 0.0, time.perf_counter()
            trainer.train(reader, event_handler=lambda event: None)
            total = time.perf_counter() - start
        finally:
            pd.eval = clock.evaluate
        found.append((clock.inside, total - clock.inside))
    return np.array([min(bare[1:]), *min(found, key=sum)]) / BATCHES * 1e6


def readers(prepared):
    """The ways in which the batches come, by name."""

    samples = [sample for batch in prepared for sample in batch]

    def generated():
        yield from prepared

    return {
        "a generator": generated,
        "a list": lambda: iter(prepared),
        "buffered": paddle.reader.buffered(generated, 2),
        "a shuffle": paddle.batch(paddle.reader.shuffle(lambda: iter(samples), 4096), BATCH),
    }


if __name__ == "__main__":
    print(
        "| samples | from | step alone, µs | step, µs | beside, µs | beside / step | all / alone |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, kind in (("numpy arrays", np.asarray), ("lists of floats", np.ndarray.tolist)):
        prepared = batches(kind)
        for how, reader in readers(prepared).items():
            with paddle.build.fresh():
                bare, step, beside = measured(perceptron(), reader, prepared)
            share, ratio = beside / step, (step + beside) / bare
            figures = f"{bare:.0f} | {step:.0f} | {beside:.0f} | {share:.0%} | {ratio:.2f}"
            print(f"| {name} | {how} | {figures} |")
    print(f"\nload average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "")
