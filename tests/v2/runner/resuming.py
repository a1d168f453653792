"""Programs that train with checkpoints after every batch, and go on from every one of them."""

import random

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_core.training.checkpoint import checkpoints_in
from pd_core.training.generators import generators_state
from pd_v2 import build
from tests.thinned import thinned

EVERY = 10**9  # batches between checkpoints: none


def run(program, checkpoint=None, seed=1):
    """Run `program(checkpoint)` in a world of its own.

    Return the state of the session, the global generators at the end, and what it returned.
    """
    with build.fresh(seed):
        random.seed(seed), np.random.seed(seed)
        result = program(checkpoint)
        state = pd.default_session().state()
    for array in state["values"].values():
        assert array.dtype.kind != "f" or np.isfinite(array).all()
    return state, generators_state(), result


def assert_same_state(one, other):
    """Two states of a session, bit for bit."""
    assert one["seed"] == other["seed"] and one["draws"] == other["draws"]
    assert one["values"].keys() == other["values"].keys()
    for name, array in one["values"].items():
        assert array.tobytes() == other["values"][name].tobytes(), name


def assert_resumes(program, folder, batches=None, is_seeded=False):
    """Check that a program goes on from its checkpoints as if it had not stopped.

    `program(checkpoint)` returns numbers, of which those of a resumed one are the last. Unless it
    `is_seeded`, it begins with other values and other states of the generators than before.
    """
    plain, generators, _ = run(program)
    saved = paddle.Checkpoint(folder / "whole", every_batches=1, keep=None)
    whole, _, numbers = run(program, saved)
    assert_same_state(whole, plain)  # to save it changes nothing
    checkpoints = checkpoints_in(folder / "whole")
    assert checkpoints and (batches is None or len(checkpoints) == batches)
    for number, path in thinned(enumerate(checkpoints), 2):  # of each kind: in a pass, at its end
        resumed = folder / f"from{number}"
        resumed.mkdir()
        path.rename(resumed / path.name)
        # in the middle one more is written, from which a third run goes on
        every = len(checkpoints) * 3 // 4 + 1
        again = paddle.Checkpoint(resumed, every_batches=every, keep=None)
        state, there, last = run(program, again, 1 if is_seeded else 2 + number)
        assert_same_state(state, whole)
        assert there == generators
        assert repr(last) == repr(numbers[len(numbers) - len(last) :]), path.name  # nan is nan
    third = paddle.Checkpoint(folder / "from0", every_batches=EVERY)
    state, there, _ = run(program, third, 1 if is_seeded else 99)
    assert_same_state(state, whole)
    assert there == generators
