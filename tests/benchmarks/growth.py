"""Growth of the time of a step with depth, length, batch and vocabulary, in pd and PyTorch.

Each file in `growing/` is a workload whose size is read from the environment.
"""

import os
import sys
from pathlib import Path

from .contender import EAGER, OURS, bind_to_cores
from .measure import Effort, measure
from .noise import quantile, ratio

GROWING = Path(__file__).parent / "growing"
SIZE = "PD_BENCHMARK_SIZE"
SIZES = {
    "depth": (1, 4, 16, 64, 256),
    "length": (10, 40, 160, 640),
    "batch": (1, 8, 64, 512),
    "vocabulary": (1_000, 10_000, 100_000),
}
FULL, QUICK = Effort(7, 7, 0.1), Effort(3, 3, 0.03)


def size():
    """Return the size that a process measures; KeyError outside of these measurements."""
    return int(os.environ[SIZE])


def main(quick=False):
    """Print a table for each kind of growth; with `quick` the first and the third size only."""
    bind_to_cores()
    for name, sizes in SIZES.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        results = []
        for number in sizes[:3:2] if quick else sizes:
            os.environ[SIZE] = str(number)
            result = measure(GROWING / f"{name}.py", QUICK if quick else FULL, (OURS, EAGER))
            results.append((number, result))
        print(table(name, results), flush=True)


def table(name, results):
    """Return the Markdown table of (size, Result) pairs."""
    lines = [
        f"{results[0][1].title}\n",
        f"| {name} | ms of pd | of PyTorch | PyTorch / pd | first step of pd, s | its memory, MB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for number, result in results:
        lines.append("| " + " | ".join([f"{number:,}", *row(*result.sides)]) + " |")
    return "\n".join(lines) + "\n"


def row(ours, theirs):
    """Return the cells of one size."""
    cells = [f"{quantile(side.ms, 0.5):.3g}" if side.ms else "error" for side in (ours, theirs)]
    if not (ours.ms and theirs.ms):
        return [*cells, "", "", ours.error or theirs.error]
    memory = "" if ours.peak_bytes is None else f"{ours.peak_bytes / 1e6:.0f}"
    return [*cells, str(ratio(theirs.ms, ours.ms)), f"{ours.first_seconds:.2f}", memory]
