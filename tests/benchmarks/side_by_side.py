"""Timing of two programs that do the same, block by block in turns, and the table about it.

A neighbour on the machine or a change of clock then meets both. Importing this module binds the
process to two cores, so that pd and PyTorch have two threads each; import it before either.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CORES = 2
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])

DATA = Path(__file__).resolve().parents[2] / "demos" / "data"
os.environ.setdefault("PD_DATASET_HOME", str(DATA))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np  # noqa: E402

try:
    import torch
except ImportError:
    print("skipped: PyTorch, the other side of the comparison, is not installed")
    sys.exit(0)

import onnxruntime  # noqa: E402

import pd_core as pd  # noqa: E402
from pd_v2.dataset import mnist  # noqa: E402

torch.set_num_threads(CORES)
PAUSE_SECONDS = 0.05  # between blocks: threads of the other side stop waiting for more work


@dataclass
class Side:
    """One of the two: `step(batch)` trains on a batch and returns its loss as a float."""

    name: str
    step: Callable
    first_ms: float = 0.0
    blocks: list = field(default_factory=list)  # ms of each step, an array a block

    def run(self, batches, steps):
        """Time one block; its first step is not counted."""
        time.sleep(PAUSE_SECONDS)
        self.step(next(batches))
        times = [self._timed(next(batches)) for _ in range(steps)]
        self.blocks.append(np.array(times))

    def _timed(self, batch):
        start = time.perf_counter()
        self.step(batch)
        return (time.perf_counter() - start) * 1e3

    @property
    def times(self):
        return np.concatenate(self.blocks)


def digits(batch_size) -> list:
    """Batches of real digits: float32 [n, 784] from -1 to 1, and int64 labels [n]."""
    pixels, labels = zip(*mnist.train(), strict=True)
    pixels, labels = np.stack(pixels), np.array(labels)
    starts = range(0, len(labels) - batch_size + 1, batch_size)
    return [(pixels[k : k + batch_size], labels[k : k + batch_size]) for k in starts]


def over_and_over(batches) -> Iterator:
    """The batches, without end."""
    while True:
        yield from batches


def parameter(variable):
    """A torch parameter with the value that a Variable has in our session."""
    return torch.nn.Parameter(torch.from_numpy(variable.val()))


def compare(title, build_ours, build_theirs, batches, steps=20, blocks=10, rtol=1e-3):
    """Build both sides, see that their losses agree for three steps, time them, print a table.

    `build_ours()` returns (step, targets of a step, {name: parameter}), `build_theirs` takes those
    parameters and returns a step.
    """
    start = time.perf_counter()
    our_step, targets, parameters = build_ours()
    build_ms = (time.perf_counter() - start) * 1e3
    theirs = Side("PyTorch", build_theirs(parameters))
    ours = Side("pd", our_step)
    nodes = len(pd.subgraph(targets, training=True))
    _check(ours, theirs, batches, rtol)
    endless = over_and_over(batches)
    load = os.getloadavg()[0]
    for block in range(blocks):
        for side in (ours, theirs) if block % 2 else (theirs, ours):
            side.run(endless, steps)
    _print(title, ours, theirs, load)
    print(
        f"\nGraph of pd: {nodes} nodes in the compiled step, built in {build_ms:.0f} ms "
        f"({build_ms / nodes * 1e3:.0f} us a node). First step: pd {ours.first_ms:.0f} ms with "
        f"compiling, PyTorch {theirs.first_ms:.0f} ms."
    )


def _check(ours, theirs, batches, rtol):
    """Three steps of each from the same parameters; the first one is timed as such."""
    for k, batch in enumerate(batches[:3]):
        losses = []
        for side in (ours, theirs):
            start = time.perf_counter()
            losses.append(side.step(batch))
            if k == 0:
                side.first_ms = (time.perf_counter() - start) * 1e3
        if not np.allclose(*losses, rtol=rtol):
            raise SystemExit(f"the two do not compute the same: step {k}, losses {losses}")


def _print(title, ours, theirs, load):
    ratios = [np.median(b) / np.median(a) for a, b in zip(ours.blocks, theirs.blocks, strict=True)]
    print(f"## {title}\n")
    print(
        f"{len(ours.times)} steps each in {len(ours.blocks)} blocks, {CORES} threads; load average "
        f"{load:.1f} before, {os.getloadavg()[0]:.1f} after; ONNX Runtime "
        f"{onnxruntime.__version__}, PyTorch {torch.__version__}\n"
    )
    print("| ms a step | median | min |\n| --- | --- | --- |")
    for side in (ours, theirs):
        print(f"| {side.name} | {np.median(side.times):.2f} | {side.times.min():.2f} |")
    print(
        f"| PyTorch / pd | {np.median(theirs.times) / np.median(ours.times):.2f} "
        f"| {theirs.times.min() / ours.times.min():.2f} |"
    )
    print(f"\nPyTorch / pd in single blocks: {min(ratios):.2f} to {max(ratios):.2f}.")
