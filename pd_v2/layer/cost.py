"""Cost layers: one number a row; training minimises their sum over the batch.

`coeff` multiplies the gradient, not the value; `weight`, a layer of size 1, multiplies both. The
gradient goes to the input alone, also where the label or the weight is computed.
"""

import pd_core as pd

from .. import evaluator as evaluators
from ..config_base import Layer
from .base import layer

_INPUTS = ("input", "label", "weight")


@layer("square_error", "square_error_cost", inputs=_INPUTS, label="cost", sparse=("label",))
def square_error_cost(scope, input, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """Sum over the row of (x - label)², without 1/2."""
    value = pd.square_error(input, _numbers(label, input.size, input))
    return _cost(scope, value, weight, coeff)


regression_cost = square_error_cost


@layer("multi-class-cross-entropy", "cost", inputs=_INPUTS, label="cost")
def _classification_cost(scope, input, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """-ln p[label]."""
    return _cross_entropy(scope, input, label, weight, coeff)


def classification_cost(
    input,
    label,
    weight=None,
    name=None,
    evaluator=evaluators.classification_error,
    layer_attr=None,
    coeff=1.0,
):
    """-ln p[label] of a softmax layer, and the share of wrong rows among the metrics.

    `evaluator` is one function of `paddle.evaluator` or a list of them; the metric is named after
    the function (`classification_error_evaluator`).
    """
    wanted = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    _check_classification(input, label, wanted)
    out = _classification_cost(
        input=input, label=label, weight=weight, name=name, coeff=coeff, layer_attr=layer_attr
    )
    for e in wanted:
        e(name=f"{e.__name__}_evaluator", input=input, label=label, weight=weight)
    return out


def _check_classification(input, label, wanted):
    for x in (input, label):
        if not isinstance(x, Layer):
            raise TypeError(f"classification_cost: input and label are layers, not {x!r}")
    if input.activation is None or input.activation.name != "softmax":
        raise pd.GraphError(f"classification_cost: {input.name!r} must have a Softmax activation")
    if label.layer_type != "data":
        raise pd.GraphError(f"classification_cost: the label {label.name!r} must be a data layer")
    for e in wanted:
        if not callable(e):
            raise TypeError(f"classification_cost: evaluator is a function or a list, not {e!r}")


@layer("multi-class-cross-entropy", "cross_entropy", inputs=_INPUTS, sparse=("label",))
def cross_entropy_cost(scope, input, label, name=None, coeff=1.0, weight=None, layer_attr=None):
    """-ln p[label] for rows of probabilities; the label is an id, or a sparse row of one column."""
    return _cross_entropy(scope, input, label, weight, coeff)


def cross_entropy_with_selfnorm_cost(
    input, label, name=None, coeff=1.0, softmax_selfnorm_alpha=0.1, layer_attr=None
):
    """-ln(x[label] / Z) + alpha ln² Z for rows of positive numbers with the sum Z.

    Training drives Z towards 1, so that inference can do without the division.
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
    """Sum over the row of -ln p where the label holds, -ln(1 - p) elsewhere.

    The label is one id that holds, a sparse row of those, or a row of numbers, of which those above
    1/2 hold.
    """
    if label.dtype.kind == "f" or label.sparse is not None:
        holds = pd.cast(_numbers(label, input.size, input) > 0.5, input.dtype)
    else:
        _check_classes(input, label)  # one_hot would take other ids for none
        holds = pd.one_hot(label, input.size, input.dtype)
    value = pd.reduce_sum(pd.binary_cross_entropy(input, holds), [1], keep_dim=True)
    return _cost(scope, value, None, coeff)


@layer("rank-cost", "rank_cost", inputs=("left", "right", "label", "weight"))
def rank_cost(scope, left, right, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """ln(1 + e^o) - label o for o = left - right: RankNet (Burges et al. 2005).

    The label is the probability that left ranks above right, or an id of 0 or 1. o is held within
    [-40, 40], where the gradient still passes. `coeff` is recorded and, as in 2017, not used.
    """
    for x in (left, right):
        _check_single(x)
    order = left - right
    held = order + pd.stop_gradient(pd.clip(order, -40.0, 40.0) - order)
    target = _numbers(label, 1, left) if label.dtype.kind == "f" else _ids(label)
    out = _cost(scope, pd.sigmoid_cross_entropy(held, target), weight, 1.0)
    scope.config.coeff = coeff
    return out


@layer("sum_cost", "sum_cost")
def sum_cost(scope, input, name=None, layer_attr=None):
    """Sum over the row: a layer that is a cost already."""
    return _cost(scope, pd.reduce_sum(input, [1], keep_dim=True), None, 1.0)


@layer("huber_regression", "huber_regression_cost", inputs=("input", "label"))
def huber_regression_cost(scope, input, label, name=None, delta=1.0, coeff=1.0, layer_attr=None):
    """Sum over the row of a²/2 up to a = delta, a line beyond; a = |x - label| (Huber 1964)."""
    if delta <= 0:
        raise pd.GraphError(f"delta is positive, not {delta}")
    scope.config.delta = delta
    return _cost(scope, _huber(input, label, delta), None, coeff)


@layer("smooth_l1", "smooth_l1_cost", inputs=("input", "label"))
def smooth_l1_cost(scope, input, label, name=None, coeff=1.0, layer_attr=None):
    """Sum over the row of d²/2 where |d| < 1, |d| - 1/2 elsewhere; d = x - label."""
    return _cost(scope, _huber(input, label, 1.0), None, coeff)


def _huber(input, label, delta):
    away = pd.abs(input - _numbers(label, input.size, input))
    line = delta * (away - 0.5 * delta)
    value = pd.where(away <= delta, 0.5 * pd.square(away), line)
    return pd.reduce_sum(value, [1], keep_dim=True)


@layer("huber_classification", "huber_classification_cost", inputs=("input", "label"))
def huber_classification_cost(scope, input, label, name=None, coeff=1.0, layer_attr=None):
    """-4a below a = -1, (1 - a)² up to 1, then 0; a = x for the id 1, -x for 0 (Zhang 2004)."""
    _check_single(input)
    margin = input * (2.0 * _ids(label) - 1.0)
    near = pd.square(pd.relu(1.0 - margin))
    return _cost(scope, pd.where(margin < -1.0, -4.0 * margin, near), None, coeff)


def _numbers(label, size, input):
    """A label of numbers, `size` in a row; no gradient goes there."""
    rows = label if label.sparse is None else label.sparse.dense()
    if rows.rank != 2 or label.size != size:
        raise pd.ShapeError(f"{input.name!r} is {input.size} wide, its label is {label!r}")
    return pd.stop_gradient(rows)


def _check_single(x):
    if x.rank != 2 or x.size != 1:
        raise pd.ShapeError(f"the input is one number a row, not {x!r}")


def _ids(label):
    """A label of ids as numbers [N, 1]."""
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
    """Ids may be described with another range, as in 2017: if one is no class, the step fails."""
    if not label.holds_ids:
        _check_classes(input, label)


def weighted(value, weight):
    """The rows of a cost times a layer of size 1, if there is one; no gradient goes there."""
    if weight is None:
        return value
    if weight.rank != 2 or weight.size != 1:
        raise pd.ShapeError(f"the weight {weight.name!r} is {weight.size} wide, not 1")
    return value * pd.stop_gradient(weight)


def _cost(scope, value, weight, coeff):
    """The value of a cost: weighted rows, and a gradient times coeff."""
    value = weighted(value, weight)
    scope.config.coeff = coeff
    return value if coeff == 1.0 else pd.scale_gradient(value, coeff)
