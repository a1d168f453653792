"""Cost layers: one number per row; training minimises their sum over the batch.

`coeff` multiplies the gradient, not the value; `weight`, a layer of size 1, multiplies both. Only
the input gets a gradient, even where the label or the weight is computed by layers.
"""

import pd_core as pd

from ..config_base import Layer
from ..evaluator import classification_error
from .base import layer

_INPUTS = ("input", "label", "weight")


@layer("square_error", "square_error_cost", inputs=_INPUTS, label="cost", sparse=("label",))
def square_error_cost(scope, input, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """Squared error: the sum over the row of (x - label)², without 1/2."""
    value = pd.square_error(input, _numbers(label, input.size, input))
    return _cost(scope, value, weight, coeff)


regression_cost = square_error_cost


@layer("multi-class-cross-entropy", "cost", inputs=_INPUTS, label="cost")
def _classification_cost(scope, input, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """Cross-entropy: -ln p[label]."""
    return _cross_entropy(scope, input, label, weight, coeff)


def classification_cost(
    input, label, weight=None, name=None, evaluator=classification_error, layer_attr=None, coeff=1.0
):
    """Cross-entropy of a softmax layer, -ln p[label], with the error rate as a metric.

    `evaluator` is one function of `paddle.evaluator` or a list of them; the metric is named after
    the function (`classification_error_evaluator`).
    """
    evaluators = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    _check_classification(input, label, evaluators)
    out = _classification_cost(
        input=input, label=label, weight=weight, name=name, coeff=coeff, layer_attr=layer_attr
    )
    for e in evaluators:
        e(name=f"{e.__name__}_evaluator", input=input, label=label, weight=weight)
    return out


def _check_classification(input, label, evaluators):
    for x in (input, label):
        if not isinstance(x, Layer):
            raise TypeError(f"classification_cost: input and label are layers, not {x!r}")
    if input.activation is None or input.activation.name != "softmax":
        raise pd.GraphError(f"classification_cost: {input.name!r} must have a Softmax activation")
    if label.layer_type != "data":
        raise pd.GraphError(f"classification_cost: the label {label.name!r} must be a data layer")
    for e in evaluators:
        if not callable(e):
            raise TypeError(f"classification_cost: evaluator is a function or a list, not {e!r}")


@layer("multi-class-cross-entropy", "cross_entropy", inputs=_INPUTS, sparse=("label",))
def cross_entropy_cost(scope, input, label, name=None, coeff=1.0, weight=None, layer_attr=None):
    """Cross-entropy of rows of probabilities, -ln p[label].

    The label is an id, or a sparse row of one column.
    """
    return _cross_entropy(scope, input, label, weight, coeff)


def cross_entropy_with_selfnorm_cost(
    input, label, name=None, coeff=1.0, softmax_selfnorm_alpha=0.1, layer_attr=None
):
    """Self-normalized cross-entropy: -ln(x[label] / Z) + alpha ln² Z, Z the sum of the row.

    The rows are positive numbers. Training drives Z towards 1, so that inference need not divide
    by it (Devlin et al. 2014).
    """
    out = _selfnorm(
        input=input,
        label=label,
        name=name,
        coeff=coeff,
        softmax_selfnorm_alpha=softmax_selfnorm_alpha,
        layer_attr=layer_attr,
    )
    out.config.ClearField("size")  # 2017 left it open
    return out


@layer(
    "multi_class_cross_entropy_with_selfnorm",
    "cross_entropy_with_selfnorm",
    inputs=("input", "label"),
)
def _selfnorm(scope, input, label, name, coeff, softmax_selfnorm_alpha, layer_attr):
    _check_label(input, label)
    scope.config.softmax_selfnorm_alpha = softmax_selfnorm_alpha
    log_sum = pd.log(pd.reduce_sum(input, [1], keep_dim=True))
    value = pd.cross_entropy(input, label) + log_sum
    return _cost(scope, value + softmax_selfnorm_alpha * pd.square(log_sum), None, coeff)


@layer(
    "multi_binary_label_cross_entropy",
    "multi_binary_label_cross_entropy",
    inputs=("input", "label"),
    sparse=("label",),
)
def multi_binary_label_cross_entropy_cost(
    scope, input, label, name=None, coeff=1.0, layer_attr=None
):
    """Binary cross-entropy summed over the row: -ln p of positive columns, -ln(1 - p) of others.

    The label names the positive columns: an id, a sparse row, or a row of numbers, which are
    positive above 1/2. As in 2017 the numbers of a sparse row do not count, and a column that it
    names twice costs ln((1 - p) / p) twice.
    """
    if label.sparse is not None:
        _check_classes(input, label)
        positive = label.sparse.occurrences()
    elif label.dtype.kind == "f":
        positive = pd.cast(_numbers(label, input.size, input) > 0.5, input.dtype)
    else:
        _check_classes(input, label)  # one_hot gives zeros for an id out of range
        positive = pd.one_hot(label, input.size, input.dtype)
    value = pd.reduce_sum(pd.binary_cross_entropy(input, positive), [1], keep_dim=True)
    return _cost(scope, value, None, coeff)


@layer("rank-cost", "rank_cost", inputs=("left", "right", "label", "weight"))
def rank_cost(scope, left, right, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """RankNet's cost: ln(1 + e^o) - label o for o = left - right (Burges et al. 2005).

    The label is the probability that left ranks above right, or an id of 0 or 1. o is clipped to
    [-40, 40] with a straight-through gradient. As in 2017 `coeff` is recorded and not used.
    """
    for x in (left, right):
        _check_single(x)
    order = left - right
    clipped = order + pd.stop_gradient(pd.clip(order, -40.0, 40.0) - order)
    target = _numbers(label, 1, left) if label.dtype.kind == "f" else _ids(label)
    out = _cost(scope, pd.sigmoid_cross_entropy(clipped, target), weight, 1.0)
    scope.config.coeff = coeff
    return out


@layer("sum_cost", "sum_cost")
def sum_cost(scope, input, name=None, layer_attr=None):
    """Sum over the row, for a layer that computes a cost itself."""
    return _cost(scope, pd.reduce_sum(input, [1], keep_dim=True), None, 1.0)


@layer("huber_regression", "huber_regression_cost", inputs=("input", "label"))
def huber_regression_cost(scope, input, label, name=None, delta=1.0, coeff=1.0, layer_attr=None):
    """Huber's cost, the sum over the row of a²/2 up to a = |x - label| = delta, linear beyond."""
    if delta <= 0:
        raise pd.GraphError(f"delta is positive, not {delta}")
    scope.config.delta = delta
    return _cost(scope, _huber(input, label, delta), None, coeff)


@layer("smooth_l1", "smooth_l1_cost", inputs=("input", "label"))
def smooth_l1_cost(scope, input, label, name=None, coeff=1.0, layer_attr=None):
    """Smooth L1: the sum over the row of d²/2 where |d| < 1, else |d| - 1/2; d = x - label."""
    return _cost(scope, _huber(input, label, 1.0), None, coeff)


def _huber(input, label, delta):
    value = pd.huber_loss(input, _numbers(label, input.size, input), delta)
    return pd.reduce_sum(value, [1], keep_dim=True)


@layer("huber_classification", "huber_classification_cost", inputs=("input", "label"))
def huber_classification_cost(scope, input, label, name=None, coeff=1.0, layer_attr=None):
    """Modified Huber cost (Zhang 2004): -4a for a < -1, (1 - a)² up to 1, else 0.

    The margin a is x for the id 1, -x for 0.
    """
    _check_single(input)
    margin = input * (2.0 * _ids(label) - 1.0)
    squared_hinge = pd.square(pd.relu(1.0 - margin))
    return _cost(scope, pd.where(margin < -1.0, -4.0 * margin, squared_hinge), None, coeff)


def _numbers(label, size, input):
    """Return a label of `size` numbers a row, without a gradient."""
    rows = label if label.sparse is None else label.sparse.dense()
    if rows.rank != 2 or label.size != size:
        raise pd.ShapeError(f"{input.name!r} is {input.size} wide, its label is {label!r}")
    return pd.stop_gradient(rows)


def _check_single(x):
    if x.rank != 2 or x.size != 1:
        raise pd.ShapeError(f"the input is one number a row, not {x!r}")


def _ids(label):
    """Return a label of ids as numbers [N, 1]."""
    if label.dtype.kind != "i":
        raise pd.DTypeError(f"the label {label.name!r} holds ids, 0 or 1, not {label!r}")
    return pd.unsqueeze(pd.cast(label, "float32"), 1)


def _cross_entropy(scope, input, label, weight, coeff):
    _check_label(input, label)
    return _cost(scope, pd.cross_entropy(input, label), weight, coeff)


def _check_classes(input, label):
    if label.size != input.size:
        raise pd.ShapeError(
            f"{input.name!r} has {input.size} probabilities, the label {label.size} classes"
        )


def _check_label(input, label):
    """Check the width of a label, but not the range of ids.

    As in 2017 that may differ from the number of classes; a step fails on an id that is no class.
    """
    if not label.holds_ids:
        _check_classes(input, label)


def weighted(value, weight):
    """Return the rows of a cost times a weight, a layer of size 1 without a gradient, or None."""
    if weight is None:
        return value
    if weight.rank != 2 or weight.size != 1:
        raise pd.ShapeError(f"the weight {weight.name!r} is {weight.size} wide, not 1")
    return value * pd.stop_gradient(weight)


def _cost(scope, value, weight, coeff):
    """Return the value of a cost: weighted rows, with a gradient times `coeff`."""
    value = weighted(value, weight)
    scope.config.coeff = coeff
    return value if coeff == 1.0 else pd.scale_gradient(value, coeff)
