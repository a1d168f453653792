"""The overhead of `paddle.trainer.SGD.train` over its compiled step, for the book's perceptron.

784-128-64-10, batch 128, momentum and weight decay, on batches that are lists of tuples in memory.
The step is one evaluation of the core; everything else in train() is overhead: conversion, events,
schedule, metrics. If a batch is converted while the step before it runs and no core is idle, that
step takes longer; so the same step is also timed alone, on arrays that are converted already. The
script binds itself to two cores, where the platform supports it.

With `--processor` it takes one core, and the processor time of the thread that trains: that is
comparable on a machine that does other work as well. `PD_FUSE=1` measures fused programs.
"""

import os
import sys
import time

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: 2 - ("--processor" in sys.argv)])

import numpy as np

import pd_v2 as paddle
from pd_v2.training.batches import converter

PROCESSOR = "--processor" in sys.argv
now = time.thread_time if PROCESSOR else time.perf_counter
BATCH, BATCHES, PASSES = 128, 50, 20 if PROCESSOR else 40
L, A, T = paddle.layer, paddle.activation, paddle.data_type


class Clock:
    """A replacement of a session's `eval` that adds up the time of its calls."""

    def __init__(self, evaluate):
        self.evaluate, self.seconds = evaluate, 0.0

    def __call__(self, *args, **options):
        start = now()
        try:
            return self.evaluate(*args, **options)
        finally:
            self.seconds += now() - start


def perceptron():
    """Return the trainer of the book's second chapter."""
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


def batches(convert):
    """Return lists of BATCH tuples (convert(784 numbers), label)."""
    rng = np.random.default_rng(0)
    samples = [
        (convert(rng.uniform(-1, 1, 784).astype(np.float32)), int(rng.integers(10)))
        for _ in range(BATCH * BATCHES)
    ]
    return [samples[k : k + BATCH] for k in range(0, len(samples), BATCH)]


def alone(trainer, prepared):
    """Return a function that runs the steps of one pass on converted batches, and times them."""
    network = trainer._step
    with network.session:
        convert = converter(network.topology)
    feeds = [convert(batch) for batch in prepared]
    targets = [network.update, *network.training_targets]
    for fed in feeds:
        fed[network.updater.rate] = np.array(1e-4, np.float32)

    def run():
        start = now()
        for fed in feeds:
            network.session.eval(targets, fed)
        return now() - start

    return run


def measured(trainer, reader, prepared):
    """Return µs per batch of the fastest passes: (step alone, step in train(), overhead).

    Passes of both kinds alternate.
    """
    session = trainer._step.session
    clock, in_train, step_alone = Clock(session.eval), [], []
    trainer.train(reader)
    step = alone(trainer, prepared)
    for _ in range(PASSES):
        step_alone.append(step())
        session.eval = clock
        try:
            clock.seconds, start = 0.0, now()
            trainer.train(reader, event_handler=lambda event: None)
            total = now() - start
        finally:
            del session.eval
        in_train.append((clock.seconds, total - clock.seconds))
    return np.array([min(step_alone[1:]), *min(in_train, key=sum)]) / BATCHES * 1e6


def readers(prepared):
    """Return readers of the batches from several sources, by name."""
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
        "| samples | from | step alone, µs | step, µs | overhead, µs | overhead / step "
        "| all / alone |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, convert in (("numpy arrays", np.asarray), ("lists of floats", np.ndarray.tolist)):
        prepared = batches(convert)
        for source, reader in readers(prepared).items():
            with paddle.build.fresh():
                alone_us, step, overhead = measured(perceptron(), reader, prepared)
            share, ratio = overhead / step, (step + overhead) / alone_us
            figures = f"{alone_us:.0f} | {step:.0f} | {overhead:.0f} | {share:.0%} | {ratio:.2f}"
            print(f"| {name} | {source} | {figures} |")
    print(f"\nload average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "")
