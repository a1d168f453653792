"""Rows of reductions and of softmax."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed, normal

REDUCTIONS = {
    "ReduceSum": (ops.reduce_sum, np.sum, normal),
    "ReduceMean": (ops.reduce_mean, np.mean, normal),
    "ReduceMax": (ops.reduce_max, np.max, distinct),
    "ReduceMin": (ops.reduce_min, np.min, distinct),
    "ReduceProd": (ops.reduce_prod, np.prod, distinct),
}
AXES = [
    (None, False),
    (None, True),
    (0, False),
    (-1, True),
    ([1], False),
    ([0, 2], False),
    ([0, -1], True),
]


def _reduction(name, axes, keep_dim):
    function, reference, sample = REDUCTIONS[name]

    def expected(x, axes, keep_dim):
        axes = tuple(axes) if isinstance(axes, list) else axes
        return reference(x, axis=axes, keepdims=keep_dim)

    return case(name, function, expected, [sample(2, 3, 4)], axes=axes, keep_dim=keep_dim)


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis=-1):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def _arg_max(x, axis=-1, keep_dim=False):
    return np.argmax(x, axis, keepdims=keep_dim)


CASES = [_reduction(name, axes, keep) for name in REDUCTIONS for axes, keep in AXES] + [
    case(
        "reduce_sum",
        lambda x: ops.reduce_sum(x) * x,
        lambda x: x * x,
        [normal()],
        batch=(),
        label="of a scalar",
    ),
    case("ReduceSum", ops.reduce_sum, np.sum, [normal(1, 1)], label="one element"),
    case("SumOverRanks", ops.sum_over_ranks, lambda x: x, [normal(2, 3)], label="one rank"),
    case("ArgMax", ops.arg_max, _arg_max, [distinct(3, 4)], smooth=False),
    case("ArgMax", ops.arg_max, _arg_max, [distinct(3, 4)], axis=0, keep_dim=True, smooth=False),
    case("ArgMax", ops.arg_max, _arg_max, [fixed([[1.0, 3.0, 3.0]])], smooth=False, label="tie"),
    case("CumSum", ops.cum_sum, np.cumsum, [normal(3, 4)], axis=0),
    case("CumSum", ops.cum_sum, np.cumsum, [normal(2, 3, 4)], axis=1),
    case("CumSum", ops.cum_sum, np.cumsum, [normal(3, 4)], axis=-1),
    case("Softmax", ops.softmax, _softmax, [normal(3, 4)]),
    case("Softmax", ops.softmax, _softmax, [normal(2, 3, 4)], axis=1),
    case("Softmax", ops.softmax, _softmax, [normal(3, 4)], axis=0),
    case("Softmax", ops.softmax, _softmax, [fixed([[500.0, 499.0, -500.0]])], label="large"),
    case(
        "SoftmaxGrad",
        ops.softmax_grad,
        lambda y, dy: y * (dy - (dy * y).sum(-1, keepdims=True)),
        [normal(3, 4), normal(3, 4)],
    ),
    case("LogSoftmax", ops.log_softmax, log_softmax, [normal(3, 4)]),
    case("LogSoftmax", ops.log_softmax, log_softmax, [normal(2, 3, 4)], axis=1),
    case(
        "LogSoftmax", ops.log_softmax, log_softmax, [fixed([[500.0, 499.0, -500.0]])], label="large"
    ),
]
