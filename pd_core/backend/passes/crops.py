"""A crop and a padding of the crop as one Pad of ONNX Runtime, whose widths may be negative."""

import numpy as np

from ...graph.node import apply


def merged_crop(node, inputs):
    """A Pad of a Slice whose places are known, and which cuts nothing off where the Pad adds."""
    if node.op_type != "Pad" or node.attributes.get("mode", "constant") != "constant":
        return None
    crop, widths, *fill = inputs
    inner = crop.node
    if inner is None or inner.op_type != "Slice" or len(inner.inputs) != 4 or len(fill) != 1:
        return None
    image, *places = inner.inputs
    if any(v.value is None for v in (widths, *places)):
        return None
    added = widths.value.reshape(2, image.rank)
    cut = np.zeros_like(added)
    for start, end, axis in zip(*(v.value.tolist() for v in places), strict=True):
        size = image.dims[axis]
        if not isinstance(size, int) or not 0 <= start <= end <= size:
            return None
        cut[:, axis] = start, size - end
    if np.any((added > 0) & (cut > 0)):
        return None
    return (apply("Pad", image, (added - cut).reshape(-1), *fill, known=node.outputs[0].dims),)
