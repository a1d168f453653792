"""The pass that computes convolutions by oneDNN, on images whose channels come last.

What lies between convolutions and treats every pixel alike, or every channel, stays in that layout.
"""

from collections.abc import Sequence

import numpy as np

from ....graph.node import Node, apply, composite
from ....graph.rewrite import rewrite
from ....graph.variable import Inputs, Variable
from ...layout import position_major
from ...passes.context import Context, Outputs
from ...passes.normalization import elements_of_channel
from .choice import CONVOLUTIONS, WINOGRAD, Geometry, chosen
from .images import (
    POINTWISE,
    TO_PLAIN,
    batch_norm,
    batch_normalization,
    pointwise,
    reduced,
    to_last,
    to_plain,
)
from .kernels import DOMAIN
from .pooling import POOLS, pooled


def channels_last(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with each convolution by what is faster: oneDNN, or Winograd's filtering.

    Where oneDNN computes none, the latter chooses among all, as without oneDNN.
    """
    if not chosen(context.before(targets).order, context):
        return position_major(targets, context)
    return channels_last_exactly(position_major(targets, context, least=WINOGRAD), context)


def channels_last_exactly(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with convolutions by oneDNN where these are faster than the runtime's."""
    context = context.before(targets)
    found = chosen(context.order, context)
    return rewrite(targets, _Layout(found, context).rule) if found else list(targets)


class _Layout:
    """One walk; `images` are images with channels last by the plain ones that they stand for."""

    def __init__(self, found: dict[Node, Geometry], context: Context):
        self.found, self.uses = found, context.uses
        self.images: dict[Variable, Variable] = {}

    def rule(self, node: Node, inputs: Inputs) -> Outputs:
        """Return the outputs of a node on such images, None to leave it as it is."""
        if node.domain not in ("", "pd"):
            return None
        if node.op_type in CONVOLUTIONS:
            geometry = self.found.get(node)
            return None if geometry is None else self._convolution(node, inputs, geometry)
        images = [self.images.get(x) for x in inputs]
        if all(image is None for image in images):
            return None
        if node.op_type == "Relu" and self._is_of_convolution(node, images[0]):
            return self._plain(_with_relu(images[0]))
        if node.op_type in POINTWISE:
            return self._plain(pointwise(node, images, inputs, self.last))
        if node.op_type in POOLS:
            return self._plain(pooled(node, inputs, self.last))
        special = _SPECIAL.get(node.op_type)
        return None if special is None or images[0] is None else special(self, node, inputs)

    def last(self, x: Variable) -> Variable:
        """Return an image with its channels last."""
        if x not in self.images:
            self.images[x] = to_last(x)
        return self.images[x]

    def _plain(self, image):
        """The plain image that stands for one with its channels last."""
        if image is None:
            return None
        x = to_plain(image)
        self.images[x] = image
        return (x,)

    def _convolution(self, node, inputs, geometry):
        if node.op_type == "ConvFilterGrad":
            x, dy, w = inputs
            return (
                _operator("ConvLastFilterGrad", geometry, self.last(x), self.last(dy), dims=w.dims),
            )
        n = inputs[0].dims[0]
        result = (n, *geometry.result, geometry.filters)
        image = (n, *geometry.image, geometry.channels)
        if node.op_type == "Conv":
            x, w, *bias = inputs
            parts = [self.last(x), w, *(b for b in bias if b is not None)]
            op_type = "ConvLast" if len(parts) == 2 else "ConvLastBias"
            return self._plain(_operator(op_type, geometry, *parts, dims=result, relu=0))
        if node.op_type == "ConvInputGrad":
            w, dy, _ = inputs
            image = (dy.dims[0], *image[1:])
            return self._plain(
                _operator("ConvLastInputGrad", geometry, w, self.last(dy), dims=image)
            )
        x, w, *bias = inputs  # ConvTranspose: the gradient of a convolution's image
        y = _operator("ConvLastInputGrad", geometry, w, self.last(x), dims=image)
        for b in bias:
            y = y if b is None else apply("Add", y, b, known=image)
        return self._plain(y)

    def _is_of_convolution(self, node, image):
        """Whether a relu alone reads a convolution."""
        conv = image.node
        is_conv = conv is not None and conv.domain == DOMAIN and conv.attributes.get("relu") == 0
        return is_conv and self.uses[node.inputs[0]] == 1

    def _reduced(self, node, inputs):
        y = reduced(node, self.images[inputs[0]], inputs)
        return None if y is None else (y,)

    def _normalized(self, node, inputs):
        if node.attributes.get("synchronized"):
            return None
        x = self.images[inputs[0]]
        count = elements_of_channel(x, int(x.dims[3]))
        y, *statistics = batch_norm(node, x, inputs, count)
        return (*self._plain(y), *statistics)

    def _inferred(self, node, inputs):
        return self._plain(batch_normalization(node, self.images[inputs[0]], inputs))

    def _concatenated(self, node, inputs):
        if node.attributes["axis"] not in (1, -3) or any(x.rank != 4 for x in inputs):
            return None
        parts = [self.last(x) for x in inputs]
        dims = (*parts[0].dims[:3], node.outputs[0].dims[1])
        return self._plain(apply("Concat", *parts, axis=3, known=dims))

    def _sliced(self, node, inputs):
        """A Slice along the channels; None for other slices."""
        start, end, axes, *steps = (None if x is None else x.value for x in inputs[1:])
        if start is None or end is None or axes is None or len(axes) != 1:
            return None
        if int(axes[0]) % 4 != 1 or any(step is None or (step != 1).any() for step in steps):
            return None
        x = self.images[inputs[0]]
        dims = (*x.dims[:3], node.outputs[0].dims[1])
        return self._plain(apply("Slice", x, start, end, np.array([3]), known=dims))

    def _split(self, node, inputs):
        """A Split along the channels; None for others."""
        if node.attributes.get("axis", 0) not in (1, -3):
            return None
        x = self.images[inputs[0]]
        known = [(*x.dims[:3], y.dims[1]) for y in node.outputs]
        attributes = {k: v for k, v in node.attributes.items() if k != "axis"}
        parts = apply(
            "Split", x, *inputs[1:], axis=3, outputs=len(known), known=known, **attributes
        )
        return [self._plain(part)[0] for part in (parts if len(known) > 1 else [parts])]

    def _shape(self, node, inputs):
        """The shape of a plain image that is not made for it."""
        x, a = self.images[inputs[0]], node.attributes
        order = TO_PLAIN[slice(a.get("start", 0), a.get("end"))]
        if order == [0]:
            return (apply("Shape", x, start=0, end=1),)
        return (apply("Gather", apply("Shape", x), np.array(order), axis=0, known=(len(order),)),)

    def _size(self, node, inputs):
        return (apply("Size", self.images[inputs[0]]),)


def _operator(op_type, geometry, *inputs, dims, **attributes):
    """One of oneDNN's operators."""
    types = [(tuple(dims), np.dtype(np.float32))]
    attributes |= geometry.attributes()
    return composite(op_type, *inputs, types=types, domain=DOMAIN, rank=4, **attributes)


def _with_relu(image):
    """A convolution with its relu."""
    conv = image.node
    attributes = {**conv.attributes, "relu": 1}
    types = [(tuple(image.dims), image.dtype)]
    return composite(conv.op_type, *conv.inputs, types=types, domain=DOMAIN, **attributes)


_SPECIAL = {
    "ReduceSum": _Layout._reduced,
    "ReduceMean": _Layout._reduced,
    "BatchNorm": _Layout._normalized,
    "BatchNormalization": _Layout._inferred,
    "Concat": _Layout._concatenated,
    "Slice": _Layout._sliced,
    "Split": _Layout._split,
    "Shape": _Layout._shape,
    "Size": _Layout._size,
}
