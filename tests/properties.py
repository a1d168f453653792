"""Settings of tests over many generated examples, which are the same in every run.

`PD_EXAMPLES=50` makes fifty times as many, other ones with each `--hypothesis-seed`: the campaign.
"""

import os

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


def examples(count):
    """Run a test on the same `count` examples each time; compilations make their times uneven."""
    times = int(os.environ.get("PD_EXAMPLES", "1"))
    return settings(
        max_examples=count * times,
        derandomize=times == 1,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


seeds = st.integers(0, 2**32 - 1)


def normal(seed, shape, dtype="float32"):
    """Random numbers that keep their digits: about 1, in steps of 1/8."""
    return (np.round(8 * np.random.default_rng(seed).normal(size=shape)) / 8).astype(dtype)
