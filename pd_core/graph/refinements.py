"""Output sizes that ONNX's shape inference loses.

`refinements[op_type](node)` returns the dims of the first output, or None.
`fallbacks[op_type](node, k)` returns dims and dtype of an output where ONNX infers no rank at all.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from onnx import helper

from .broadcast import BROADCASTING, broadcast_dims, broadcast_size
from .errors import ShapeError
from .operator import Operator
from .variable import Dim, Dims, MaybeNone, OutputType, Variable, fresh_dim

_Refinement = TypeVar("_Refinement", bound=Callable[[Operator], Dims | None])
_Fallback = TypeVar("_Fallback", bound=Callable[[Operator, int], OutputType])

refinements: dict[str, Callable[[Operator], Dims | None]] = {}
fallbacks: dict[str, Callable[[Operator, int], OutputType]] = {}


def fallback(*op_types: str) -> Callable[[_Fallback], _Fallback]:
    """Register fn(node, k) -> (dims, dtype) of an output where ONNX infers no rank at all."""
    return lambda fn: fallbacks.update(dict.fromkeys(op_types, fn)) or fn


def refinement(*op_types: str) -> Callable[[_Refinement], _Refinement]:
    """Register fn(node) -> dims of the first output, or None, for these operators."""
    return lambda fn: refinements.update(dict.fromkeys(op_types, fn)) or fn


@refinement(*BROADCASTING)
def _broadcast(node: Any) -> Any:
    return broadcast_dims(*(x.dims for x in node.inputs))


@refinement("Einsum")
def _einsum(node: Any) -> Any:
    """Sizes of a letter, and of the axes of an ellipsis, broadcast; ONNX takes the first ones."""
    left, arrow, result = node.attributes["equation"].replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(node.inputs):
        return None
    sizes: dict[Any, Dim] = {}  # those of an ellipsis by their places, from the last one
    most = 0
    for term, x in zip(terms, node.inputs, strict=True):
        before, dots, after = term.partition("...")
        hidden = x.rank - len(before) - len(after)
        if hidden < 0 or (hidden and not dots):
            return None
        most = max(most, hidden)
        for key, d in zip((*before, *range(-hidden, 0), *after), x.dims, strict=True):
            size = broadcast_size(sizes.get(key, 1), d)
            if size is None:
                return None
            sizes[key] = size
    if not arrow:
        once = "".join(c for c in sorted({*left}) if c.isalpha() and left.count(c) == 1)
        result = ("..." if "..." in left else "") + once
    before, dots, after = result.partition("...")
    axes = range(-most, 0) if dots else ()
    return tuple([sizes.get(key) for key in (*before, *axes, *after)])


@refinement("MaxPool", "AveragePool", "LpPool")
def _pool(node: Any) -> Any:
    """With ceil_mode no window starts behind the image; ONNX's opset 21 counts such windows."""
    x, a = node.inputs[0], node.attributes
    n = x.rank - 2
    if not a.get("ceil_mode", 0) or a.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    strides, dilations = (a.get(k) or [1] * n for k in ("strides", "dilations"))
    pads, dims = a.get("pads") or [0] * (2 * n), list(x.dims[:2])
    for k, (size, window) in enumerate(zip(x.dims[2:], a["kernel_shape"], strict=True)):
        if isinstance(size, str):
            dims.append(fresh_dim())
            continue
        free = size + pads[k] + pads[n + k] - (window - 1) * dilations[k] - 1
        count = -(-free // strides[k]) + 1
        dims.append(count - ((count - 1) * strides[k] >= size + pads[k]))
    return tuple(dims)


def attention_state(node: Any, k: int) -> Any:
    """Return the dims of the outputs of Attention after the first: keys, values and scores.

    ONNX takes the size of heads, or the number of keys with past ones, for 0 where it loses it.
    """
    q, keys, values = node.inputs[:3]
    past = node.inputs[4] if len(node.inputs) > 4 else None
    length, before = keys.dims[keys.rank - 2], 0 if past is None else past.dims[2]
    known = isinstance(length, int) and isinstance(before, int)
    total = length if past is None else length + before if known else fresh_dim()
    if k == 3:
        heads = q.dims[1] if q.rank == 4 else node.attributes["q_num_heads"]
        # a number would stand beside the 0 of ONNX's checker
        static = past is None and all(isinstance(d, int) for d in (*keys.dims, *values.dims))
        return (q.dims[0], heads, q.dims[q.rank - 2], total if static else fresh_dim())
    x = keys if k == 1 else values
    if x.rank == 4:
        return (*x.dims[:2], total, x.dims[3])
    heads, width = node.attributes["kv_num_heads"], x.dims[2]
    return (x.dims[0], heads, total, width // heads if isinstance(width, int) else fresh_dim())


@refinement("Attention")
def _attended(node: Any) -> Any:
    """ONNX takes the size of heads for 0 where that of their sum is not known."""
    q, _, v = node.inputs[:3]
    if q.rank == 4:
        return (*q.dims[:3], v.dims[3])
    heads, groups = (node.attributes.get(k) for k in ("q_num_heads", "kv_num_heads"))
    known = heads and groups and isinstance(v.dims[2], int)
    return (*q.dims[:2], v.dims[2] // groups * heads if known else fresh_dim())


@refinement("GroupNormalization", "MeanVarianceNormalization")
def _same_shape(node: Any) -> Any:
    return node.inputs[0].dims


@refinement("DFT")
def _dft(node: Any) -> Any:
    """ONNX takes the axis to have the length of the signal, whatever a Variable says."""
    x, length, axis = (*node.inputs, None, None)[:3]
    if length is None or length.value is not None:
        return None
    last = node.attributes.get("axis", 1 if node.opset < 20 else -2) if axis is None else axis.value
    parts = 1 if node.attributes.get("inverse") and node.attributes.get("onesided") else 2
    changed = range(x.rank) if last is None else (int(last) % x.rank,)
    return (*(fresh_dim() if k in changed else d for k, d in enumerate(x.dims[:-1])), parts)


@refinement("STFT")
def _stft(node: Any) -> Any:
    """ONNX takes `onesided` for 0 by default, and loses the rank for a signal of unknown length."""
    signal, step, window, length = (*node.inputs, None, None)[:4]
    width = fresh_dim() if window is None else window.dims[0]
    if length is not None and length.value is not None:
        width = int(length.value.item())
    frames: Dim = fresh_dim()
    bins, size = width, signal.dims[1]
    if node.attributes.get("onesided", 1):
        bins = width // 2 + 1 if isinstance(width, int) else fresh_dim()
    if isinstance(width, int) and isinstance(size, int) and step.value is not None:
        frames = (size - width) // int(step.value.item()) + 1
    return (signal.dims[0], frames, bins, 2)


@fallback("Split")
def _split(node: Any, k: int) -> Any:
    x, axis = node.inputs[0], node.attributes.get("axis", 0)
    dims = list(x.dims)
    dims[axis] = fresh_dim()
    return tuple(dims), x.dtype


@fallback(
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"),
)
def _run_time_axes(node: Any, k: int) -> Any:
    """Sizes for axes that are known only at run time; their number is known."""
    if len(node.inputs) < 2:
        raise ShapeError("which axes have a size of 1, to be squeezed, is not known before it runs")
    (x, axes), sign = node.inputs, 1 if node.op_type == "Unsqueeze" else -1
    if node.op_type.startswith("Reduce") and node.attributes.get("keepdims", 1):
        return _of_rank(x.rank, x)
    if not isinstance(axes.dims[0], int):
        raise ShapeError("the rank of the result is not known before it runs")
    return _of_rank(x.rank + sign * axes.dims[0], x)


@fallback("Pad", "CenterCropPad")
def _same_rank(node: Any, k: int) -> Any:
    return _of_rank(node.inputs[0].rank, node.inputs[0])


def _of_rank(rank: int, x: Variable | MaybeNone) -> Any:
    return tuple(fresh_dim() for _ in range(rank)), x.dtype


@fallback("Conv", "ConvInteger", "DeformConv")
def _conv(node: Any, k: int) -> Any:
    x, w = node.inputs[:2]
    dtype = np.dtype(np.int32) if node.op_type == "ConvInteger" else x.dtype
    return (x.dims[0], w.dims[0], *(fresh_dim() for _ in x.dims[2:])), dtype


@fallback("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def _window(node: Any, k: int) -> Any:
    kind = node.attributes.get("output_datatype", 1)
    rank = 2 if node.op_type == "MelWeightMatrix" else 1
    return tuple(fresh_dim() for _ in range(rank)), helper.tensor_dtype_to_np_dtype(kind)


@fallback("AffineGrid")
def _affine_grid(node: Any, k: int) -> Any:
    theta, size = node.inputs
    n = theta.dims[1]
    if not isinstance(n, int):
        n = size.dims[0] - 2 if isinstance(size.dims[0], int) else None
    if n is None:
        raise ShapeError("whether it is a grid of an image or a volume is not known before it runs")
    return (theta.dims[0], *(fresh_dim() for _ in range(n)), n), theta.dtype


@fallback("ConvTranspose")
def _conv_transpose(node: Any, k: int) -> Any:
    (x, w), group = node.inputs[:2], node.attributes.get("group", 1)
    channels = w.dims[1] * group if isinstance(w.dims[1], int) else fresh_dim()
    return (x.dims[0], channels, *(fresh_dim() for _ in x.dims[2:])), x.dtype


@fallback("Attention")
def _attention(node: Any, k: int) -> Any:
    return _of_rank(4, node.inputs[0])
