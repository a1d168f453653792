"""Gathers of single numbers as GatherElements."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors

# name: (dims of the table, dims of the index, axis, whether the pass gathers them)
GATHERS = {
    "numbers": ([7], [None], 0, True),
    "numbers by a matrix": ([7], [None, 3], 0, True),
    "a column": ([7, 1], [None, 3], 0, True),
    "an axis from the last": ([7, 1], [None], -2, True),
    "a table of unknown height": ([None, 1], [4], 0, True),
    "rows": ([7, 2], [None], 0, False),
    "rows of unknown size": ([7, None], [None], 0, False),
    "along the last axis": ([1, 7], [None], 1, False),
    "two unknown sizes": ([7, 1], [None, None], 0, False),
    "one number": ([7, 1], [], 0, False),
}


@pytest.mark.parametrize("name", GATHERS)
def test_numbers_are_gathered_elsewhere(name, rng):
    dims, index_dims, axis, is_taken = GATHERS[name]
    table, index = (
        pd.Variable("table", shape=dims),
        pd.Variable("i", shape=index_dims, dtype="int64"),
    )
    y = pd.gather(table, index, axis)
    graph = program.build([y], [], [table, index], False, {})
    found = {node.op_type for node in ancestors(for_device(graph, CPU).outputs)}
    assert ("GatherElements" in found) == is_taken
    shape = [7 if d is None else d for d in dims]
    numbers = rng.normal(size=shape).astype("float32")
    for size in (2, 0):
        ids = rng.integers(-7, 7, [size if d is None else d for d in index_dims])
        found = pd.eval(y, {table: numbers, index: ids})
        np.testing.assert_array_equal(found, np.take(numbers, ids, axis))


def test_an_index_outside_is_an_error():
    table, index = pd.Variable("table", shape=[7, 1]), pd.Variable("i", shape=[None], dtype="int64")
    with pytest.raises(pd.BackendError, match="Out of range value in index"):
        pd.eval(pd.gather(table, index), {table: np.ones((7, 1)), index: [7]})
