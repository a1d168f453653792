"""Timing of the same step in pd and PyTorch, in alternating blocks of one process.

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


def torch_step(loss_of_batch, optimizer) -> Callable:
    """Return the training step of a PyTorch loss, a function (arrays of a batch) of tensors."""

    def step(batch):
        loss = loss_of_batch(*map(torch.from_numpy, batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
