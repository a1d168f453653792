"""Soak: a million steps, and thousands of sessions, programs, readers and checkpoints.

Each subject has a process of its own. After a warm-up its memory, open files, threads and Python
objects are counted, and again at the end: what grew beyond GROWTH is a defect.
"""

import gc
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_core.storage.folders import remove_folder
from pd_core.training.checkpoint import Checkpoint, checkpoint_name, write_checkpoint
from pd_v2 import build

from .plan import Plan, Row
from .search import searched


@dataclass
class State:
    """What a process has: MB of memory, open files, threads, thousands of Python objects."""

    memory: float
    files: int
    threads: int
    objects: float

    @classmethod
    def settled(cls, threads: int) -> "State":
        """Return what this process has once garbage is collected and all but `threads` ended."""
        gc.collect()
        deadline = time.monotonic() + SETTLING
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.01)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        files = len(os.listdir("/proc/self/fd"))
        # not of Python alone: each program has those of its session in ONNX Runtime
        running = len(os.listdir("/proc/self/task"))
        return cls(megabytes, files, running, len(gc.get_objects()) / 1000)


# Seconds that the threads of a dropped reader have to notice it; one that stays is counted.
SETTLING = 5.0
GROWTH = State(memory=30, files=4, threads=2, objects=10)


def grown(before: State, after: State) -> list[str]:
    """Return what grew by more than GROWTH."""
    grown = {name: vars(after)[name] - vars(before)[name] for name in vars(GROWTH)}
    return [f"{name} by {grown[name]:.1f}" for name in grown if grown[name] > vars(GROWTH)[name]]


def run(plan: Plan) -> list[Row]:
    """Soak every subject; a row for each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once, in a process without threads
    workers = min(2, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, context, max_tasks_per_child=1) as pool:
        return list(pool.map(soaked, SUBJECTS, [plan] * len(SUBJECTS)))


def soaked(name: str, plan: Plan) -> Row:
    """Soak one subject in this process; return its row."""
    function, quick, full = SUBJECTS[name]
    count, row = plan.count(quick, full), Row("soak", name)
    rng, start = plan.rng("soak", name), time.monotonic()
    threads, before, done = threading.active_count(), None, 0
    try:
        for done in function(rng, count):
            if before is None and done >= count // 5:
                before = State.settled(threads)
    except Exception as error:
        row.add("failed", f"after {done} of seed {plan.seed}: {type(error).__name__}: {error}")
        return row
    after = State.settled(threads)
    row.outcomes["right"] = done
    failed = grown(before, after)
    if failed:
        row.add("failed", f"after {done} of seed {plan.seed}: {', '.join(failed)}")
    row.figures = (
        f"{before.memory:.0f} to {after.memory:.0f} MB, {after.files} files, "
        f"{after.threads} threads, {after.objects - before.objects:+.1f} thousand objects, "
        f"{time.monotonic() - start:.0f} s"
    )
    return row


# ---- steps


class Line:
    """Linear regression by SGD in NumPy, in float32 as it is in the graph."""

    def __init__(self, rng):
        self.w = np.zeros((3, 1), np.float32)
        self.x = rng.normal(size=(4, 8, 3)).astype(np.float32)
        self.y = self.x @ np.float32([[1], [-2], [0.5]])

    def step(self, k):
        """Descend by one step on batch k."""
        x, y = self.x[k % 4], self.y[k % 4]
        self.w = self.w - np.float32(0.01) * (x.T @ (np.float32(2 / 8) * (x @ self.w - y)))

    def check(self, w):
        """Compare with the weights of the graph."""
        np.testing.assert_allclose(w, self.w, rtol=1e-4, atol=1e-5)


def _regression():
    x, y = pd.Variable("x", shape=[8, 3]), pd.Variable("y", shape=[8, 1])
    w = pd.Variable("w", data=np.zeros((3, 1), np.float32), trainable=True)
    cost = pd.reduce_mean(pd.square(x @ w - y))
    return x, y, w, cost, pd.SGDOptimizer(0.01).minimize(cost)


def _steps(rng, count) -> Iterator[int]:
    line = Line(rng)
    _, _, w, cost, step = _regression()
    for k in range(count):
        value, _ = pd.eval([cost, step], {"x": line.x[k % 4], "y": line.y[k % 4]})
        line.step(k)
        if k % 1000 == 999:
            assert np.isfinite(value)
            line.check(pd.eval(w))
            yield k + 1


def _chunks(rng, count) -> Iterator[int]:
    line, size = Line(rng), 100
    _, _, w, cost, step = _regression()
    order = np.arange(size) % 4
    feeds = {"x": line.x[order], "y": line.y[order]}
    for done in range(size, count + 1, size):
        values, _ = pd.run_steps([cost, step], feeds)
        for k in range(size):
            line.step(k)
        assert np.isfinite(values).all()
        line.check(pd.eval(w))
        yield done


def _dynamic(rng, count) -> Iterator[int]:
    line = Line(rng)
    with pd.guard():
        w = pd.Variable("w", data=np.zeros((3, 1), np.float32), trainable=True)
        optimizer = pd.SGDOptimizer(0.01)
        for k in range(count):
            x, y = pd.to_variable(line.x[k % 4]), pd.to_variable(line.y[k % 4])
            optimizer.minimize(pd.reduce_mean(pd.square(x @ w - y)), [w])
            line.step(k)
            if k % 500 == 499:
                line.check(w.numpy())
                yield k + 1


def _trainer(rng, count) -> Iterator[int]:
    """Batches of paddle.trainer, in passes of a thousand."""
    samples = [(x, [float(x.sum())]) for x in rng.normal(size=(8, 3))]
    with build.fresh():
        x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(3))
        y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
        prediction = paddle.layer.fc(x, size=1, act=paddle.activation.Linear())
        cost = paddle.layer.square_error_cost(input=prediction, label=y)
        parameters = paddle.parameters.create(cost)
        optimizer = paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.5)
        trainer = paddle.trainer.SGD(cost, parameters, optimizer)
        for done in range(1000, count + 1, 1000):
            _train(trainer, lambda: iter([samples] * 1000), 1000)
            yield done


def _ragged(rng, count) -> Iterator[int]:
    """Batches of sequences of random lengths, some of them empty."""
    with build.fresh():
        words = paddle.layer.data("words", paddle.data_type.integer_value_sequence(50))
        label = paddle.layer.data("label", paddle.data_type.integer_value(2))
        rows = paddle.layer.embedding(words, size=4)
        state = paddle.layer.last_seq(paddle.networks.simple_lstm(rows, size=4))
        scores = paddle.layer.fc(state, size=2, act=paddle.activation.Softmax())
        cost = paddle.layer.classification_cost(input=scores, label=label)
        parameters = paddle.parameters.create(cost)
        trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(1e-3))

        def reader():
            for _ in range(100):
                yield [
                    (rng.integers(50, size=rng.integers(0, 60)).tolist(), int(rng.integers(2)))
                    for _ in range(rng.integers(1, 20))
                ]

        for done in range(100, count + 1, 100):
            _train(trainer, reader, 100)
            yield done


def _train(trainer, reader, batches):
    """Train for a pass, and check that every batch had a cost."""
    costs = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    trainer.train(reader, num_passes=1, event_handler=handler)
    assert len(costs) == batches and np.isfinite(costs).all()


# ---- things made and dropped


def _sessions(rng, count) -> Iterator[int]:
    x = pd.Variable("x", shape=[None, 4])
    y = pd.layer.fc(x, 3)
    feeds = {"x": np.ones((2, 4), np.float32)}
    for k in range(count):
        session = pd.Session(seed=k)
        assert session.eval(y, feeds).shape == (2, 3)
        yield k + 1


def _programs(rng, count) -> Iterator[int]:
    """Networks of random shapes: each compiles a program."""
    for k in range(count):
        with pd.fresh():
            width, depth = int(rng.integers(1, 60)), int(rng.integers(1, 4))
            y = pd.Variable("x", shape=[None, 4])
            for _ in range(depth):
                y = pd.layer.fc(y, width, act=str(rng.choice(["relu", "tanh", "sigmoid"])))
            cost = pd.reduce_mean(pd.square(y))
            pd.eval([cost, pd.SGDOptimizer(0.1).minimize(cost)], {"x": np.ones((2, 4), np.float32)})
        yield k + 1


def _readers(rng, count) -> Iterator[int]:
    """Readers with threads, left half-read."""

    def numbers():
        yield from range(100)

    for k in range(count):
        reader = paddle.reader.buffered(numbers, 5)
        if k % 3 == 0:
            reader = paddle.reader.xmap_readers(lambda n: n + 1, reader, 2, 4)
        found = iter(reader())
        for _ in range(int(rng.integers(0, 5))):
            next(found)
        del found
        yield k + 1


def _checkpoints(rng, count) -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="pd-soak-") as home:
        folder, state = Path(home), {"w": rng.normal(size=1000), "epoch": 1}
        for k in range(count):
            write_checkpoint(folder / checkpoint_name(k), Checkpoint({"item": state}, k, 0))
            if k > 1:
                remove_folder(folder / checkpoint_name(k - 2))
            assert len(list(folder.iterdir())) <= 2
            yield k + 1


Subject = tuple[Callable[[np.random.Generator, int], Iterator[int]], int, int]
# {subject: (function that yields how many are done, how many quick, how many in the long form)}
SUBJECTS: dict[str, Subject] = {
    "steps of the core": (_steps, 2_000, 500_000),
    "steps in chunks": (_chunks, 2_000, 200_000),
    "dynamic steps": (_dynamic, 1_000, 50_000),
    "batches of paddle.trainer": (_trainer, 2_000, 250_000),
    "ragged batches": (_ragged, 300, 10_000),
    "sessions": (_sessions, 50, 1_000),
    "programs": (_programs, 85, 1_000),  # a fifth, the 16 that stay with their threads, and more
    "a search over networks": (searched, 24, 300),
    "readers, left half-read": (_readers, 100, 5_000),
    "checkpoints": (_checkpoints, 50, 3_000),
}
