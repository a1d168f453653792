"""The overhead of a Runner with a progress bar over the same steps in a plain loop.

The perceptron 784-128-64-10 with momentum, batch 128, on batches that are feeds in memory. Blocks
of the three alternate; the numbers are µs per batch, of the fastest blocks and of the medians. The
script binds itself to two cores, where the platform supports it.
"""

import io
import os
import time

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

import numpy as np

import pd_core as pd
from pd_core.training import Counter, Data, Device, ForwardBackward, Progress, Update, runner_of

BATCH, BATCHES, BLOCKS = 128, 100, 60


def network():
    """Return (image, label, cost)."""
    x = pd.Variable([None, 784], name="x")
    label = pd.Variable([None, 1], dtype="int64", name="label")
    hidden = pd.fc(pd.fc(x, size=128, act="relu"), size=64, act="relu")
    return x, label, pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(hidden, size=10), label))


def batches(x, label):
    """Return BATCHES feeds."""
    rng = np.random.default_rng(0)
    return [
        {
            x: rng.uniform(-1, 1, (BATCH, 784)).astype(np.float32),
            label: rng.integers(0, 10, (BATCH, 1)),
        }
        for _ in range(BATCHES)
    ]


def main():
    """Print a table of the plain loop, the Runner, and the Runner with a bar."""
    x, label, cost = network()
    feeds = batches(x, label)
    step = pd.MomentumOptimizer(0.01).minimize(cost)
    session = pd.default_session()

    def plain():
        for fed in feeds:
            session.eval([cost, [step], []], fed, training=True)[0].item()

    def runner(*more):
        items = Device(), Counter(), Data(feeds), ForwardBackward(cost)
        return runner_of([*items, Update(pd.MomentumOptimizer(0.01)), *more])

    bare, barred = runner(), runner(Progress(file=io.StringIO(), disable=False))
    with bare, barred:
        ways = {"loop": plain, "Runner": bare.run_one_pass, "with a bar": barred.run_one_pass}
        seconds = {name: [] for name in ways}
        for _ in range(BLOCKS):
            for name, run in ways.items():
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    print("| | fastest, µs a batch | median | fastest / loop | median / loop |")
    print("| --- | --- | --- | --- | --- |")
    least, middle = min(seconds["loop"]), np.median(seconds["loop"])
    for name, times in seconds.items():
        figures = [min(times) / BATCHES * 1e6, np.median(times) / BATCHES * 1e6]
        ratios = [min(times) / least, np.median(times) / middle]
        print(
            f"| {name} | {figures[0]:.0f} | {figures[1]:.0f} | {ratios[0]:.3f} | {ratios[1]:.3f} |"
        )
    print(f"\nload average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "")


if __name__ == "__main__":
    main()
