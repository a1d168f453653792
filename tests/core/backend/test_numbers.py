"""Gathers of single numbers from high tables as GatherElements."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors

HIGH = 10_000
# name: (dims of the table, its shape, dims of the index, axis, whether the pass gathers from it)
GATHERS = {
    "numbers": ([HIGH], [HIGH], [None], 0, True),
    "numbers by a matrix": ([HIGH], [HIGH], [None, 3], 0, True),
    "a column": ([HIGH, 1], [HIGH, 1], [None, 3], 0, True),
    "an axis from the last": ([HIGH, 1], [HIGH, 1], [None], -2, True),
    "an unknown height": ([None, 1], [HIGH, 1], [4], 0, False),
    "a small table": ([HIGH - 1, 1], [HIGH - 1, 1], [None], 0, False),
    "rows": ([HIGH, 2], [HIGH, 2], [None], 0, False),
    "rows of unknown size": ([HIGH, None], [HIGH, 1], [None], 0, False),
    "along the last axis": ([1, HIGH], [1, HIGH], [None], 1, False),
    "two unknown sizes": ([HIGH, 1], [HIGH, 1], [None, None], 0, False),
    "one number": ([HIGH, 1], [HIGH, 1], [], 0, False),
}


@pytest.mark.parametrize("name", GATHERS)
def test_numbers_are_gathered_elsewhere(name, rng):
    dims, shape, index_dims, axis, is_taken = GATHERS[name]
    table, index = pd.Variable("t", shape=dims), pd.Variable("i", shape=index_dims, dtype="int64")
    y = pd.gather(table, index, axis)
    graph = program.build([y], [], [table, index], False, {})
    found = {node.op_type for node in ancestors(for_device(graph, CPU).outputs)}
    assert ("GatherElements" in found) == is_taken
    numbers = rng.normal(size=shape).astype("float32")
    for size in (2, 0):
        ids = rng.integers(
            -shape[axis], shape[axis], [size if d is None else d for d in index_dims]
        )
        found = pd.eval(y, {table: numbers, index: ids})
        np.testing.assert_array_equal(found, np.take(numbers, ids, axis))


def test_an_index_outside_is_an_error():
    table, index = pd.Variable("t", shape=[HIGH]), pd.Variable("i", shape=[None], dtype="int64")
    with pytest.raises(pd.OutOfRange, match=f"i: {HIGH} in row 0 is outside"):
        pd.eval(pd.gather(table, index), {table: np.ones(HIGH), index: [HIGH]})
