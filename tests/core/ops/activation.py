"""Rows of the activation functions."""

import math

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed, normal


def _gelu(x, approximate=False):
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


CASES = [
    case("Tanh", ops.tanh, np.tanh, [normal(3, 4)]),
    case("Sigmoid", ops.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [normal(3, 4)]),
    case("Relu", ops.relu, lambda x: np.maximum(x, 0), [distinct(3, 4)]),
    case("LeakyRelu", ops.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), [distinct(3, 4)]),
    case(
        "LeakyRelu",
        ops.leaky_relu,
        lambda x, alpha: np.where(x > 0, x, alpha * x),
        [distinct(3, 4)],
        alpha=0.3,
    ),
    case("Softplus", ops.softplus, lambda x: np.logaddexp(0, x), [normal(3, 4)]),
    case(
        "Softplus",
        ops.softplus,
        lambda x: np.logaddexp(0, x),
        [fixed([-200.0, -20.0, 0.0, 20.0, 200.0])],
        label="far out",
    ),
    case("Softsign", ops.softsign, lambda x: x / (1 + np.abs(x)), [distinct(3, 4)]),
    case("Gelu", ops.gelu, _gelu, [normal(3, 4)]),
    case("Gelu", ops.gelu, _gelu, [normal(3, 4)], approximate=True),
    case(
        "ReluGrad",
        ops.relu_grad,
        lambda y, dy: np.where(y > 0, dy, 0),
        [distinct(3, 4), normal(3, 4)],
        batch=(0, 1),
    ),
]
