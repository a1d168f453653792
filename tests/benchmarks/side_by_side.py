"""Timing of the same training step in pd and PyTorch, in alternating blocks, as a table.

Other load on the machine, or a change of its clock, then slows down both. Importing this module
binds the process to two cores, so that pd and PyTorch have two threads each; import it first.
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
    print("skipped: PyTorch, which pd is compared with, is not installed")
    sys.exit(0)

import onnxruntime  # noqa: E402

import pd_core as pd  # noqa: E402
from pd_v2.dataset import mnist  # noqa: E402

torch.set_num_threads(CORES)
PAUSE_SECONDS = 0.05  # between blocks, so that the threads of the other side stop spinning


@dataclass
class Contender:
    """One of the two programs: `step(batch)` trains on a batch and returns the loss, a float."""

    name: str
    step: Callable
    first_ms: float = 0.0
    blocks: list = field(default_factory=list)  # ms of each step, an array per block

    def run(self, batches, steps):
        """Time one block of steps after a warm-up step."""
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
    """Return batches of MNIST: pixels in [-1, 1], float32 [n, 784], and int64 labels [n]."""
    pixels, labels = zip(*mnist.train(), strict=True)
    pixels, labels = np.stack(pixels), np.array(labels)
    starts = range(0, len(labels) - batch_size + 1, batch_size)
    return [(pixels[k : k + batch_size], labels[k : k + batch_size]) for k in starts]


def repeated(batches) -> Iterator:
    """Yield the batches over and over."""
    while True:
        yield from batches


def parameter(variable):
    """Return a torch parameter with the current value of a Variable."""
    return torch.nn.Parameter(torch.from_numpy(variable.val()))


def torch_step(loss_of_batch, optimizer) -> Callable:
    """Return the training step of a PyTorch loss, a function (arrays of a batch) of tensors."""

    def step(batch):
        loss = loss_of_batch(*map(torch.from_numpy, batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def compare(title, build_ours, build_theirs, batches, steps=20, blocks=10, rtol=1e-3):
    """Build both programs, check that three losses agree, time the steps and print a table.

    `build_ours()` returns (step, targets of the step, parameters), `build_theirs(parameters)`
    returns a step that starts from the same values. `rtol` is the tolerance of the losses.
    """
    start = time.perf_counter()
    our_step, targets, parameters = build_ours()
    build_ms = (time.perf_counter() - start) * 1e3
    theirs = Contender("PyTorch", build_theirs(parameters))
    ours = Contender("pd", our_step)
    nodes = len(pd.subgraph(targets, training=True))
    _check(ours, theirs, batches, rtol)
    stream = repeated(batches)
    load = os.getloadavg()[0]
    for block in range(blocks):
        for side in (ours, theirs) if block % 2 else (theirs, ours):
            side.run(stream, steps)
    _print(title, ours, theirs, load)
    print(
        f"\nGraph of pd: {nodes} nodes in the compiled step, built in {build_ms:.0f} ms "
        f"({build_ms / nodes * 1e3:.0f} us per node). First step: pd {ours.first_ms:.0f} ms "
        f"including compilation, PyTorch {theirs.first_ms:.0f} ms."
    )


def _check(ours, theirs, batches, rtol):
    """Check that the losses of three steps agree; time the first step of each."""
    for k, batch in enumerate(batches[:3]):
        losses = []
        for side in (ours, theirs):
            start = time.perf_counter()
            losses.append(side.step(batch))
            if k == 0:
                side.first_ms = (time.perf_counter() - start) * 1e3
        if not np.allclose(*losses, rtol=rtol):
            raise SystemExit(f"the losses differ: step {k}, pd {losses[0]}, PyTorch {losses[1]}")


def _print(title, ours, theirs, load):
    ratios = [np.median(b) / np.median(a) for a, b in zip(ours.blocks, theirs.blocks, strict=True)]
    print(f"## {title}\n")
    print(
        f"{len(ours.times)} steps each in {len(ours.blocks)} blocks, {CORES} threads; load average "
        f"{load:.1f} before, {os.getloadavg()[0]:.1f} after; ONNX Runtime "
        f"{onnxruntime.__version__}, PyTorch {torch.__version__}\n"
    )
    print("| ms per step | median | min |\n| --- | --- | --- |")
    for side in (ours, theirs):
        print(f"| {side.name} | {np.median(side.times):.2f} | {side.times.min():.2f} |")
    print(
        f"| PyTorch / pd | {np.median(theirs.times) / np.median(ours.times):.2f} "
        f"| {theirs.times.min() / ours.times.min():.2f} |"
    )
    print(f"\nPyTorch / pd per block: {min(ratios):.2f} to {max(ratios):.2f}.")
