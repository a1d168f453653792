"""What every test starts from: no names, an unused session, one generator."""

import signal

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.devices import devices
from pd_core.run.programs import program_cache
from pd_core.run.session import Session

pytest_plugins = ["tests.skips"]

# A shell starts a job in the background with SIGINT ignored: tests of Ctrl-C would wait for it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def fresh_world():
    """No variable of another test is there, and draws start anew."""
    pd.reset(seed=0)


@pytest.fixture
def rng():
    """The one source of random numbers of a test."""
    return np.random.default_rng(2017)


@pytest.fixture(params=["cpu", "reference", "cuda"])
def device(request):
    """Each device in turn; CUDA where there is one."""
    if request.param == "cuda" and "cuda:0" not in devices():
        pytest.skip("there is no CUDA device here")
    return request.param


@pytest.fixture
def no_programs():
    """No compiled programs from other tests, where a test counts compilations."""
    program_cache(Session().backend).clear()
