"""Chains of matrix products: their order on a CPU, and what they compute."""

from collections import Counter

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU
from pd_core.backend.passes.context import Context, apply_passes
from pd_core.graph.node import ancestors

X = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)


def products(targets):
    """The shapes of the matrix products that run on a CPU."""
    feeds = program.feed_slots(targets, True)
    graph = program.build(targets, [], feeds, True, {})
    after = apply_passes(graph.outputs, CPU, Context())
    shapes = [n.outputs[0].shape for n in ancestors(after) if n.op_type == "MatMul"]
    return Counter(shapes)


def matrix(name, *shape):
    values = np.random.default_rng(len(name)).normal(size=shape)
    return pd.Variable(name, data=values.astype(np.float32))


def low_rank(rank, transposed=False, perm=None):
    """The gradients of the factors of W + B A, in x W or x W transposed, squared and summed."""
    x, w = pd.Variable("x", shape=[None, 32]), matrix("w", 32, 32)
    b, a = matrix("bbb", 32, rank), matrix("aa", rank, 32)
    total = w + pd.matmul(b, a)
    y = pd.matmul(x, pd.transpose(total, [1, 0]) if transposed else total)
    return x, pd.gradients(pd.reduce_sum(pd.square(y)), [a, b]), (w, b, a)


@pytest.mark.parametrize("transposed", [False, True])
def test_factors_get_gradients_without_that_of_the_matrix(transposed):
    x, gradients, values = low_rank(2, transposed)
    assert products(gradients)[32, 32] == 1  # B A itself
    w, b, a = (v.numpy().astype(np.float64) for v in values)
    z = X.astype(np.float64)
    total = w + b @ a
    dw = 2 * z.T @ (z @ (total.T if transposed else total))
    dw = dw.T if transposed else dw
    for ours, expected in zip(pd.eval(gradients, {x: X}), [b.T @ dw, dw @ a.T], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-1)


def test_a_high_rank_keeps_the_order():
    assert products(low_rank(8)[1])[32, 32] == 2


def test_a_product_that_is_read_elsewhere_is_kept():
    """Here the gradient of the matrix is wanted, too."""
    x, gradients, (w, *_) = low_rank(2)
    y = pd.reduce_sum(pd.square(pd.matmul(x, w)))
    both = pd.gradients(y, [w])[0]
    with_product = [*gradients, both, pd.matmul(both, matrix("r", 32, 1))]
    assert products(with_product)[32, 32] == 2
