"""Trainings that are stopped, and go on with another number of ranks.

`python -m tests.core.distributed.resume_programs FOLDER`: 2, then 4, then 1 go on in one folder.
"""

import random
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed, training
from pd_core.training.ranks import Ranks

PASSES = 3
f32 = np.float32
rank, size = 0, 1
rng = np.random.default_rng(5)
FEATURES = rng.standard_normal((43, 5)).astype(f32)
LABELS = (FEATURES[:, 0] > 0).astype(np.int64)


class At(training.RunnerItem):
    """A call of a function after so many batches."""

    def __init__(self, batches, function):
        self.batches, self.function = batches, function

    def on_batch_end(self, following):
        if self.context.batches == self.batches:
            self.function()
        return following()


class Killed(Exception):
    pass


def kill():
    raise Killed


def trained(path, reader, split, at=None, **options):
    """Train from the newest checkpoint on; return the session's values and what the Runner says."""
    pd.reset(seed=3)
    x, y = pd.Variable([None, 5]), pd.Variable([None], dtype="int64")
    scores = pd.fc(pd.fc(x, 6, act="tanh"), 2)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
    items = [
        training.Device(),
        training.Counter(),
        training.SaveEvery(batches=2, path=path, on_sigterm=True),
        training.Resume(path, begin=True),
        training.Data(reader, inputs=[x, y], split=split),
        training.ForwardBackward(cost),
        training.Update(pd.AdamOptimizer(0.05)),
        training.Evaluate(pd.softmax(scores), y),
        training.StopEarly(patience=9),
        *([] if at is None else [at]),
    ]
    with training.runner_of(items) as runner:
        context = runner.context
        try:
            runner.run(PASSES)
        except (Killed, KeyboardInterrupt, SystemExit) as error:
            return {"batches": context.batches, "error": type(error).__name__}
    values = {v.name: array for v, array in pd.default_session().values().items()}
    numbers = {"samples": context.samples, "batches": context.batches, **context.pass_metrics}
    return {**values, **numbers}


def shuffled():
    """Batches of this rank's rows, in the order of Python's global generator."""
    rows = list(range(rank, 20 + 8 * rank, 2))
    random.shuffle(rows)
    for first in range(0, len(rows), 4):
        yield FEATURES[rows[first : first + 4]], LABELS[rows[first : first + 4]]


def arrays():
    return training.ArrayReader(FEATURES, LABELS, batch_size=10, shuffle=True)


def own(path, at=None):
    random.seed(rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader is read again
        return trained(path, shuffled, False, at)


def seen(path):
    """The batches that a reader gives after the checkpoint of another number of ranks."""
    numbers = []

    def reader():
        for number in range(4):
            numbers.append(number)
            yield FEATURES[:2], LABELS[:2]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(path, reader, False, At(9, kill))
    return {"numbers": numbers, "warnings": [str(w.message) for w in caught]}


def errors(folder):
    """Errors that all ranks raise, though the reason is on one of them."""

    def sizes():
        yield FEATURES[: 8 - rank], LABELS[: 8 - rank]

    def lengths():
        for _ in range(2 - rank):
            yield FEATURES[:8], LABELS[:8]

    class Local(Exception):
        """One that has no name by which it could be sent."""

    def fail():
        raise Local("of rank 0")

    resume = training.runner_of([training.Device(), training.Resume(folder / "none")])
    return {
        "sizes": text(lambda: trained(folder / "sizes", sizes, True)),
        "lengths": text(lambda: trained(folder / "lengths", lengths, True)),
        "none": text(resume.__enter__),
        "local": text(lambda: Ranks().on_first(fail)),
        "other": text(lambda: trained(folder / "again", arrays(), True)),
    }


def text(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(path):
    global rank, size
    distributed.init()
    rank, size = distributed.rank(), distributed.world_size()
    folder, results = Path(path), {}
    if size == 2:
        results["killed"] = trained(folder / "split", arrays(), True, At(5, kill))
        results["own"] = own(folder / "own")
        own(folder / "again", At(5, kill))
        results["own again"] = own(folder / "again")
        own(folder / "seen", At(7, kill))
        for name, sent, by in (("term", signal.SIGTERM, 1), ("int", signal.SIGINT, 0)):
            send = At(3, lambda sent=sent, by=by: rank == by and signal.raise_signal(sent))
            results[name] = trained(folder / name, arrays(), True, send)
        results["errors"] = errors(folder)
    elif size == 4:
        results["killed"] = trained(folder / "split", arrays(), True, At(9, kill))
        results["seen"] = seen(folder / "seen")
    else:
        results["resumed"] = trained(folder / "split", arrays(), True)
        results["whole"] = trained(folder / "whole", arrays(), True)
    np.save(folder / f"{size}-{rank}.npy", results)


if __name__ == "__main__":
    main(*sys.argv[1:])
