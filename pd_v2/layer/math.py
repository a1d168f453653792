"""Elementwise layers, and layers that normalise rows."""

import pd_core as pd

from ..activation import Linear
from ..attr import ExtraLayerAttribute, ParameterAttribute
from .base import layer
from .mixed import Projection, concat_projections

_EXTRA = ("drop_rate", "error_clipping_threshold")


@layer("addto", "addto", Linear, several=True, supports=_EXTRA)
def addto(scope, input, act=None, name=None, bias_attr=None, layer_attr=None):
    """act(sum of the inputs, plus b); inputs of equal size, no bias by default."""
    return _sum(scope, input, bias_attr)


def _sum(scope, input, bias_attr=None):
    for x in input[1:]:
        if x.size != input[0].size:
            raise pd.ShapeError(f"{input[0].name!r} is {input[0].size} wide, {x.name!r} {x.size}")
    bias = scope.bias([1, input[0].size], bias_attr) if bias_attr else None
    images = [x.image for x in input]
    as_images = bias is None and all(i is not None and i.dims == images[0].dims for i in images)
    y, *others = images if as_images else input
    for x in [*others, *([] if bias is None else [bias])]:
        y = y + x
    channels = [x.num_filters for x in input if x.num_filters]
    scope.num_filters = channels[-1] if channels else None
    # as in 2017 the last input that is an image decides
    shape = next((x for x in reversed(input) if x.height), input[0])
    scope.set_geometry(shape.height, shape.width, shape.depth)
    return y


def concat(input, act=None, name=None, layer_attr=None, bias_attr=None):
    """act of the inputs side by side: layers, or projections of layers.

    Layers that are images must have one height and width. A bias is for projections, and only a
    Param makes one.
    """
    items = list(input) if isinstance(input, (list, tuple)) else [input]
    function = concat_projections if any(isinstance(x, Projection) for x in items) else _concat
    return function(input=items, act=act, name=name, layer_attr=layer_attr, bias_attr=bias_attr)


@layer("concat", "concat", Linear, several=True, supports=_EXTRA)
def _concat(scope, input, act=None, name=None, layer_attr=None, bias_attr=None):
    if bias_attr:
        raise pd.GraphError("a concatenation of layers has no bias")
    for x in input[1:]:
        sizes = {(x.height, x.width), (input[0].height, input[0].width)} - {(0, 0)}
        if len(sizes) > 1:
            raise pd.ShapeError(f"images of {sorted(sizes)} pixels cannot stand side by side")
    scope.set_geometry(input[0].height, input[0].width, input[0].depth)
    if all(x.image is not None for x in input):
        return pd.concat([x.image for x in input], axis=1)
    return pd.concat(input, axis=1)


def dropout(input, dropout_rate, name=None):
    """Dropout: each element is zeroed with probability `dropout_rate` in training.

    The other elements are not scaled; inference multiplies by 1 - dropout_rate instead.
    """
    return _dropout(input=input, name=name, layer_attr=ExtraLayerAttribute(drop_rate=dropout_rate))


@layer("addto", "dropout", Linear, several=True, supports=_EXTRA)
def _dropout(scope, input, act=None, name=None, layer_attr=None):
    return _sum(scope, input)


@layer(
    "interpolation",
    "interpolation_layer",
    inputs=("weight", "input"),
    several=True,
    rows=("weight", "input"),
)
def interpolation(scope, input, weight, name=None, layer_attr=None):
    """Interpolate two inputs: w a + (1 - w) b, with one number w per row."""
    if len(input) != 2:
        raise pd.GraphError(f"an interpolation is of two layers, not {len(input)}")
    a, b = input
    _same_size(a, b)
    return b + _one_number(weight) * (a - b)


@layer("power", "power_layer", inputs=("weight", "input"), rows=("weight", "input"))
def power(scope, input, weight, name=None, layer_attr=None):
    """x to the power of w, with one number w per row."""
    return input ** _one_number(weight)


@layer("scaling", "scaling_layer", inputs=("weight", "input"), rows=("weight", "input"))
def scaling(scope, input, weight, name=None, layer_attr=None):
    """Scale rows: w x, with one number w per row."""
    return _one_number(weight) * input


@layer("slope_intercept", "slope_intercept_layer")
def slope_intercept(scope, input, name=None, slope=1.0, intercept=0.0, layer_attr=None):
    """slope x + intercept, for two constants."""
    scope.config.slope, scope.config.intercept = slope, intercept
    y = input if slope == 1 else input * float(slope)
    return y if intercept == 0 else y + float(intercept)


@layer("sum_to_one_norm", "sum_to_one_norm_layer")
def sum_to_one_norm(scope, input, name=None, layer_attr=None):
    """Divide each row by its sum."""
    return input / pd.reduce_sum(input, [1], keep_dim=True)


@layer("row_l2_norm", "row_l2_norm_layer")
def row_l2_norm(scope, input, name=None, layer_attr=None):
    """Divide each row by its L2 norm, which must not be 0."""
    return input / pd.sqrt(pd.reduce_sum(pd.square(input), [1], keep_dim=True))


@layer("clip", "clip")
def clip(scope, input, min, max, name=None):
    """Clip x to [min, max]; the gradient outside is 0."""
    if not min < max:
        raise pd.GraphError(f"clip: min {min} is not below max {max}")
    conf = scope.config.inputs[0].clip_conf
    conf.min, conf.max = min, max
    return pd.clip(input, float(min), float(max))


@layer("scale_shift", "scale_shift")
def scale_shift(scope, input, name=None, param_attr=None, bias_attr=None):
    """w x + b, with two learned numbers."""
    y = input * scope.weight(0, [1, 1], param_attr)
    bias = scope.bias([1, 1], bias_attr)
    return y if bias is None else y + bias


@layer("prelu", "prelu_layer")
def prelu(
    scope,
    input,
    name=None,
    partial_sum=1,
    channel_shared=None,
    num_channels=None,
    param_attr=None,
    layer_attr=None,
):
    """Parametric ReLU: x where positive, else a x, with a learned slope a, initially 0.25.

    Each `partial_sum` consecutive columns share a slope; `channel_shared=True` means one slope for
    all, False one per channel (He et al. 2015).
    """
    if channel_shared is not None:
        partial_sum = input.size if channel_shared else input.height * input.width
    if partial_sum < 1 or input.size % partial_sum:
        raise pd.ShapeError(
            f"{input.name!r} is {input.size} wide, which does not split into groups of "
            f"{partial_sum}"
        )
    groups = input.size // partial_sum
    attr = param_attr or ParameterAttribute(initial_mean=0.25, initial_std=0.0)
    a = scope.weight(0, [1, groups], attr)
    if 1 < groups < input.size:
        a = pd.reshape(pd.expand(pd.unsqueeze(a, 2), [1, groups, partial_sum]), [1, input.size])
    scope.config.partial_sum = partial_sum
    scope.set_geometry(input.height, input.width, input.depth)
    scope.num_filters = num_channels or input.num_filters
    return pd.where(input > 0.0, input, input * a)


def _same_size(a, b):
    if a.size != b.size:
        raise pd.ShapeError(f"{a.name!r} is {a.size} wide, {b.name!r} {b.size}")


def _one_number(weight):
    if weight.size != 1:
        raise pd.ShapeError(f"the weight {weight.name!r} is {weight.size} wide, not 1")
    return weight
