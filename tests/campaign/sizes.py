"""Sizes: ONNX's node tests with axes that are empty, or of another length, and their gradients.

Each trial is a process: an imported node computes its outputs, and the gradients of their sum, from
arrays of sizes that it did not know before. It gives a result or an error of ours.

    python -m tests.campaign.sizes "test_lstm_defaults, 3 to 0"

computes one trial in this process.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto

import pd_core as pd
from tests.core.gradients.node_suite.cases import node_tests

from .plan import Plan, Row

SECONDS = 20  # for a trial, after which it hangs
QUICK, FULL = 240, 2  # one trial in so many
_CLEAR = (pd.GraphError, pd.ModelError, pd.DTypeError, pd.FeedError, pd.BackendError)
_WORKERS = 2


@dataclass(frozen=True)
class Trial:
    """A model of one node, and a change of its `inputs`."""

    name: str
    model: ModelProto
    resized: Callable[[], tuple[np.ndarray, ...]]  # one in so many is computed

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arrays with axes of other lengths."""
        return self.resized()


def run(plan: Plan) -> list[Row]:
    """Try all sizes of all cases, or some of them; a row of what came out."""
    spawn = multiprocessing.get_context("spawn")
    row = Row("sizes", "ONNX's node tests")
    workers = _workers(plan)
    with ProcessPoolExecutor(workers, spawn) as pool:
        for outcomes in pool.map(part, range(workers), [plan] * workers):
            for outcome, defect in outcomes:
                row.add(outcome, defect)
    return [row]


def _workers(plan):
    """One where it takes longer to collect the cases than to try some of them."""
    return plan.count(1, _WORKERS)


def part(number: int, plan: Plan) -> list[tuple[str, str]]:
    """Return (outcome, how to see it again) of the trials of one process."""
    workers, one_in = _workers(plan), plan.count(QUICK, FULL)
    step, offset = workers * one_in, number + workers * (plan.seed % one_in)
    found = (t for k, t in enumerate(trials()) if k % step == offset)
    return [
        (outcome(lambda t=t: computed(t)), t.name)
        for t in found
        if not _ends_the_process(t.name.partition(",")[0], t.inputs)
    ]


def outcome(work: Callable[[], None]) -> str:
    """Return what becomes of a process that does this work."""
    child = os.fork()
    if not child:
        code = 4
        try:
            signal.alarm(SECONDS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the runtime's own messages
            work()
            code = 0
        except _CLEAR:
            code = 3
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "hang" if os.WTERMSIG(status) == signal.SIGALRM else "crash"
    return {0: "result", 3: "clear error"}.get(os.WEXITSTATUS(status), "wrong error")


def computed(trial: Trial) -> None:
    """Compute a trial as a model whose sizes are not known before."""
    arrays, model = trial.inputs, _with_any_sizes(trial.model)
    xs = [
        pd.Variable(i.name, shape=[None] * a.ndim, dtype=a.dtype)
        for i, a in zip(model.graph.input, arrays, strict=True)
    ]
    outputs = pd.import_onnx(model)(*xs)
    targets = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    feeds = dict(zip(xs, arrays, strict=True))
    pd.eval(targets, feeds)
    free = [x for x in xs if x.dtype == np.float32]
    costs = [pd.reduce_sum(y) for y in targets if y.dtype == np.float32]
    if free and costs:
        pd.eval([g for g in pd.gradients(sum(costs[1:], costs[0]), free) if g is not None], feeds)


def trials() -> Iterator[Trial]:
    """Yield every trial, in the same order each time."""
    for case in sorted(node_tests(), key=lambda case: case.name):
        inputs = case.data_sets[0][0] if case.model is not None and case.data_sets else [None]
        if "_expanded" in case.name or not all(map(_is_array, inputs)):
            continue
        arrays = tuple(map(np.asarray, inputs))
        for change, changed in _changes(arrays):
            yield Trial(f"{case.name}, {change}", case.model, changed)


def _is_array(x):
    return isinstance(x, np.ndarray | np.generic) and np.asarray(x).dtype.kind in "biuf"


def _with_any_sizes(model):
    """The model without the sizes of its inputs and outputs."""
    free = ModelProto()
    free.CopyFrom(model)
    for value in (*free.graph.input, *free.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    for value in free.graph.output:
        value.type.tensor_type.ClearField("shape")
    return free


def _changes(arrays):
    """Yield (text, function that returns arrays): axes of a size together, then each alone."""
    for size in sorted({n for a in arrays for n in a.shape}):
        for new in {0, 1} - {size}:
            axes = [[k for k, n in enumerate(a.shape) if n == size] for a in arrays]
            news = [new] * len(arrays)
            yield f"{size} to {new}", partial(_all_resized, arrays, axes, news)
    for place, a in enumerate(arrays):
        for axis, size in enumerate(a.shape):
            for new in {0, 1, size + 1} - {size}:
                axes = [[axis] if k == place else [] for k in range(len(arrays))]
                news = [new] * len(arrays)
                yield (
                    f"input {place}, axis {axis} to {new}",
                    partial(_all_resized, arrays, axes, news),
                )


def _all_resized(arrays, axes, sizes):
    return tuple(map(_resized, arrays, axes, sizes))


def _resized(a, axes, size):
    """An array with axes of another length: cut off, or begun again at the end."""
    for axis in axes:
        a = np.take(a, np.arange(size) % max(1, a.shape[axis]), axis) if a.size else a
    return np.ascontiguousarray(a)


def _ends_the_process(name, arrays):
    """Whether this is known of a kernel of ONNX Runtime 1.31, see docs/reliability.md."""
    channels = "conv" in name and len(arrays) > 1 and 0 in arrays[1].shape[:2]
    volume = "convtranspose_3d" in name and 0 in arrays[0].shape
    window = "stft_with_window" in name and not arrays[2].size
    heads = "attention" in name and arrays[0].ndim == 4 and not arrays[0].shape[1]
    return channels or volume or window or heads


if __name__ == "__main__":
    computed(next(trial for trial in trials() if trial.name == sys.argv[1]))
