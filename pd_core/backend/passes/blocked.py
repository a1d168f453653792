"""Convolutions by the kernels that ONNX Runtime has for images with their channels in blocks.

On a CPU it turns images [N, C, H, W] into [N, C / b, H, W, b], b channels side by side, but only
for filters that are constants. A training step gets the same kernels here: images and filters
are reordered around each convolution. These operators are no part of ONNX, so that no exported
model holds them.
"""

import numpy as np
from onnx import TensorProto, helper

from ... import ops
from ...graph.node import Node, composite
from ...graph.variable import Inputs
from .context import Context, Outputs

DOMAIN = "com.microsoft.nchwc"
_POSITIONS = 1000  # of the result; for fewer, reordering the filters costs more than it gains


def blocked_kernels(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute a convolution, and a relu that alone reads it, by the kernels for blocked images."""
    if node.op_type == "Conv" and _gains(node, inputs[1], context):
        return (_conv(node, inputs, context),)
    if node.op_type == "Relu" and context.uses[node.inputs[0]] == 1:
        return _relu(inputs[0])
    return None


def _gains(node, w, context):
    """Whether the blocked kernel takes this convolution, and is worth the reordering."""
    a, y, block = node.attributes, node.outputs[0], context.block
    if not block:
        return False
    sizes = [*w.dims, *y.dims[2:]]
    if y.rank != 4 or y.dtype != np.float32 or not all(isinstance(d, int) for d in sizes):
        return False
    rows = context.size(y.dims[0], default=1)
    plain = a.get("group", 1) == 1 and a.get("auto_pad", "NOTSET") == "NOTSET"
    whole = w.dims[0] % block == w.dims[1] % block == 0
    large = rows * np.prod(y.dims[2:]) >= _POSITIONS and np.prod(w.dims[2:]) > 1
    return bool(plain and whole and large)


def _conv(node, inputs, context):
    x, w, *bias = inputs
    y = node.outputs[0]
    geometry = {k: node.attributes.get(k) for k in ("strides", "pads", "dilations")}
    x, w = _blocked_image(x, context), _blocked_filter(w, context)
    blocked = _kernel("Conv", x, w, *bias, dims=y.dims, **geometry)
    return _kernel("ReorderOutput", blocked, dims=y.dims, channels=y.dims[1])


def _relu(x):
    """The relu as the activation of the blocked convolution that it reads; None elsewhere."""
    if x.node is None or x.node.domain != DOMAIN:
        return None
    conv = x.node.inputs[0].node
    blocked = _kernel("Conv", *conv.inputs, dims=x.dims, activation="Relu", **conv.attributes)
    return (_kernel("ReorderOutput", blocked, dims=x.dims, **x.node.attributes),)


def _blocked_image(x, context):
    if x.node is not None and x.node.domain == DOMAIN:
        return x.node.inputs[0]
    return context.cached(("blocked image", x), lambda: _kernel("ReorderInput", x, dims=x.dims))


def _blocked_filter(w, context):
    return context.cached(("blocked filter", w), lambda: _reordered_filter(w, context.block))


def _reordered_filter(w, b):
    """[O, C, *K] as [O / b, C / b, *K, b of C, b of O]."""
    outputs, channels, *window = w.dims
    taps = int(np.prod(window))
    unflipped = _before_flip(w)
    swapped = ops.transpose(w, [1, 0, 2, 3]) if unflipped is None else unflipped
    swapped = _kernel("ReorderInput", swapped, dims=swapped.dims)
    parts = np.array([channels // b, b, outputs // b, taps, b])
    parts = ops.transpose(ops.reshape(swapped, parts), [2, 0, 3, 1, 4])
    if unflipped is not None:
        parts = ops.gather(parts, np.arange(taps)[::-1].copy(), axis=2)
    return ops.reshape(parts, w.dims)


def _before_flip(w):
    """The filters of which w is a copy with channels swapped and taps reversed, or None.

    `_reordered_filter` reverses their taps later, where whole blocks are copied for each of them.
    """
    swap = w.node
    if swap is None or swap.op_type != "Transpose" or swap.attributes["perm"] != [1, 0, 2, 3]:
        return None
    flip = swap.inputs[0].node
    if flip is None or flip.op_type != "Slice" or len(flip.inputs) != 5:
        return None
    filters, start, _, axes, step = flip.inputs
    bounds = [None if v.value is None else v.value.tolist() for v in (start, axes, step)]
    whole = flip.outputs[0].dims == filters.dims
    return filters if whole and bounds == [[-1, -1], [2, 3], [-1, -1]] else None


def _kernel(op_type, *inputs, dims, **attributes):
    """One operator of that domain; blocked images are declared with the sizes of plain ones."""
    return composite(op_type, *inputs, types=[(dims, np.float32)], domain=DOMAIN, **attributes)


def probe() -> tuple[bytes, np.ndarray]:
    """Return a model that puts an image `x` of two pixels into blocks, and that image."""
    image = np.arange(2 * 64, dtype=np.float32).reshape(1, 64, 1, 2)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, image.shape) for n in "xy")
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=DOMAIN)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph([node], "probe", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString(), image


def block_size_of(reordered: np.ndarray) -> int:
    """Return the channels of a block, by where the second pixel of the probe went; 0 for none."""
    size = reordered.ravel().tolist().index(1.0)
    return size if size > 1 else 0
