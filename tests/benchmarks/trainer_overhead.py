"""What `paddle.trainer.SGD.train` costs beside its compiled step, for the book's perceptron.

784-128-64-10, batch 128, momentum and decay, with batches that are there as lists of tuples. The
step is one evaluation of the core; all else in train() is overhead: conversion, events, schedule,
metrics. The script binds itself to two cores, where the platform can.
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


def measured(trainer, reader):
    """µs a batch inside the step and outside of it: of the pass that was least disturbed."""
    clock, found = Clock(), []
    trainer.train(reader)
    pd.eval = clock
    try:
        for _ in range(PASSES):
            clock.inside, start = 0.0, time.perf_counter()
            trainer.train(reader, event_handler=lambda event: None)
            total = time.perf_counter() - start
            found.append((clock.inside, total - clock.inside))
    finally:
        pd.eval = clock.evaluate
    return np.array(min(found, key=sum)) / BATCHES * 1e6


if __name__ == "__main__":
    print("| samples | step, µs | overhead, µs | overhead / step |\n| --- | --- | --- | --- |")
    for name, kind in (("numpy arrays", np.asarray), ("lists of floats", np.ndarray.tolist)):
        prepared = batches(kind)
        plain = lambda prepared=prepared: iter(prepared)  # noqa: E731
        for how, reader in (("", plain), (", buffered", paddle.reader.buffered(plain, 2))):
            with paddle.build.fresh():
                step, beside = measured(perceptron(), reader)
            print(f"| {name}{how} | {step:.0f} | {beside:.0f} | {beside / step:.0%} |")
    print(f"\nload average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "")
