"""Cost layers: one number a row; training minimises their sum over the batch.

`coeff` multiplies the gradient, not the value; `weight`, a layer of size 1, multiplies both. The
gradient goes to the input alone, also where the label or the weight is computed.
"""

import pd_core as pd

from .. import evaluator as evaluators
from ..config_base import Layer
from ._legacy import layer

_INPUTS = ("input", "label", "weight")


@layer("square_error", "square_error_cost", inputs=_INPUTS, label="cost")
def square_error_cost(scope, input, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """Sum over the row of (x - label)², without 1/2."""
    if label.rank != 2 or label.size != input.size:
        raise pd.ShapeError(f"{input.name!r} is {input.size} wide, its label is {label!r}")
    return _cost(scope, pd.square_error(input, pd.stop_gradient(label)), weight, coeff)


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


@layer("multi-class-cross-entropy", "cross_entropy", inputs=_INPUTS)
def cross_entropy_cost(scope, input, label, name=None, coeff=1.0, weight=None, layer_attr=None):
    """-ln p[label] for rows of probabilities."""
    return _cross_entropy(scope, input, label, weight, coeff)


def _cross_entropy(scope, input, label, weight, coeff):
    if label.size != input.size:
        raise pd.ShapeError(
            f"{input.name!r} has {input.size} probabilities, the label {label.size} classes"
        )
    return _cost(scope, pd.cross_entropy(input, label), weight, coeff)


def _cost(scope, value, weight, coeff):
    """The value of a cost: weighted rows, and a gradient times coeff."""
    if weight is not None:
        if weight.rank != 2 or weight.size != 1:
            raise pd.ShapeError(f"the weight {weight.name!r} is {weight.size} wide, not 1")
        value = value * pd.stop_gradient(weight)
    scope.config.coeff = coeff
    return value if coeff == 1.0 else pd.scale_gradient(value, coeff)
