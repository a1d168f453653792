"""An interrupt that comes while the runtime computes a step: all of its values are there."""

import _thread
from contextlib import contextmanager, nullcontext
from functools import partial
from operator import call

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.bound import consume
from pd_core.backend.fused.build import available

KINDS = {
    "two buffers": False,
    "in place": pytest.param(
        True, marks=pytest.mark.skipif(not available(), reason="there is no C compiler here")
    ),
}


def steps():
    """A step that writes rows of a table, whole values, and one that the runtime accumulates."""
    ids = pd.Variable([None], dtype="int64")
    table = pd.Variable("table", data=np.ones([6, 3], "f"), row_sparse=True)
    hidden = pd.fc(pd.gather(table, ids), size=4, act="tanh")
    step = pd.AdamOptimizer(0.1).minimize(pd.reduce_sum(pd.square(hidden)))
    running = pd.Variable("running", data=np.ones([5], "f"))
    return ids, [step, pd.assign(running, pd.cum_sum(running, 0) * 0.5)]


def values(session):
    return {v.name: value for v, value in session.values().items()}


@pytest.mark.parametrize("fused", KINDS.values(), ids=KINDS)
def test_an_interrupt_in_a_run_leaves_a_whole_step(fused):
    with pd.fresh(seed=1):
        ids, targets = steps()
        feeds = [{ids: np.array(rows)} for rows in ([0, 1], [1, 2], [3, 3], [0, 5], [2, 4])]
        with pd.Session(fused=fused) as whole:
            expected = []
            for each in feeds:
                whole.eval(targets, each)
                expected.append(values(whole))
        with pd.Session(fused=fused) as session:
            for k, each in enumerate(feeds):
                with interrupted(session) if k in (2, 3) else nullcontext():
                    session.eval(targets, each)
                for name, value in values(session).items():
                    np.testing.assert_array_equal(value, expected[k][name], err_msg=f"{k} {name}")


@contextmanager
def interrupted(session):
    """Let a signal come with the next run of the last stage, which stores rows."""
    programs = [getattr(entry, "program", entry) for entry in session.compiler.cache]
    phases = [phase for p in programs for phase in p.executable.phases.values()]
    starts = {phase.bound[-1]: phase.bound[-1]._start for phase in phases}
    for bound, start in starts.items():  # C alone, as the runtime is
        bound._start = partial(consume, map(call, [_thread.interrupt_main, start]))
    with pytest.raises(KeyboardInterrupt):
        yield
    for bound, start in starts.items():
        bound._start = start
