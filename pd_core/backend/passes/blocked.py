"""Convolutions by the kernels that ONNX Runtime has for images with their channels in blocks.

On a CPU it turns images [N, C, H, W] into [N, C / b, H, W, b], b channels side by side, but only
for filters that are constants. A training step gets the same kernels here: what they read and
write is put into order around each convolution. These operators are no part of ONNX, so that no
exported model holds them.
"""

import numpy as np
from onnx import TensorProto, helper

from ...graph.node import apply, composite

DOMAIN = "com.microsoft.nchwc"
_POSITIONS = 1000  # of the result; for fewer the filters cost more than the kernel gains


class BlockedKernels:
    """The rule that puts them in where they gain, and what it has put into order so far.

    `block` channels stand side by side, 0 if the CPU has no such kernels; `sizes` are run-time
    sizes seen so far, `uses` counts who reads a variable.
    """

    def __init__(self, block, sizes, uses):
        self.block, self.sizes, self.uses = block, sizes, uses
        self.images = {}  # image -> its blocks
        self.filters = {}

    def __call__(self, node, inputs):
        if node.op_type == "Conv" and self._gains(node, *inputs[:2]):
            return (self._conv(node, inputs),)
        if node.op_type == "Relu" and self.uses[node.inputs[0]] == 1:
            return self._activated(inputs[0])
        return None

    def _gains(self, node, x, w):
        a, y = node.attributes, node.outputs[0]
        if not self.block:
            return False
        sizes = [*w.dims, *y.dims[2:]]
        if y.rank != 4 or y.dtype != np.float32 or not all(isinstance(d, int) for d in sizes):
            return False
        rows = y.dims[0] if isinstance(y.dims[0], int) else self.sizes.get(y.dims[0], 1)
        plain = a.get("group", 1) == 1 and a.get("auto_pad", "NOTSET") == "NOTSET"
        whole = w.dims[0] % self.block == w.dims[1] % self.block == 0
        large = rows * np.prod(y.dims[2:]) >= _POSITIONS and np.prod(w.dims[2:]) > 1
        return bool(plain and whole and large)

    def _conv(self, node, inputs):
        x, w, *bias = inputs
        y = node.outputs[0]
        form = {k: node.attributes.get(k) for k in ("strides", "pads", "dilations")}
        result = _kernel("Conv", self._image(x), self._filter(w), *bias, dims=y.dims, **form)
        return _kernel("ReorderOutput", result, dims=y.dims, channels=y.dims[1])

    def _activated(self, x):
        """A relu within the convolution before it, which nobody else reads."""
        if x.node is None or x.node.domain != DOMAIN:
            return None
        conv = x.node.inputs[0].node
        result = _kernel("Conv", *conv.inputs, dims=x.dims, activation="Relu", **conv.attributes)
        return (_kernel("ReorderOutput", result, dims=x.dims, **x.node.attributes),)

    def _image(self, x):
        if x.node is not None and x.node.domain == DOMAIN:
            return x.node.inputs[0]
        if x not in self.images:
            self.images[x] = _kernel("ReorderInput", x, dims=x.dims)
        return self.images[x]

    def _filter(self, w):
        """[O, C, *K] as [O / b, C / b, *K, b of C, b of O]."""
        if w not in self.filters:
            b, (outputs, channels, *window) = self.block, w.dims
            taps = int(np.prod(window))
            before = _before_turning(w)
            swapped = apply("Transpose", w, perm=[1, 0, 2, 3]) if before is None else before
            swapped = _kernel("ReorderInput", swapped, dims=swapped.dims)
            parts = np.array([channels // b, b, outputs // b, taps, b])
            parts = apply("Transpose", apply("Reshape", swapped, parts), perm=[2, 0, 3, 1, 4])
            if before is not None:
                parts = apply("Gather", parts, np.arange(taps)[::-1].copy(), axis=2)
            self.filters[w] = apply("Reshape", parts, np.array(w.dims))
        return self.filters[w]


def _before_turning(w):
    """The filters of which w is a copy with channels swapped and taps turned around, or None.

    `_filter` turns their taps later, where whole blocks stand at each of them.
    """
    swap = w.node
    if swap is None or swap.op_type != "Transpose" or swap.attributes["perm"] != [1, 0, 2, 3]:
        return None
    turn = swap.inputs[0].node
    if turn is None or turn.op_type != "Slice" or len(turn.inputs) != 5:
        return None
    filters, start, _, axes, step = turn.inputs
    found = [None if v.value is None else v.value.tolist() for v in (start, axes, step)]
    whole = turn.outputs[0].dims == filters.dims
    return filters if whole and found == [[-1, -1], [2, 3], [-1, -1]] else None


def _kernel(op_type, *inputs, dims, **attributes):
    """One operator of that domain; blocked images are declared with the sizes of plain ones."""
    return composite(op_type, *inputs, types=[(dims, np.float32)], domain=DOMAIN, **attributes)


def probe():
    """A model that puts an image `x` of two pixels into blocks, and that image."""
    image = np.arange(2 * 64, dtype=np.float32).reshape(1, 64, 1, 2)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, image.shape) for n in "xy")
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=DOMAIN)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph([node], "probe", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString(), image


def block_of(found) -> int:
    """The channels of a block, by where the second pixel of the probe went; 0 for no blocks."""
    size = found.ravel().tolist().index(1.0)
    return size if size > 1 else 0
