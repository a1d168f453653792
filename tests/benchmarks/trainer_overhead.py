"""The overhead of `paddle.trainer.SGD.train` over its compiled step, for the book's perceptron.

784-128-64-10, batch 128, momentum and weight decay, on batches that are lists of tuples in memory.
The step is one evaluation of the core; everything else in train() is overhead: conversion, events,
schedule, metrics. If a batch is converted while the step before it runs and no core is idle, that
step takes longer; so the same step is also timed alone, on arrays that are converted already. The
script binds itself to two cores, where the platform supports it.

With `--processor` it takes one core, and the processor time of the thread that trains: that is
comparable on a machine that does other work as well. `PD_FUSE=1` measures fused programs. With
`--kinds` it does the same for other samples and networks, from generators, with the compiled loops
over columns and without, in turns.
"""

import os
import sys
import time

if hasattr(os, "sched_setaffinity"):
    ONE = {"--processor", "--kinds"} & {*sys.argv}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: 2 - bool(ONE)])

import numpy as np

import pd_v2 as paddle
from pd_core.training import stacking
from pd_v2.training import batches as conversion
from pd_v2.training.batches import converter

PROCESSOR = bool({"--processor", "--kinds"} & {*sys.argv})
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


def lenet():
    """Return the trainer of the book's convolutional network."""
    images = L.data(name="pixel", type=T.dense_vector(784))
    first = paddle.networks.simple_img_conv_pool(
        images, filter_size=5, num_filters=20, num_channel=1, pool_size=2, pool_stride=2
    )
    second = paddle.networks.simple_img_conv_pool(
        first, filter_size=5, num_filters=50, num_channel=20, pool_size=2, pool_stride=2
    )
    return classifier(second)


def classifier(hidden):
    """Return the trainer of 10 classes of the rows of a layer."""
    label = L.data(name="label", type=T.integer_value(10))
    cost = L.classification_cost(L.fc(hidden, size=10, act=A.Softmax()), label=label)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.01 / BATCH, momentum=0.9)
    return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)


WORDS, LENGTH = 5000, 50


def words(kind):
    """Return a function that makes the trainer of a sum over words: sequences, or sparse rows."""

    def make():
        x = L.data(name="words", type=getattr(T, kind)(WORDS))
        if kind != "integer_value_sequence":
            return classifier(L.fc(x, size=64, act=A.Tanh()))
        pooled = L.pooling(L.embedding(x, size=64), pooling_type=paddle.pooling.Sum())
        return classifier(L.fc(pooled, size=64, act=A.Tanh()))

    return make


def steps():
    """Return the trainer of a sum over sequences of vectors."""
    x = L.data(name="steps", type=T.dense_vector_sequence(32))
    return classifier(L.pooling(L.fc(x, size=64, act=A.Tanh()), paddle.pooling.Sum()))


def ids(rng):
    """Return the numbers of LENGTH words, in order, each one once."""
    return np.sort(rng.choice(WORDS, LENGTH, replace=False)).tolist()


def pixels(rng):
    """Return an image."""
    return rng.uniform(-1, 1, 784).astype(np.float32)


KINDS = {
    "dense_vector, arrays": (perceptron, pixels),
    "dense_vector, arrays of float64": (perceptron, lambda rng: rng.uniform(-1, 1, 784)),
    "dense_vector, lists": (perceptron, lambda rng: pixels(rng).tolist()),
    "dense_vector, arrays, LeNet": (lenet, pixels),
    "dense_vector, lists, LeNet": (lenet, lambda rng: pixels(rng).tolist()),
    "dense_vector_sequence, lists": (steps, lambda rng: rng.normal(size=(20, 32)).tolist()),
    "dense_vector_sequence, arrays": (
        steps,
        lambda rng: list(rng.normal(size=(20, 32)).astype(np.float32)),
    ),
    "integer_value_sequence": (words("integer_value_sequence"), ids),
    "sparse_binary_vector": (words("sparse_binary_vector"), ids),
    "sparse_float_vector": (
        words("sparse_float_vector"),
        lambda rng: [(k, float(rng.normal())) for k in ids(rng)],
    ),
}


def of_kind(make, rounds=6, count=BATCHES):
    """Return µs per batch of a network: (step, overhead with loops, overhead without)."""
    make_trainer, sample = make
    rng = np.random.default_rng(0)
    prepared = [[(sample(rng), int(rng.integers(10))) for _ in range(BATCH)] for _ in range(count)]

    def reader():
        yield from prepared

    trainer, found = make_trainer(), {True: [], False: []}
    columns = stacking.Columns(stacking._library())
    clock = Clock(trainer._step.session.eval)
    trainer.train(reader)
    trainer._step.session.eval = clock
    for _ in range(rounds):
        for with_loops, times in found.items():
            conversion.columns_of = lambda session, on=with_loops: columns if on else None
            clock.seconds, start = 0.0, now()
            trainer.train(reader, event_handler=lambda event: None)
            total = now() - start
            times.append((clock.seconds, total - clock.seconds))
    looped, plain = (np.array(times) / count * 1e6 for times in found.values())
    return min(looped[:, 0].min(), plain[:, 0].min()), looped[:, 1].min(), plain[:, 1].min()


def kinds():
    """Print a table of networks fed with samples of each kind."""
    stacking._MANY = 0  # compiled at once
    print("| samples | step, µs | overhead, µs | without loops | overhead / step | without |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, make in KINDS.items():
        with paddle.build.fresh():
            step, looped, plain = of_kind(make)
        shares = f"{looped / step:.0%} | {plain / step:.0%}"
        print(f"| {name} | {step:.0f} | {looped:.0f} | {plain:.0f} | {shares} |", flush=True)


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


def main():
    """Print a table of samples from each source."""
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


if __name__ == "__main__":
    kinds() if "--kinds" in sys.argv else main()
    print(f"\nload average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "")
