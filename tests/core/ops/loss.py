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
    return np.where(kept, -_picked(log_p * weight, label), 0.0)


def _smoothed(z, label, weight=None, ignore_index=None, label_smoothing=0.0):
    """The cross-entropy with the mixture of a one-hot and the uniform distribution."""
    classes = z.shape[1]
    weight = np.ones(classes) if weight is None else np.asarray(weight)
    target = (1 - label_smoothing) * np.eye(classes)[np.where(label < 0, 0, label)]
    target += label_smoothing / classes
    loss = -(target * log_softmax(z) * weight).sum(1, keepdims=True)
    return np.where(label.reshape(-1, 1) != ignore_index, loss, 0.0)


def _label_weights(label, weight=(1, 1, 1, 1), ignore_index=None):
    return np.where(label == ignore_index, 0, np.asarray(weight)[label]).astype("float32")


def _huber(x, t, delta=1.0):
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def _along(loss, z, label, *options):
    """A loss of rows, of [B, C, T]."""
    rows = z.transpose(0, 2, 1).reshape(-1, z.shape[1])
    return loss(rows, label.reshape(-1), *options).reshape(len(z), 1, -1)


def _contrastive(x, y, same, margin):
    d = np.linalg.norm(x - y, axis=-1, keepdims=True)
    return (same * d**2 + (1 - same) * np.maximum(margin - d, 0) ** 2) / 2


def _triplet(anchor, positive, negative, margin, p):
    near, far = (
        np.linalg.norm(anchor - v + 1e-6, p, axis=-1, keepdims=True) for v in (positive, negative)
    )
    return np.maximum(near - far + margin, 0)


def _cosine(x, y, label, margin):
    norms = np.linalg.norm(x, axis=-1, keepdims=True) * np.linalg.norm(y, axis=-1, keepdims=True)
    cosine = (x * y).sum(-1, keepdims=True) / norms
    return np.where(label > 0, 1 - cosine, np.maximum(cosine - margin, 0))


def _focal(z, t, alpha, gamma):
    p = _sigmoid(z)
    weight = 1 if alpha is None else alpha * t + (1 - alpha) * (1 - t)
    return weight * _binary(p, t) * (1 - (p * t + (1 - p) * (1 - t))) ** gamma


def _dice(p, t):
    both, total = (v.sum((1, 2)).reshape(-1, 1) for v in (p * t, p + t))
    return 1 - (2 * both + 1) / (total + 1)


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
        "sigmoid_cross_entropy",
        lambda z, t: ops.sigmoid_cross_entropy(z, t, [0.5, 3.0]),
        lambda z, t: _binary(_sigmoid(z), t) - np.array([-0.5, 2.0]) * t * np.log(_sigmoid(z)),
        [normal(3, 2), between(0, 1, 3, 2)],
        label="positive weights",
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
    case(
        "softmax_cross_entropy",
        lambda z, t, label: [
            ops.softmax_cross_entropy(z, label, axis=1),
            ops.softmax_cross_entropy(z, t, WEIGHT, label_smoothing=0.1, axis=1),
            ops.negative_log_likelihood(z, label, WEIGHT, -1, axis=1),
            ops.cross_entropy(ops.softmax(z, 1), label, 1),
        ],
        lambda z, t, label: [
            _along(_smoothed, z, label),
            -(
                (0.9 * t + 0.025)
                * log_softmax(z.transpose(0, 2, 1)).transpose(0, 2, 1)
                * WEIGHT[:, None]
            ).sum(1, keepdims=True),
            _along(_likelihood, z, label, WEIGHT),
            _along(_smoothed, z, label),
        ],
        [normal(2, 4, 3), between(0, 1, 2, 4, 3), whole(0, 4, 2, 3)],
        batch=(0, 1, 2),
        label="of steps",
    ),
    case(
        "metric_losses",
        lambda x, y, z: [
            ops.contrastive_loss(x, y, [[1.0], [0.0], [0.0]], 4.0),
            ops.triplet_loss(x, y, z, 2.0),
            ops.triplet_loss(x, y, z, 2.0, 1.0),
            ops.triplet_loss(x, y, z, 2.0, 3.0),
            ops.cosine_embedding_loss(x, y, [[1], [-1], [-1]], -0.9),
            ops.margin_ranking_loss(x, y, [[1], [-1], [-1]], 0.05),
        ],
        lambda x, y, z: [
            _contrastive(x, y, np.array([[1], [0], [0]]), 4.0),
            *(_triplet(x, y, z, 2.0, p) for p in (2, 1, 3)),
            _cosine(x, y, np.array([[1], [-1], [-1]]), -0.9),
            np.maximum(0, 0.05 - np.array([[1], [-1], [-1]]) * (x - y)),
        ],
        [normal(3, 4), normal(3, 4), normal(3, 4)],
        batch=(),
    ),
    case(
        "target_losses",
        lambda x, t, v: [
            ops.l1_loss(x, t),
            ops.hinge_loss(x, [[1, -1, 1, -1]]),
            ops.poisson_nll_loss(x, t),
            ops.poisson_nll_loss(v, t, log_input=False),
            ops.gaussian_nll_loss(x, t, v),
        ],
        lambda x, t, v: [
            np.abs(x - t),
            np.maximum(0, 1 - np.array([[1, -1, 1, -1]]) * x),
            np.exp(x) - t * x,
            v - t * np.log(v + 1e-8),
            (np.log(v) + (x - t) ** 2 / v) / 2,
        ],
        [normal(3, 4), between(0, 3, 3, 4), between(0.5, 2, 3, 4)],
        batch=(0, 1, 2),
    ),
    case(
        "class_losses",
        lambda z, t: [
            ops.focal_loss(z, t),
            ops.focal_loss(z, t, None, 1.5),
            ops.dice_loss(ops.sigmoid(z), t),
        ],
        lambda z, t: [_focal(z, t, 0.25, 2), _focal(z, t, None, 1.5), _dice(_sigmoid(z), t)],
        [normal(3, 2, 4), between(0, 1, 3, 2, 4)],
        batch=(0, 1),
    ),
]
