"""Products of two layers of which only one learns: it has its gradient, whichever it is.

2017's circular convolution gave no gradient to either, and its cosines of a vector with the rows of
a matrix ended the process, as did tensors of inputs of unequal widths.
"""

import numpy as np
import pytest

import pd_v2 as paddle

L, T, A = paddle.layer, paddle.data_type, paddle.activation
TENSOR = np.random.default_rng(1).normal(size=(2, 3, 4))


def circular(a, b):
    reach = (len(b) - 1) // 2
    return [sum(a[(i + j - reach) % len(a)] * b[j] for j in range(len(b))) for i in range(len(a))]


def cosines(a, b):
    rows = b.reshape(-1, len(a))
    return rows @ a / (np.linalg.norm(rows, axis=1) * np.linalg.norm(a))


CASES = {
    "conv_shift": (5, 3, lambda a, b: L.conv_shift(a=a, b=b), circular),
    "cos_sim": (3, 6, lambda a, b: L.cos_sim(a=a, b=b, size=2), cosines),
    "tensor": (
        3,
        4,
        lambda a, b: L.tensor(
            a=a, b=b, size=2, bias_attr=False, param_attr=paddle.attr.Param(name="t")
        ),
        lambda a, b: np.einsum("kij,i,j->k", TENSOR, a, b),
    ),
    "out_prod": (3, 4, L.out_prod, lambda a, b: np.outer(a, b).ravel()),
    "dot_prod": (3, 3, L.dot_prod, lambda a, b: a @ b),
    "linear_comb": (2, 6, lambda a, b: L.linear_comb(weights=a, vectors=b, size=3), None),
    "scaling": (1, 4, lambda a, b: L.scaling(weight=a, input=b), lambda a, b: a * b),
    "dotmul_operator": (
        4,
        4,
        lambda a, b: L.mixed(size=4, input=L.dotmul_operator(a=a, b=b, scale=0.5)),
        lambda a, b: 0.5 * a * b,
    ),
}


def combined(a, b):
    return a @ b.reshape(len(a), -1)


def slope(f, values, k):
    """The gradient of the weighted sum of f(*values) by values[k], by finite differences."""
    found = np.zeros(len(values[k]))
    for i in range(len(found)):
        for sign in (1, -1):
            moved = [v.copy() for v in values]
            moved[k][i] += sign * 1e-5
            y = np.ravel(f(*moved))
            found[i] += sign * y @ np.arange(1, len(y) + 1) / 2e-5
    return found


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_the_one_that_learns_has_its_gradient(name, k):
    *sizes, make, formula = CASES[name]
    formula = formula or combined
    rng = np.random.default_rng(7)
    values = [rng.normal(size=n) for n in sizes]
    one = L.data(name="one", type=T.dense_vector(1))
    attr = paddle.attr.Param(name="w")
    learned = L.fc(one, size=sizes[k], act=A.Linear(), bias_attr=False, param_attr=attr)
    fixed = L.data(name="fixed", type=T.dense_vector(sizes[1 - k]))
    y = make(*((learned, fixed) if k == 0 else (fixed, learned)))
    weights = L.data(name="weights", type=T.dense_vector(y.size))
    cost = L.sum_cost(L.dot_prod(y, weights) if y.size > 1 else y)
    pool = paddle.parameters.create(cost)
    pool["w"] = values[k].astype(np.float32).reshape(pool.get_shape("w"))
    if "t" in pool:  # 2017 stored a matrix for each number of the result, one below the other
        pool["t"] = TENSOR.astype(np.float32).reshape(pool.get_shape("t"))
    sample = ([1.0], values[1 - k], np.arange(1.0, y.size + 1))
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    feeding = {"one": 0, "fixed": 1, "weights": 2}
    trainer.train(lambda: iter([[sample]]), feeding=feeding)
    gradient = values[k] - pool["w"].reshape(-1)
    np.testing.assert_allclose(gradient, slope(formula, values, k), rtol=1e-4, atol=1e-5)
