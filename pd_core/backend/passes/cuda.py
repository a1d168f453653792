"""Forms for CUDA, where ONNX Runtime leaves an operator to the CPU, with copies there and back."""

import numpy as np

from ...graph.node import Node, apply, refined
from ...graph.variable import Inputs
from .context import Context, Outputs

_LAST = np.iinfo(np.int64).max


def conv_transpose(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Crop alike on both sides of each axis, and the rest of a side from the result.

    ONNX Runtime 1.31 has no kernel for unequal padding.
    """
    attributes = dict(node.attributes)
    pads = attributes.pop("pads", None)
    automatic = attributes.get("auto_pad", "NOTSET") != "NOTSET"
    if pads is None or automatic or "output_shape" in attributes:
        return None
    n = len(pads) // 2
    both = [min(pair) for pair in zip(pads[:n], pads[n:], strict=True)]
    starts = [p - q for p, q in zip(pads[:n], both, strict=True)]
    rest = [p - q for p, q in zip(pads[n:], both, strict=True)]
    if not any(starts) and not any(rest):
        return None
    y = apply("ConvTranspose", *inputs, pads=[*both, *both], **attributes)
    ends = [-p if p else _LAST for p in rest]
    axes = np.arange(2, 2 + n)
    y = apply("Slice", y, np.array(starts), np.array(ends), axes)
    return (refined(y, node.outputs[0].dims),)
