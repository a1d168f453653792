"""GELU by the distribution function that its gradient needs."""

import math
from collections import Counter

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.graph.node import ancestors


def operators(targets, feeds):
    graph = program.build(targets, [], feeds, True, {})
    return Counter(node.op_type for node in ancestors(graph.outputs))


def cdf(x):
    return np.vectorize(math.erf)(x / np.sqrt(2)) / 2 + 0.5


def slope(x):
    return cdf(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_computes_one_error_function(dtype):
    x = pd.Variable([None, 3], dtype=dtype)
    y = pd.gelu(x)
    numbers = np.linspace(-12, 12, 900).astype(dtype).reshape(300, 3)
    if dtype == "float32":  # ONNX Runtime has no other Erf on a CPU
        tolerance = {"rtol": 1e-6, "atol": 2e-6}
        found, dx = pd.eval([y, *pd.gradients(y, [x])], {x: numbers})
        np.testing.assert_allclose(found, numbers * cdf(numbers.astype(float)), **tolerance)
        np.testing.assert_allclose(dx, slope(numbers.astype(float)), **tolerance)
    count = operators([y, *pd.gradients(y, [x])], [x])
    assert count["Erf"] == 1 and count["Gelu"] == 0
    assert count["HardSigmoid"] == (dtype == "float32")


def test_without_a_gradient_it_is_one_operator():
    x = pd.Variable([None, 3])
    assert operators([pd.gelu(x)], [x]) == Counter(Gelu=1)


def test_others_stay_as_they_are():
    x, z = pd.Variable([3]), pd.Variable([3])
    approximate = pd.gelu(x, approximate=True)
    (dx,) = pd.gradients(pd.gelu(x), [x])
    count = operators([approximate, pd.gelu(z), dx], [x, z])
    assert count["Gelu"] == 2 and count["Erf"] == 1


def test_infinite_and_undefined_numbers():
    x = pd.Variable([4])
    y = pd.gelu(x)
    numbers = np.array([np.nan, np.inf, 30.0, -30.0], np.float32)
    found, _ = pd.eval([y, *pd.gradients(y, [x])], {x: numbers})
    np.testing.assert_array_equal(found, [np.nan, np.inf, 30.0, 0.0])


def test_second_derivatives():
    x = pd.Variable([None])
    numbers = np.linspace(-4, 4, 99).astype("float32")
    (dx,) = pd.gradients(pd.gelu(x), [x])
    (found,) = pd.eval(pd.gradients(dx, [x]), {x: numbers})
    density = np.exp(-numbers * numbers / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found, density * (2 - numbers * numbers), atol=2e-6)


def test_inside_a_loop():
    x = pd.Variable([4, 3])

    def step(h, row):
        h = pd.gelu(h + row)
        return h, h

    _, ys = pd.scan(step, pd.zeros([3]), x)
    numbers = np.linspace(-1, 1, 12).astype("float32").reshape(4, 3)
    (dx,) = pd.eval(pd.gradients(ys, [x]), {x: numbers})
    sums, h = [], np.zeros(3)
    for row in numbers:
        sums.append(h + row)
        h = sums[-1] * cdf(sums[-1])
    wanted = [slope(sums[3])]
    for total in reversed(sums[:3]):
        wanted.insert(0, (wanted[0] + 1) * slope(total))
    np.testing.assert_allclose(dx, wanted, rtol=1e-5, atol=1e-6)
