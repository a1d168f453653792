"""Rows of the activation functions."""

import math

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, normal


def _gelu(x, approximate=False):
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def _elu(x, alpha=1.0, width=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x / width))


def _mish(x):
    return x * np.tanh(np.logaddexp(0, x))


FAR = fixed([-7.5, -4.2, -2.5, -0.7, -0.2, 0.3, 0.9, 2.2, 3.5, 6.5])  # on every piece, at no kink

CASES = [
    case(
        "smooth_activations",
        lambda x: [ops.silu(x), ops.mish(x), ops.tanhshrink(x)],
        lambda x: [x / (1 + np.exp(-x)), _mish(x), x - np.tanh(x)],
        [FAR],
    ),
    case(
        "exponential_linear_units",
        lambda x: [ops.elu(x), ops.elu(x, 0.5), ops.celu(x), ops.celu(x, 2.0), ops.selu(x)],
        lambda x: [
            *(_elu(x), _elu(x, 0.5), _elu(x), _elu(x, 2.0, 2.0)),
            1.0507009873554805 * _elu(x, 1.6732632423543772),
        ],
        [FAR],
    ),
    case(
        "piecewise_activations",
        lambda x: [ops.relu6(x), ops.hard_tanh(x), ops.hard_tanh(x, -2.0, 0.5)],
        lambda x: [np.clip(x, 0, 6), np.clip(x, -1, 1), np.clip(x, -2, 0.5)],
        [FAR],
    ),
    case(
        "hard_gates",
        lambda x: [ops.hard_sigmoid(x), ops.hard_sigmoid(x, 0.2, 0.4), ops.hard_swish(x)],
        lambda x: [
            np.clip(x / 6 + 0.5, 0, 1),
            np.clip(0.2 * x + 0.4, 0, 1),
            x * np.clip(x / 6 + 0.5, 0, 1),
        ],
        [FAR],
    ),
    case(
        "prelu",
        lambda x, one, each: [ops.prelu(x, one), ops.prelu(x, each)],
        lambda x, one, each: [
            np.where(x > 0, x, one * x),
            np.where(x > 0, x, each[:, None, None] * x),
        ],
        [distinct(2, 3, 2, 2), fixed(0.25), normal(3)],
    ),
    case(
        "glu",
        lambda x: [ops.glu(x, 1), ops.glu(ops.transpose(x))],
        lambda x: [
            x[:, :3] / (1 + np.exp(-x[:, 3:])),
            x.T[:, :1] / (1 + np.exp(-x.T[:, 1:])),
        ],
        [normal(2, 6)],
        batch=(),
    ),
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
    case("NormalCdf", ops.normal_cdf, lambda x: _gelu(x) / x, [distinct(3, 4)]),
    case(
        "NormalPdf",
        ops.normal_pdf,
        lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
        [normal(3, 4)],
    ),
    case(
        "ReluGrad",
        ops.relu_grad,
        lambda y, dy: np.where(y > 0, dy, 0),
        [between(0.1, 1, 3, 4), normal(3, 4)],
        batch=(0, 1),
    ),
]
