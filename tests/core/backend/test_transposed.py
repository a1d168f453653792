"""Products with a transposed factor, in the other order where it has more columns."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors


def products(target, feeds, sizes=()):
    """The sizes of the products of a program for the CPU."""
    graph = program.build([target], [], feeds, True, dict(sizes))
    order = ancestors(for_device(graph, CPU).outputs)
    return [node.outputs[0].dims for node in order if node.op_type == "MatMul"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize(("columns", "taken"), [(3, True), (6, False), (8, False)])
def test_the_narrow_factor_is_transposed(order, columns, taken, rng):
    a, b = feeds = [pd.Variable([2, 5, 6]), pd.Variable([2, 5, columns])]
    y = pd.transpose(pd.matmul(pd.matrix_transpose(a), b), order)
    assert products(y, feeds) == [(2, columns, 6) if taken else (2, 6, columns)]
    values = {v: rng.normal(size=v.dims).astype("float32") for v in feeds}
    wanted = np.transpose(np.swapaxes(values[a], 1, 2) @ values[b], order)
    np.testing.assert_allclose(pd.eval(y, values), wanted, rtol=1e-5, atol=1e-5)


def test_stacks_that_are_repeated(rng):
    a, b = feeds = [pd.Variable([1, 4, 5, 6]), pd.Variable([2, 1, 5, 3])]
    y = pd.transpose(pd.matmul(pd.matrix_transpose(a), b), [0, 2, 1, 3])
    assert products(y, feeds) == [(2, 4, 3, 6)]
    values = {v: rng.normal(size=v.dims).astype("float32") for v in feeds}
    wanted = np.transpose(np.swapaxes(values[a], 2, 3) @ values[b], [0, 2, 1, 3])
    np.testing.assert_allclose(pd.eval(y, values), wanted, rtol=1e-5, atol=1e-5)


def test_others_stay_as_they_are():
    a, b, c = feeds = [pd.Variable([2, 5, 6]), pd.Variable([2, 5, 3]), pd.Variable([5, 3])]
    product = pd.matmul(pd.matrix_transpose(a), b)
    flat = pd.matmul(pd.transpose(pd.squeeze(a[:1], 0)), c)
    for y in (
        pd.transpose(product, [0, 2, 1]) + pd.reduce_sum(product),  # read twice
        pd.transpose(pd.matmul(pd.transpose(a, [1, 2, 0]), pd.transpose(b, [1, 0, 2]))),
        pd.transpose(pd.matmul(pd.matrix_transpose(a), c), [1, 0, 2]),  # of other ranks
        pd.transpose(flat),
    ):
        assert 3 in (dims := products(y, feeds)[0])[-1:], dims


def test_rows_of_unknown_number():
    a, b = feeds = [pd.Variable([2, 5, None]), pd.Variable([2, 5, 3])]
    y = pd.transpose(pd.matmul(pd.matrix_transpose(a), b), [1, 0, 2])
    rows = a.dims[2]
    assert products(y, feeds) == [(2, rows, 3)]
    assert products(y, feeds, {rows: 2}.items()) == [(2, rows, 3)]
    assert products(y, feeds, {rows: 9}.items()) == [(2, 3, rows)]
