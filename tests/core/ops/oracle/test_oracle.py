"""The oracle in its short form: a trial of each third row, and those of known differences."""

import os
import signal
from collections import defaultdict

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.ops.differences import DIFFERENCES
from tests.thinned import thinned

from ..case import case, normal
from .known import KNOWN
from .runner import outcomes
from .trials import Trial, trials
from .verdict import BAD, verdict

WITNESSES = 6  # trials of each known difference
EVERY = trials()


def of_each_row(rng):
    """One trial of each row."""
    by_row = defaultdict(list)
    for number, trial in enumerate(EVERY):
        by_row[trial.row].append(number)
    return [int(rng.choice(numbers)) for numbers in by_row.values()]


def witnesses(match):
    """Trials that a difference is known of, some of them, evenly among all."""
    numbers = [n for n, trial in enumerate(EVERY) if match.fits(trial, match.outcomes[0])]
    return numbers[:: max(1, len(numbers) // WITNESSES)]


@pytest.mark.slow
def test_ops_are_numpys_or_refuse(rng):
    """Values, announced types, slopes; NaN, infinities, extremes, sizes of 0, 1 and odd ones."""
    seen = {key: witnesses(match) for key, match in KNOWN.items()}
    numbers = sorted(
        {*thinned(of_each_row(rng), 3), *(n for found in seen.values() for n in found)}
    )
    found = outcomes(numbers)
    lines = [f"{EVERY[n]}: {o}, {text}" for n, (o, text) in found.items() if o in BAD]
    assert not lines, "python -m tests.campaign.oracle TRIAL shows one:\n" + "\n".join(lines)
    stale = [k for k, ns in seen.items() if not any(found[n] == ("known", k) for n in ns)]
    assert not stale, f"these do not differ any more: {stale}"
    assert sum(o == "same" for o, _ in found.values()) > len(found) / 2


def test_every_difference_is_watched():
    assert set(KNOWN) == set(DIFFERENCES)


def of(function, reference, *shape, dtype="float32", kind="drawn"):
    """The outcome of a row."""
    return verdict(Trial(case("planted", function, reference, [normal(*shape)]), dtype, kind))[0]


def test_what_is_seen():
    """Wrong numbers, slopes, NaN and types, and errors that are not ours."""
    assert of(ops.tanh, np.tanh, 3, 4) == "same"
    assert of(ops.tanh, lambda x: np.tanh(x) + 1e-3, 3, 4) == "value"
    assert of(lambda x: ops.stop_gradient(x) * x, np.square, 3, 4) == "gradient"
    clipped = of(lambda x: ops.where(ops.is_nan(x), 0.0, x), np.abs, 9, kind="NaN and infinities")
    assert clipped == "value"
    assert of(ops.exp, np.exp, 3, dtype="int8") == "refused"
    assert of(lambda x: {}["x"], np.exp, 3) == "wrong error"
    assert of(lambda x: ops.reshape(x, ops.cast(x, "int64")), np.abs, 3) == "late error"
    assert of(lambda x: raw(), np.exp, 3) == "raw error"


def raw():
    raise pd.BackendError("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find")


def ends(trial):
    """End the process in the middle of a trial."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_ends_is_seen():
    assert outcomes([1], 1, ends)[1][0] == "crash"
