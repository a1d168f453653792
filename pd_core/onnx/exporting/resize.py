"""Resize in the form that every tool takes: all axes, and numbers that are stored in the file.

Shape inference of tools, quantization and converters read `scales` and `sizes` only where they are
initializers, and few know the attribute `axes` of opset 18.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant

_ATTRIBUTES = {"axes", "keep_aspect_ratio_policy"}


def resize(node: Node, inputs: Inputs) -> tuple[Variable] | None:
    """Write a Resize of some axes to known sizes as one of all axes; None to keep the node."""
    padded: Inputs = (*inputs, *[None] * (4 - len(inputs)))
    x, roi, scales, sizes = padded
    axes = node.attributes.get("axes")
    stretched = node.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if roi is not None or not stretched or axes is None:
        return None
    axes = [k % x.rank for k in axes]
    attributes = {k: v for k, v in node.attributes.items() if k not in _ATTRIBUTES}
    known = node.outputs[0].dims
    if scales is not None:
        if scales.value is None:
            return None
        all_scales = np.ones(x.rank, np.float32)
        all_scales[axes] = scales.value
        return (_written(x, all_scales, None, attributes, known),)
    if all(isinstance(d, int) for d in known):
        return (_written(x, None, constant(np.array(known, np.int64)), attributes, known),)
    factors = _factors(x, axes, sizes, attributes.get("mode") != "nearest")
    if factors is not None:
        return (_written(x, factors, None, attributes, known),)
    parts = ops.split(sizes, [1] * len(axes)) if len(axes) > 1 else [sizes]
    target = [parts[axes.index(k)] if k in axes else ops.size_of(x, k) for k in range(x.rank)]
    return (_written(x, None, ops.concat(target), attributes, known),)


def _factors(x, axes, sizes, may_differ):
    """The scales that give these sizes, float32 for each axis; None where there are none.

    Unless they `may_differ`, they are those that a runtime divides the sizes to: the nearest pixel
    changes with the last bit.
    """
    if sizes.value is None or not all(isinstance(x.dims[k], int) for k in axes):
        return None
    factors = np.ones(x.rank, np.float32)
    for k, size in zip(axes, sizes.value, strict=True):
        factors[k] = np.float32(size) / np.float32(x.dims[k])
        if not may_differ and x.dims[k] * float(factors[k]) < size:
            return None
        while x.dims[k] * float(factors[k]) < size:  # the product is rounded down
            factors[k] = np.nextafter(factors[k], np.float32(np.inf))
    return factors


def _written(x, scales, sizes, attributes, known):
    inputs = [x, None, scales if scales is None else constant(scales)]
    inputs = [*inputs, sizes] if sizes is not None else inputs
    return apply("Resize", *inputs, **attributes, known=known)
