"""What a step costs besides its program, in processor time on one core: a dynamic training step
over the static one, an observation through a policy, the first step of another width.

    python tests/benchmarks/small_steps.py [blocks]

Sides take turns in short blocks. Ratios are medians over blocks, times are minima: other load on
the machine evicts caches, which slows Python down more than kernels.
"""

import os
import sys
import time
from pathlib import Path

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

import pd_core as pd

BATCH = 128
RNG = np.random.default_rng(0)


def perceptron():
    return pd.nn.Sequential(pd.nn.FC(128, "relu"), pd.nn.FC(64, "relu"), pd.nn.FC(10))


def loss_of(logits, label):
    return pd.reduce_mean(pd.softmax_cross_entropy(logits, label))


def static_step():
    net = perceptron()
    image, label = pd.Variable([None, 784]), pd.Variable([None], dtype="int64")
    loss = loss_of(net(image), label)
    update = pd.MomentumOptimizer(0.01, 0.9).minimize(loss)
    return lambda batch: float(pd.eval([update, loss], {image: batch[0], label: batch[1]})[1])


def dynamic_step(backward):
    net, optimizer = perceptron(), pd.MomentumOptimizer(0.01, 0.9)

    def step(batch):
        loss = loss_of(net(batch[0]), batch[1])
        if backward:
            loss.backward()
        optimizer.minimize(loss)
        if backward:
            net.clear_gradients()
        return float(loss)

    return step


class Policy(pd.nn.Layer):
    """4-128-2."""

    def __init__(self):
        super().__init__()
        self.hidden, self.action = pd.nn.FC(128), pd.nn.FC(2)

    def forward(self, x):
        return pd.softmax(self.action(pd.relu(self.hidden(x))))


def static_policy():
    x = pd.Variable([None, 4])
    y = Policy()(x)
    return lambda observation: _action(pd.eval(y, {x: observation}))


def dynamic_policy():
    net = Policy()

    def step(observation):
        with pd.no_grad():
            return _action(net(observation).numpy())

    return step


def _action(probabilities):
    """A sample of the first row."""
    return int(RNG.random() >= probabilities[0, 0])


def timed(function, items, count):
    """The processor time of a call in µs."""
    start = time.process_time()
    for k in range(count):
        function(items[k % len(items)])
    return (time.process_time() - start) / count * 1e6


def alternating(sides, blocks):
    """{name: µs of each block} of {name: (function, items, calls in a block)}."""
    for function, items, _ in sides.values():
        timed(function, items, 30)
    times = {name: [] for name in sides}
    for _ in range(blocks):
        for name, side in sides.items():
            times[name].append(timed(*side))
    return {name: np.array(t) for name, t in times.items()}


def steps(blocks):
    """Training steps and observations."""
    batches = [(RNG.random((BATCH, 784), np.float32), RNG.integers(0, 10, BATCH)) for _ in range(8)]
    observations = [RNG.random((1, 4), np.float32) for _ in range(50)]
    static = static_step(), static_policy()
    with pd.guard():
        times = alternating(
            {
                "static step": (static[0], batches, 4),
                "dynamic, minimize()": (dynamic_step(False), batches, 4),
                "dynamic, backward() and minimize()": (dynamic_step(True), batches, 4),
                "static policy": (static[1], observations, 20),
                "dynamic policy": (dynamic_policy(), observations, 20),
            },
            blocks,
        )
    print("| µs of processor time | minimum | median | over static |\n| --- | --- | --- | --- |")
    for name, t in times.items():
        beside = times["static policy" if "policy" in name else "static step"]
        print(f"| {name} | {t.min():.0f} | {np.median(t):.0f} | {np.median(t / beside):.2f} |")
    print()


def first_step(width, optimizer):
    """The processor time in ms from an empty namespace to the end of the first step."""
    batch = RNG.random((32, 64), np.float32), RNG.integers(0, 10, 32)
    start = time.process_time()
    with pd.fresh():
        x, y = pd.Variable([None, 64]), pd.Variable([None], dtype="int64")
        net = pd.nn.Sequential(pd.nn.FC(width, "relu"), pd.nn.FC(width, "relu"), pd.nn.FC(10))
        loss = loss_of(net(x), y)
        pd.eval([optimizer.minimize(loss), loss], {x: batch[0], y: batch[1]})
        return (time.process_time() - start) * 1e3


def widths(count=20):
    """First steps of models of other widths."""
    print("| first step of 64-n-n-10, ms | first n | minimum of the others | median |")
    print("| --- | --- | --- | --- |")
    for make in (pd.SGDOptimizer, pd.AdamOptimizer):
        first, *others = [first_step(n, make(0.001)) for n in range(32, 33 + count)]
        row = f"{first:.1f} | {min(others):.1f} | {np.median(others):.1f}"
        print(f"| {make.__name__.removesuffix('Optimizer')} | {row} |")


if __name__ == "__main__":
    print(f"Load average {os.getloadavg()[0]:.1f}.\n")
    steps(int(sys.argv[1]) if sys.argv[1:] else 150)
    widths()
