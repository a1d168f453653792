"""A crop and a padding of it as one Pad of ONNX Runtime, whose widths may be negative."""

from typing import Any

import numpy as np

from ...graph.node import Node, apply
from ...graph.variable import Inputs
from .context import Context, Outputs


def pad_of_crop(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Merge a constant Pad of a Slice with known bounds, if no end is both cut and padded."""
    if node.op_type != "Pad" or node.attributes.get("mode", "constant") != "constant":
        return None
    crop, widths, *fill = inputs
    inner = crop.node
    if inner is None or inner.op_type != "Slice" or len(inner.inputs) != 4 or len(fill) != 1:
        return None
    image, *bounds = inner.inputs
    if any(v.value is None for v in (widths, *bounds)):
        return None
    array: Any = widths.value
    added = array.reshape(2, image.rank)
    cut = np.zeros_like(added)
    for start, end, axis in zip(*(v.value.tolist() for v in bounds), strict=True):
        size = image.dims[axis]
        if not isinstance(size, int) or not 0 <= start <= end <= size:
            return None
        cut[:, axis] = start, size - end
    if np.any((added > 0) & (cut > 0)):
        return None
    return (apply("Pad", image, (added - cut).reshape(-1), *fill, known=node.outputs[0].dims),)
