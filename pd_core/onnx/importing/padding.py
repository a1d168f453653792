"""`auto_pad` made explicit: as `pads` where sizes are known, else as a Pad before the operator."""

import numpy as np

from ... import ops
from ...graph.checks import per_axis
from .versions import until


@until(99, "Conv", "MaxPool", "AveragePool", "LpPool")
def _same(op):
    """SAME: the output size is the input size over the stride, rounded up."""
    a, x = op.attributes, op.inputs[0]
    window = list(a.get("kernel_shape") or op.inputs[1].dims[2:])
    kind, n = a.get("auto_pad", "NOTSET"), len(window)
    if not kind.startswith("SAME") or any(isinstance(k, str) for k in window):
        return
    strides, dilations = (per_axis(a.get(k) or 1, n) for k in ("strides", "dilations"))
    extents = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    if all(isinstance(d, int) for d in x.dims[2:]):
        missing = np.array(list(map(_missing, x.dims[2:], strides, extents)))
        sides = _sides(np.maximum(missing, 0), kind)
        a["pads"] = [int(p) for side in sides for p in side]
    elif op.op_type in ("Conv", "MaxPool") and op.outputs == 1:
        sizes = [ops.size_of(x, 2 + k) for k in range(n)]
        total = ops.concat([_missing(*axis) for axis in zip(sizes, strides, extents, strict=True)])
        lead = np.zeros(2, np.int64)
        before, after = (ops.concat([lead, v]) for v in _sides(ops.maximum(total, 0), kind))
        least = 0.0 if op.op_type == "Conv" else float(np.finfo(x.dtype).min)
        op.inputs[0] = ops.pad(x, before, after, least)
    else:
        return
    del a["auto_pad"]
    a.pop("ceil_mode", None)


def _missing(size, stride, extent):
    """Return the number of cells that the windows of one axis lack, for a number or a Variable."""
    return (-(-size // stride) - 1) * stride + extent - size


def _sides(total, kind):
    """Split total pads into those before and after; the odd one is after with SAME_UPPER."""
    small = total // 2
    return (small, total - small) if kind == "SAME_UPPER" else (total - small, small)


@until(99, "ConvTranspose")
def _same_transposed(op):
    """SAME: the output size is the input size times the stride, whatever the sizes are.

    Where windows leave gaps, ONNX Runtime has no cells behind the last one, and is followed here.
    """
    a = op.attributes
    window = list(a.get("kernel_shape") or op.inputs[1].dims[2:])
    kind, n = a.get("auto_pad", "NOTSET"), len(window)
    if (
        not kind.startswith("SAME")
        or "output_shape" in a
        or any(isinstance(k, str) for k in window)
    ):
        return
    strides, dilations, more = (
        per_axis(a.get(k) or default, n)
        for k, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    axes = zip(window, strides, dilations, more, strict=True)
    total = np.array([(k - 1) * d + 1 - s + p for k, s, d, p in axes])
    a["pads"] = [int(p) for side in _sides(np.maximum(total, 0), kind) for p in side]
    del a["auto_pad"]


@until(99, "MaxPool", "AveragePool", "LpPool")
def _windows_in_the_padding(op):
    """A last window of ceil_mode that would start in the padding is none, which ONNX 21 counts.

    Where all axes end as without ceil_mode, with pads that are shortened by such windows, they are
    written like that: runtimes and ONNX agree on these.
    """
    a, x = op.attributes, op.inputs[0]
    n = x.rank - 2
    if not a.get("ceil_mode", 0) or a.get("auto_pad", "NOTSET") != "NOTSET":
        return
    if not all(isinstance(d, int) for d in x.dims[2:]):
        return
    strides, dilations = (per_axis(a.get(k) or 1, n) for k in ("strides", "dilations"))
    pads = list(a.get("pads") or [0] * (2 * n))
    for k, (size, window) in enumerate(zip(x.dims[2:], a["kernel_shape"], strict=True)):
        extent = (window - 1) * dilations[k] + 1
        free, stride = size + pads[k] + pads[n + k] - extent, strides[k]
        count = -(-free // stride) + 1
        count -= (count - 1) * stride >= size + pads[k]
        if free // stride + 1 > count:
            pads[n + k] -= 1
        elif free // stride + 1 < count:
            return  # a window that only ceil_mode adds
    a["pads"] = pads
    del a["ceil_mode"]
