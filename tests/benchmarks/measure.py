"""The measurement of one workload: all contenders in alternating blocks of steps."""

import math
import os
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .contender import COMPILED, SIDES, Failed, Process
from .noise import Ratio, ratio
from .peak import Peak

WORKLOADS = Path(__file__).parent / "workloads"
ABSENT = "-"  # the error of a side that the workload has no version for
PAUSE_SECONDS = 0.05  # before a block, so that the threads of the side before stop spinning


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    There are `rounds` rounds, and up to `most_rounds` as long as a ratio is noisy; in a block the
    fastest side runs for `block_seconds`.
    """

    rounds: int
    most_rounds: int
    block_seconds: float


FULL, QUICK = Effort(11, 33, 0.25), Effort(5, 5, 0.15)


@dataclass
class Measured:
    """What was measured of one contender; `error` says why nothing was."""

    name: str
    version: str = ""
    error: str = ""
    import_seconds: float = math.nan
    first_seconds: float = math.nan  # building the network and the first step
    peak_bytes: int | None = None  # more than after the imports, with the batches
    ms: list[float] = field(default_factory=list)  # per batch, of each round


@dataclass
class Result:
    """What was measured of one workload."""

    name: str
    title: str = ""
    kind: str = ""
    flops: float | None = None  # of one step
    steps: int = 0  # of a block
    load: float = math.nan  # load average before the first block
    peak_gflops: list[float] = field(default_factory=list)
    sides: list[Measured] = field(default_factory=list)

    def ratios(self) -> dict[str, Ratio]:
        """Return the time of each other side / the time of pd, by name, where both were timed."""
        ours, *others = self.sides
        timed = (side for side in others if not side.error and not ours.error and side.ms)
        return {side.name: ratio(side.ms, ours.ms) for side in timed}


def workload_paths(names=()):
    """Return the files of these workloads, or of all; ValueError for an unknown name."""
    paths = {path.stem: path for path in sorted(WORKLOADS.glob("[!_]*.py"))}
    if unknown := [name for name in names if name not in paths]:
        raise ValueError(f"no workload {', '.join(unknown)}; there are {', '.join(paths)}")
    return [paths[name] for name in names or paths]


def measure(path, effort=FULL, sides=SIDES):
    """Return the Result of a workload's file; the first side is pd, which gives the parameters."""
    result = Result(Path(path).stem)
    with ExitStack() as stack:
        running = []
        reference = None
        for side in sides:
            measured = Measured(side.name)
            result.sides.append(measured)
            try:
                process = stack.enter_context(Process(side, path))
                if reference is None:
                    reference = _start_ours(process, measured, result)
                else:
                    _start(process, measured, *reference)
                running.append((process, measured))
            except Failed as failure:
                measured.error = str(failure)
                if reference is None:
                    return result
        _run(running, effort, result)
    return result


def _start_ours(process, measured, result):
    """Return (parameters, losses, tolerance) of pd."""
    about = _take_about(process.receive(), measured)
    result.title, result.kind, result.flops = about["TITLE"], about["KIND"], about["FLOPS"]
    parameters = process.ask(None)
    first = process.receive()
    measured.first_seconds = first["first_seconds"]
    return parameters, first["losses"], about["RTOL"]


def _start(process, measured, parameters, losses, rtol):
    _take_about(process.receive(), measured)
    process.ask(parameters)
    first = process.receive()
    measured.first_seconds = first["first_seconds"]
    if not np.allclose(first["losses"], losses, rtol=rtol, atol=0):
        theirs, ours = (", ".join(f"{x:.6g}" for x in v) for v in (first["losses"], losses))
        raise Failed(f"the losses differ: {theirs}; of pd {ours}")


def _take_about(about, measured):
    measured.import_seconds, measured.version = about["import_seconds"], about["version"]
    if not about["is_there"]:
        raise Failed(ABSENT)
    return about


def _run(running, effort, result):
    """Time blocks of the same batches, whose order of sides changes from round to round."""
    peak, first = Peak(), 0
    result.steps = _steps(running, effort)
    result.load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    for k in range(effort.most_rounds):
        if k >= effort.rounds and all(r.is_trusted for r in result.ratios().values()):
            break
        peak.measure()
        turn = k % len(running)
        order = running[turn:] + running[:turn]
        for process, measured in order if k % 2 else reversed(order):
            if not measured.error:
                _block(process, measured, first, result.steps)
        first += result.steps
    result.peak_gflops = peak.gflops


def _block(process, measured, first, steps):
    time.sleep(PAUSE_SECONDS)
    try:
        answer = process.ask((first, steps))
    except Failed as failure:
        measured.error = str(failure)
        return
    measured.ms.append(answer["seconds"] / steps * 1e3)
    measured.peak_bytes = answer["peak_bytes"]


def _steps(running, effort):
    """Return the steps of a block, so that the fastest side needs `block_seconds`; warm up all."""
    fastest = math.inf
    for process, measured in running:
        steps, seconds = 1, 0.0
        try:
            while seconds < effort.block_seconds / 2:
                seconds = process.ask((0, steps))["seconds"]
                fastest = min(fastest, seconds / steps)
                steps *= 2
        except Failed as failure:
            measured.error = str(failure)
    return max(1, math.ceil(effort.block_seconds / fastest)) if fastest < math.inf else 1


def sides_here():
    """Return the sides that this machine can run: `torch.compile` needs a C++ compiler."""
    compiler = any(map(shutil.which, ("c++", "g++", "clang++")))
    return [side for side in SIDES if compiler or side is not COMPILED]
