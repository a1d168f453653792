"""What every test starts from: no names, an unused session, one generator."""

import gc
import itertools
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.devices import devices
from pd_core.run.programs import program_cache
from pd_core.run.session import Session

pytest_plugins = ["tests.skips"]

# Compiled kernels of tests are none of the user's, and are there the next time.
_CACHE = Path(__file__).resolve().parent.parent / ".pytest_cache" / "fused"
os.environ.setdefault("PD_FUSED_HOME", str(_CACHE))

# A shell starts a job in the background with SIGINT ignored: tests of Ctrl-C would wait for it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure():
    """Give each process of `-n` a core of its own, where there is one for each.

    ONNX Runtime then has one thread there, in place of one for each core in each process, which
    wait for each other: a third of the processor time of tests that make sessions. Programs with
    several threads run in the tests without `-n`, the campaign and three of the demos.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if int(os.environ["PYTEST_XDIST_WORKER_COUNT"]) <= len(cores):
            os.sched_setaffinity(0, {cores[int(worker) % len(cores)]})  # one may replace another


def pytest_make_parametrize_id(val):
    """Name bytes by their number: what they are may differ from process to process."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and len(val) > 16 else None


def pytest_collection_finish():
    """Take what was collected out of the garbage collector's sight.

    It is there until the end: tens of thousands of tests, which each full collection would visit,
    a third of the time of the cheap ones.
    """
    gc.collect()
    gc.freeze()


_begun = itertools.count(1)


@pytest.fixture(autouse=True)
def fresh_world():
    """No variable of another test is there, and draws start anew."""
    if next(_begun) % 200 == 0:  # what libraries and the runs before have left in memory since
        pytest_collection_finish()
    pd.reset(seed=0)


@pytest.fixture
def rng():
    """The one source of random numbers of a test."""
    return np.random.default_rng(2017)


DEVICES = ["cpu", "reference"] + ["cuda"] * ("cuda:0" in devices())


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device in turn; CUDA where there is one, no thousands of skipped tests elsewhere."""
    return request.param


@pytest.fixture
def no_programs():
    """No compiled programs from other tests, where a test counts compilations."""
    program_cache(Session().backend).clear()
