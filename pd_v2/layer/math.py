"""Layers that combine rows."""

import pd_core as pd

from ..activation import Linear
from ..attr import ExtraLayerAttribute
from ._legacy import layer

_EXTRA = ("drop_rate", "error_clipping_threshold")


@layer("addto", "addto", Linear, several=True, supports=_EXTRA)
def addto(scope, input, act=None, name=None, bias_attr=None, layer_attr=None):
    """act(sum of the inputs, plus b); inputs of equal size, no bias unless one is asked for."""
    return _sum(scope, input, bias_attr)


def _sum(scope, input, bias_attr=None):
    for x in input[1:]:
        if x.size != input[0].size:
            raise pd.ShapeError(f"{input[0].name!r} is {input[0].size} wide, {x.name!r} {x.size}")
    bias = scope.bias([1, input[0].size], bias_attr) if bias_attr else None
    images = [x.image for x in input]
    same = bias is None and all(i is not None and i.dims == images[0].dims for i in images)
    y, *others = images if same else input
    for x in [*others, *([] if bias is None else [bias])]:
        y = y + x
    channels = [x.num_filters for x in input if x.num_filters]
    scope.num_filters = channels[-1] if channels else None
    scope.set_geometry(input[0].height, input[0].width, input[0].depth)
    return y


@layer("concat", "concat", Linear, several=True, supports=_EXTRA)
def concat(scope, input, act=None, name=None, layer_attr=None, bias_attr=None):
    """act of the inputs side by side; their images, if any, have one height and width."""
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
    """The input with a share `dropout_rate` of its elements zeroed in training.

    What is kept is not scaled; inference multiplies by 1 - dropout_rate instead.
    """
    return _dropout(input=input, name=name, layer_attr=ExtraLayerAttribute(drop_rate=dropout_rate))


@layer("addto", "dropout", Linear, several=True, supports=_EXTRA)
def _dropout(scope, input, act=None, name=None, layer_attr=None):
    return _sum(scope, input)
