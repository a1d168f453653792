"""Every row of the op tables in a dynamic graph: values and gradients of the static graph."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.ops.mode import in_mode
from tests.thinned import one_of_each, thinned

from ..ops import CASES
from ..ops.case import as_list

INTERNAL = ("MaxPoolGrad", "MaxPoolPick", "AveragePoolGrad")  # of known sizes, in gradients only
# A row of each second op and some of its others: all of them are checked in static graphs.
CHOSEN = one_of_each([c for c in CASES if c.name not in INTERNAL], lambda c: c.name, 4)
CHOSEN = thinned(CHOSEN, 2)
ROWS = pytest.mark.parametrize("row", CHOSEN, ids=str)


def close(got, want, rtol):
    """Check that values agree within rtol of the largest element; integers and bools exactly."""
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    else:
        scale = np.abs(want).max(initial=1e-3)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * scale)


def cost(results):
    """A scalar with a different slope for each element of the results."""
    parts = [pd.reduce_sum(pd.square(y) * 0.5 + y) for y in results if y.dtype.kind == "f"]
    return sum(parts[1:], parts[0]) if parts else None


def static(row, arrays, smooth):
    """Values and gradients by the static graph."""
    with pd.fresh() as session:
        slots = [pd.Variable(shape=a.shape, dtype=a.dtype, trainable=False) for a in arrays]
        results = as_list(row.function(*slots, **row.options))
        loss = cost(results) if smooth else None
        wrt = [v for v in slots if v.dtype.kind == "f"]
        gradients = [] if loss is None else pd.gradients(loss, wrt)
        fetches = [*results, *(g for g in gradients if g is not None)]
        feeds = dict(zip(slots, arrays, strict=True))
        values = iter(session.eval(fetches, feeds, training=row.training))
        return [next(values) for _ in results], [
            None if g is None else next(values) for g in gradients
        ]


@ROWS
def test_values_and_gradients_as_in_the_static_graph(row, rng):
    arrays = row.arrays(rng)
    values, gradients = static(row, arrays, row.smooth)
    with pd.fresh(), pd.guard(), in_mode(row.training):
        leaves = [pd.to_variable(a) for a in arrays]
        floats = [v for v in leaves if v.dtype.kind == "f"]
        for v in floats:
            v.stop_gradient = not row.smooth
        results = as_list(row.function(*leaves, **row.options))
        loss = cost(results) if row.smooth else None
        for y, value in zip(results, values, strict=True):
            assert y.shape == value.shape
            close(y.numpy(), value, row.rtol)
        if loss is not None and any(g is not None for g in gradients):
            loss.backward()
            for v, wanted in zip(floats, gradients, strict=True):
                got = v.gradient()
                if got is None:  # on the side of a mode switch that is not there
                    assert wanted is None or not wanted.any()
                else:
                    close(got, wanted, 10 * row.rtol)
