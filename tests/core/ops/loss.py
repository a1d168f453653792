"""Rows of the losses."""

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, normal, whole
from .reduce import log_softmax


def _picked(rows, label):
    return np.take_along_axis(rows, label.reshape(-1, 1).astype(int), 1)


def _binary(p, t):
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


def _sigmoid(z):
    return 1 / (1 + np.exp(-z))


def _likelihood(log_p, label, weight=None, ignore_index=None):
    weight = np.ones(log_p.shape[1]) if weight is None else np.asarray(weight)
    kept = label.reshape(-1, 1) != ignore_index
    label = np.where(kept[:, 0], label.reshape(-1), 0)
    return -_picked(log_p * weight, label) * kept


def _smoothed(z, label, weight=None, ignore_index=None, label_smoothing=0.0):
    """The cross-entropy with the mixture of a one-hot and the uniform distribution."""
    classes = z.shape[1]
    weight = np.ones(classes) if weight is None else np.asarray(weight)
    target = (1 - label_smoothing) * np.eye(classes)[np.where(label < 0, 0, label)]
    target += label_smoothing / classes
    loss = -(target * log_softmax(z) * weight).sum(1, keepdims=True)
    return loss * (label.reshape(-1, 1) != ignore_index)


def _label_weights(label, weight=(1, 1, 1, 1), ignore_index=None):
    return np.where(label == ignore_index, 0, np.asarray(weight)[label]).astype("float32")


def _huber(x, t, delta=1.0):
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


WEIGHT = np.array([0.5, 1.0, 2.0, 0.25], "float32")
LABELS = {
    "[N]": whole(0, 4, 5),
    "[N, 1]": whole(0, 4, 5, 1),
    "int32": whole(0, 4, 5, dtype="int32"),
}
CASES = [
    row
    for label, sample in LABELS.items()
    for row in (
        case(
            "cross_entropy",
            ops.cross_entropy,
            lambda p, label: -np.log(_picked(p, label)),
            [between(0.1, 1, 5, 4), sample],
            label=label,
            batch=(0, 1),
        ),
        case(
            "softmax_cross_entropy",
            ops.softmax_cross_entropy,
            lambda z, label: -_picked(log_softmax(z), label),
            [normal(5, 4), sample],
            label=label,
            batch=(0, 1),
        ),
    )
] + [
    case(
        "cross_entropy",
        lambda z, label: ops.cross_entropy(ops.softmax(z), label),
        lambda z, label: -_picked(log_softmax(z), label),
        [fixed([[300.0, 0.0], [0.0, 300.0]]), fixed([1, 1])],
        label="of a softmax that underflows",
        order=1,
        batch=(0, 1),
    ),
    case(
        "binary_cross_entropy",
        ops.binary_cross_entropy,
        _binary,
        [between(0.1, 0.9, 3, 2), between(0, 1, 3, 2)],
        batch=(0, 1),
    ),
    case(
        "binary_cross_entropy",
        lambda p: ops.binary_cross_entropy(p, [1.0, 0.0]),
        lambda p: _binary(p, np.array([1.0, 0.0])),
        [between(0.1, 0.9, 3, 2)],
        label="constant targets",
    ),
    case(
        "binary_cross_entropy",
        lambda z, t: ops.binary_cross_entropy(ops.sigmoid(z), t),
        lambda z, t: np.logaddexp(0, z) - t * z,
        [fixed([[-90.0, 90.0], [0.0, 90.0]]), fixed([[1.0, 1.0], [1.0, 0.0]])],
        label="of a sigmoid that underflows",
        order=1,
        batch=(0, 1),
    ),
    case(
        "BinaryCrossEntropyGrad",
        ops.binary_cross_entropy_grad,
        lambda p, t, dy: dy * (p - t) / (p * (1 - p)),
        [between(0.2, 0.8, 3, 2), between(0, 1, 3, 2), normal(3, 2)],
    ),
    case("LogProbability", ops.log_probability, np.log, [between(0.1, 1, 3, 2)]),
    case(
        "LogProbabilityGrad",
        ops.log_probability_grad,
        lambda p, dy: dy / p,
        [between(0.2, 1, 3, 2), normal(3, 2)],
    ),
    case(
        "sigmoid_cross_entropy",
        ops.sigmoid_cross_entropy,
        lambda z, t: _binary(_sigmoid(z), t),
        [normal(3, 2), between(0, 1, 3, 2)],
        batch=(0, 1),
    ),
    case(
        "sigmoid_cross_entropy",
        ops.sigmoid_cross_entropy,
        lambda z, t: _binary(_sigmoid(z), t),
        [fixed([[0.0, 0.0], [0.5, -0.5]]), fixed([[0.0, 1.0], [0.5, 1.0]])],
        label="at zero",
        batch=(0, 1),
    ),
    case(
        "square_error",
        ops.square_error,
        lambda x, t: ((x - t) ** 2).sum(1, keepdims=True),
        [normal(5, 3), normal(5, 3)],
        batch=(0, 1),
    ),
    *(
        row
        for options in (
            {"weight": WEIGHT},
            {"ignore_index": -1},
            {"weight": WEIGHT, "ignore_index": 3},
        )
        for row in (
            case(
                "negative_log_likelihood",
                ops.negative_log_likelihood,
                _likelihood,
                [normal(5, 4), fixed([0, 3, options.get("ignore_index", 1), 2, 3])],
                batch=(0, 1),
                label=", ".join(options),
                **options,
            ),
            case(
                "softmax_cross_entropy",
                ops.softmax_cross_entropy,
                _smoothed,
                [normal(5, 4), fixed([0, 3, options.get("ignore_index", 1), 2, 3])],
                batch=(0, 1),
                label=", ".join(options),
                label_smoothing=0.1,
                **options,
            ),
            case(
                "label_weights",
                ops.label_weights,
                _label_weights,
                [fixed([[0, 3], [2, options.get("ignore_index", 1)]])],
                label=", ".join(options),
                smooth=False,
                **options,
            ),
        )
    ),
    case(
        "softmax_cross_entropy",
        ops.softmax_cross_entropy,
        _smoothed,
        [normal(5, 4), whole(0, 4, 5)],
        batch=(0, 1),
        label_smoothing=0.2,
    ),
    case(
        "huber_loss",
        ops.huber_loss,
        _huber,
        [fixed([[0.3, -0.3], [2.5, -2.5]]), fixed([[0.0, 0.1], [0.0, 0.1]])],
        batch=(0, 1),
    ),
    case(
        "huber_loss",
        ops.huber_loss,
        _huber,
        [fixed([[0.3, -0.3], [2.5, -2.5]]), fixed([[0.0, 0.1], [0.0, 0.1]])],
        batch=(0, 1),
        delta=2.0,
    ),
    case(
        "kl_divergence",
        ops.kl_divergence,
        lambda log_p, t: (t * (np.log(t) - log_p)).sum(-1),
        [normal(3, 2), between(0.1, 1, 3, 2)],
        batch=(0, 1),
    ),
    case(
        "kl_divergence",
        lambda log_p: ops.kl_divergence(log_p, [0.0, 1.0]),
        lambda log_p: -log_p[:, 1],
        [normal(3, 2)],
        label="target 0",
    ),
    case(
        "classification_error",
        ops.classification_error,
        lambda p, label: np.mean(p.argmax(1) != label),
        [distinct(5, 4), whole(0, 4, 5)],
        batch=(0, 1),
        smooth=False,
    ),
]
