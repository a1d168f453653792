"""`auto_pad` written out: as numbers where sizes are known, else as a Pad of its own."""

import numpy as np

from .. import ops
from ..graph.checks import per_axis
from .versions import until


@until(99, "Conv", "MaxPool", "AveragePool", "LpPool")
def _same(op):
    """As many results as the strides go into the image."""
    a, x = op.attributes, op.inputs[0]
    window = list(a.get("kernel_shape") or op.inputs[1].dims[2:])
    kind, n = a.get("auto_pad", "NOTSET"), len(window)
    if not kind.startswith("SAME") or any(isinstance(k, str) for k in window):
        return
    steps, holes = (per_axis(a.get(k) or 1, n) for k in ("strides", "dilations"))
    reach = [(k - 1) * d + 1 for k, d in zip(window, holes, strict=True)]
    if all(isinstance(d, int) for d in x.dims[2:]):
        total = np.array(list(map(_missing, x.dims[2:], steps, reach)))
        sides = _sides(np.maximum(total, 0), kind)
        a["pads"] = [int(p) for side in sides for p in side]
    elif op.op_type in ("Conv", "MaxPool") and op.outputs == 1:
        sizes = [ops.size_of(x, 2 + k) for k in range(n)]
        total = ops.concat([_missing(*axis) for axis in zip(sizes, steps, reach, strict=True)])
        lead = np.zeros(2, np.int64)
        before, after = (ops.concat([lead, v]) for v in _sides(ops.maximum(total, 0), kind))
        least = 0.0 if op.op_type == "Conv" else float(np.finfo(x.dtype).min)
        op.inputs[0] = ops.pad(x, before, after, least)
    else:
        return
    del a["auto_pad"]
    a.pop("ceil_mode", None)


def _missing(size, step, reach):
    """How many cells the windows of one axis lack; sizes are numbers or Variables."""
    count = (size + (step - 1)) / step if not isinstance(size, int) else -(-size // step)
    return (count - 1) * step + reach - size


def _sides(total, kind):
    """What stands before and after; the odd cell is after with SAME_UPPER, else before."""
    small = total // 2 if isinstance(total, np.ndarray) else total / 2
    return (small, total - small) if kind == "SAME_UPPER" else (total - small, small)
