"""Every row of the op tables on one more device, `PD_TEST_DEVICE=openvino pytest <this file>`.

Values are compared with NumPy's, gradients up to the row's order with those of the CPU.
"""

import os

import numpy as np
import pytest

import pd_core as pd

from . import CASES, DIFFERENTIABLE
from .test_ops import close, fits
from .tower import build, run, slots, tower

DEVICE = os.environ.get("PD_TEST_DEVICE", "")
if not DEVICE:  # one skip, in place of one for each row
    pytest.skip("PD_TEST_DEVICE names no device", allow_module_level=True)


@pytest.mark.parametrize("row", CASES, ids=str)
@pytest.mark.parametrize("batch", [False, True], ids=["static", "batch"])
def test_value_on_the_device(row, batch, rng):
    arrays = row.arrays(rng)
    inputs = slots(row, arrays, batch)
    results = build(row, inputs)
    feeds = dict(zip(inputs, arrays, strict=True))
    got = run(pd.Session(DEVICE), results, feeds, row.training)
    for y, value, wanted in zip(results, got, row.expected(arrays), strict=True):
        fits(y, value)
        close(value, wanted, 10 * row.rtol)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=str)
def test_gradients_on_the_device(row):
    built = tower(row, np.random.default_rng(2017), "float32", batch=False)
    wanted = run(pd.Session(), built.gradients, built.feeds, row.training)
    got = run(pd.Session(DEVICE), built.gradients, built.feeds, row.training)
    for value, want in zip(got, wanted, strict=True):
        close(value, want, 100 * row.rtol)
