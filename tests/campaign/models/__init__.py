"""Small random ONNX models, imported, differentiated, trained and exported beside ONNX Runtime.

    python -m tests.campaign.models 17

judges the model of one seed in this process, and prints it.
"""

import multiprocessing
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import onnx

from ..plan import Plan, Row
from .check import verdicts
from .elementwise import recipes
from .generate import generated

QUICK, FULL = 30, 6000  # models
SECONDS = 60  # for one of them, after which it hangs
_PART = 30  # models of a process
_WORKERS = 2


def run(plan: Plan) -> list[Row]:
    """Judge random models; a row of what came out."""
    row = Row("models", "random ONNX models")
    first, count = plan.seed * FULL, plan.count(QUICK, FULL)
    parts = [range(k, min(k + _PART, first + count)) for k in range(first, first + count, _PART)]
    spawn = multiprocessing.get_context("spawn")
    for group in (parts[k : k + _WORKERS] for k in range(0, len(parts), _WORKERS)):
        with ProcessPoolExecutor(min(len(group), _WORKERS), spawn) as pool:
            jobs = [(seeds, pool.submit(_judged, seeds)) for seeds in group]
            for seeds, job in jobs:
                try:
                    found = job.result()
                except BrokenProcessPool:
                    found = [("crash", f"one of the seeds {seeds}")]
                for outcome, text in found:
                    row.add(outcome, text)
    return [row]


def _judged(seeds):
    return [verdict for seed in seeds for verdict in outcomes(seed)]


def drawn(seed: int) -> tuple[onnx.ModelProto, dict]:
    """Return the model of a seed and the arrays of its inputs; each operator begins some models."""
    names = list(recipes)
    first = names[seed // 2 % len(names)] if seed % 2 else ""
    return generated(np.random.default_rng(seed), first)


def outcomes(seed: int, seconds: int = SECONDS) -> list[tuple[str, str]]:
    """Return (outcome, how to see it again) of each comparison of the model of a seed."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(seconds)  # 0 is no limit
    try:
        found = list(verdicts(*drawn(seed), known=seed % 3 > 0))
    except TimeoutError:
        found = [("hang", "")]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return [(_NAMES.get(o, o), f"seed {seed}: {' '.join(text.split())}") for o, text in found]


_NAMES = {"late error": "wrong error"}  # of a model that ONNX Runtime runs


def _too_long(*_):
    raise TimeoutError


def main() -> None:
    """Judge the model of the seed that the command line names."""
    seed = int(sys.argv[1])
    print(onnx.printer.to_text(drawn(seed)[0]))
    for outcome, text in outcomes(seed):
        print(f"{outcome}: {text}")
