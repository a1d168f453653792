"""Trainings that are saved after every batch, and resumed from every checkpoint."""

import random

import numpy as np

import pd_core as pd
from pd_core.training import Resume, SaveEvery, runner_of
from pd_core.training.checkpoint import checkpoints_in

SEED = 11


def train(build, *more, passes=2, seed=SEED):
    """Build items in a fresh world and run them; return the state of the session and the context.

    `build()` returns the items.
    """
    pd.reset(seed=seed)
    random.seed(seed), np.random.seed(seed)
    runner = runner_of([*build(), *more])
    with runner:
        context = runner.run(passes)
    return pd.default_session().state(), context


def assert_same_state(one, other):
    """Two states of a session, bit for bit."""
    assert one["seed"] == other["seed"] and one["draws"] == other["draws"]
    assert one["values"].keys() == other["values"].keys()
    for name, array in one["values"].items():
        other_array = other["values"][name]
        assert array.dtype == other_array.dtype, name
        assert array.tobytes() == other_array.tobytes(), name


def assert_resumes(build, folder, passes=2, batches=None):
    """Check that a training goes on from each of its checkpoints as if it had not stopped."""
    whole, context = train(build, SaveEvery(1, folder, keep=None), passes=passes)
    checkpoints = checkpoints_in(folder)
    assert len(checkpoints) == context.batches if batches is None else batches
    for checkpoint in checkpoints:
        again, resumed = train(build, Resume(checkpoint), passes=passes, seed=SEED + 1)
        assert_same_state(again, whole)
        assert resumed.pass_metrics == context.pass_metrics, checkpoint.name
        for name in ("batches", "samples", "pass_id", "test_metrics", "rate_factor"):
            assert getattr(resumed, name) == getattr(context, name), (checkpoint.name, name)
    _assert_resumes_twice(build, folder, whole, checkpoints, passes)


def _assert_resumes_twice(build, folder, whole, checkpoints, passes):
    """Resume from an early checkpoint, save all that follow, and resume from one of those."""
    again = folder / "again"
    first, second = checkpoints[0], checkpoints[len(checkpoints) // 2]
    train(build, Resume(first), SaveEvery(1, again, keep=None), passes=passes, seed=3)
    values, _ = train(build, Resume(again / second.name), passes=passes, seed=4)
    assert_same_state(values, whole)


def arrays(count=12, width=4, seed=5):
    """Features [count, width] and labels [count], of three classes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)).astype(np.float32), rng.integers(0, 3, count)
