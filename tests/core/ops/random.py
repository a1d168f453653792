"""Rows of random draws, against the counter-based hash in numpy words."""

from zlib import crc32

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, normal

_WORD = 2**32


def _mix(h):
    """One round: x (2x + 1), then the halves of the word exchanged."""
    h = h * (2 * h + 1) % _WORD
    return h // 65536 + h * 65536 % _WORD


def stream(name, shape, seed=0, step=0):
    """The uniform draws called `name`: `shape` numbers of 24 bits, float64."""
    start = _mix((seed + crc32(name.encode())) % _WORD)
    first = _mix((_mix(start) + step) % _WORD)
    second = _mix((first + 0x9E3779B9) % _WORD)
    return np.array(
        [
            _mix(_mix((_mix((k + first) % _WORD) + second) % _WORD)) // 256 / 2**24
            for k in range(int(np.prod(shape)))
        ]
    ).reshape(shape)


def _gaussian(name, shape):
    radius = np.sqrt(-2 * np.log(1 - stream(name + "/radius", shape)))
    return radius * np.cos(2 * np.pi * stream(name + "/angle", shape))


def _kept(x, rate):
    return stream("bernoulli_0", x.shape) < np.float32(1 - rate)


def _gumbel(shape):
    return -np.log(-np.log(stream("uniform_random_0", shape)))


def _inverted(p, u):
    """Draws by the inverse of the distribution function."""
    bounds = p.cumsum(-1) / p.sum(-1, keepdims=True)
    return (bounds[..., None, :] <= u[..., None]).sum(-1)


def _row_by_row(x, rate, mode="row"):
    return x


def _rows_kept(x, rate, mode="row"):
    shape = (len(x) if mode == "row" else 1, *[1] * (x.ndim - 1))
    return x * (stream("stochastic_depth_0", shape) < 1 - rate) / (1 - rate)


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


CASES = [
    case(
        "uniform_random",
        lambda: ops.uniform_random([3, 4]),
        lambda: stream("uniform_random_0", (3, 4)),
        [],
        smooth=False,
    ),
    case(
        "uniform_random",
        lambda: ops.uniform_random([3, 4], -2.0, 3.0, "float64"),
        lambda: stream("uniform_random_0", (3, 4)) * 5 - 2,
        [],
        smooth=False,
        label="range",
    ),
    case(
        "uniform_random",
        lambda shape: ops.uniform_random(shape),
        lambda shape: stream("uniform_random_0", shape),
        [fixed([2, 3])],
        label="run-time shape",
        batch=(),
        smooth=False,
    ),
    case(
        "uniform_random",
        lambda: ops.uniform_random([]),
        lambda: stream("uniform_random_0", ()),
        [],
        label="scalar",
        smooth=False,
    ),
    case(
        "gaussian_random",
        lambda: ops.gaussian_random([3, 4], 1.0, 2.0),
        lambda: 2 * _gaussian("gaussian_random_0", (3, 4)) + 1,
        [],
        smooth=False,
    ),
    case(
        "bernoulli",
        ops.bernoulli,
        lambda x, probability: stream("bernoulli_0", x.shape) < probability,
        [normal(5, 6)],
        probability=0.25,
    ),
    case("dropout", ops.dropout, lambda x: x, [normal(5, 6)], label="inference"),
    case("stochastic_depth", ops.stochastic_depth, _row_by_row, [normal(6, 2, 3)], rate=0.25),
    case(
        "stochastic_depth",
        ops.stochastic_depth,
        _rows_kept,
        [normal(6, 2, 3)],
        rate=0.25,
        training=True,
    ),
    case(
        "stochastic_depth",
        ops.stochastic_depth,
        _rows_kept,
        [normal(6)],
        rate=0.5,
        mode="batch",
        batch=(),
        training=True,
    ),
    case(
        "dropout",
        ops.dropout,
        lambda x, rate: x * _kept(x, rate) / (1 - rate),
        [normal(5, 6)],
        rate=0.25,
        training=True,
    ),
    case(
        "dropout",
        ops.dropout,
        lambda x, rate, upscale_in_train: x * _kept(x, rate),
        [normal(5, 6)],
        rate=0.3,
        upscale_in_train=False,
        training=True,
    ),
    case(
        "dropout",
        ops.dropout,
        lambda x, rate, upscale_in_train: x * (1 - rate),
        [normal(5, 6)],
        rate=0.3,
        upscale_in_train=False,
    ),
    case("dropout", ops.dropout, lambda x, rate: x, [normal(4)], rate=0, training=True),
    case(
        "dropout",
        lambda x: ops.tanh(ops.dropout(ops.relu(x), 0.5)),
        lambda x: np.tanh(np.maximum(x, 0) * _kept(x, 0.5) * 2),
        [distinct(4, 3)],
        label="inside a network",
        training=True,
    ),
    case(
        "randint",
        lambda: ops.randint([3, 4], -2, 9),
        lambda: np.floor(stream("uniform_random_0", (3, 4)) * 11) - 2,
        [],
        smooth=False,
    ),
    case(
        "exponential_random",
        lambda: ops.exponential_random([5], 2.0),
        lambda: -2 * np.log(1 - stream("uniform_random_0", (5,))),
        [],
        smooth=False,
    ),
    case(
        "categorical",
        lambda p: ops.categorical(ops.log(p)),
        lambda p: (np.log(p) + _gumbel(p.shape)).argmax(-1),
        [between(0.1, 1, 2, 3, 4)],
        smooth=False,
    ),
    case(
        "multinomial",
        lambda p: ops.multinomial(p, 5, replacement=True),
        lambda p: _inverted(p, stream("uniform_random_0", (*p.shape[:-1], 5))),
        [between(0.1, 1, 2, 3, 4)],
        smooth=False,
    ),
    case(
        "multinomial",
        lambda p: ops.multinomial(p, 2, replacement=False),
        lambda p: (-np.log(p) - _gumbel(p.shape)).argsort(-1)[..., :2],
        [between(0.1, 1, 2, 3, 4)],
        label="without replacement",
        smooth=False,
    ),
    *(
        case(
            "permutation",
            lambda x, count=count: ops.permutation(count(x)),
            lambda x: (-stream("uniform_random_0", (len(x),))).argsort(),
            [normal(5)],
            label=label,
            smooth=False,
        )
        for label, count in {"5": lambda x: 5, "run-time": lambda x: ops.size_of(x, 0)}.items()
    ),
    case(
        "gumbel_softmax",
        lambda x: ops.gumbel_softmax(x, 0.5),
        lambda x: _softmax((x + _gumbel(x.shape)) / 0.5),
        [normal(3, 4)],
        rtol=1e-4,
    ),
    case(
        "gumbel_softmax",
        lambda x: ops.gumbel_softmax(x, 2.0, hard=True, axis=0),
        lambda x: np.eye(3)[(x + _gumbel(x.shape)).argmax(0)].T,
        [normal(3, 4)],
        batch=(),
        label="hard",
        smooth=False,
    ),
]
