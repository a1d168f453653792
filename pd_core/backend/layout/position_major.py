"""The pass that keeps the images of a program position-major where that is faster."""

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...graph.node import Node, ancestors, apply
from ...graph.rewrite import rewrite
from ...graph.variable import Dim, Inputs, Variable, static
from ..passes.context import Context, Outputs
from .channels import concatenated, of_channels
from .choice import CONVERSION, Choice, choices, key_of, parts_of, parts_of_inputs
from .direct import Direct
from .elementwise import POINTWISE, Pointwise
from .image import Image, Rows, packed, unpacked
from .normalization import batch_norm
from .pooling import POOLS, Pooling
from .winograd import Winograd


def position_major(targets: Sequence[Variable], context: Context, least: int = 0) -> list[Variable]:
    """Return the targets with convolutions, and what lies between them, on rows of pixels.

    They are returned as they are where converting images costs more than convolutions gain. Above
    0, `least` are channels from which filters gain by Winograd's filtering; all others are left.
    """
    found = choices(ancestors(targets), context, least)
    if not found:
        return list(targets)
    layout = _Layout(found, context)
    after = rewrite(targets, layout.rule)
    gain = sum(choice.gain for choice in found.values())
    return after if gain > CONVERSION * layout.converted(after, context) else list(targets)


class _Layout:
    """One walk; a position-major image stands for a plain one that is made only where it is read.

    `images` are position-major images by the plain ones that they stand for.
    """

    def __init__(self, found: dict[tuple, Choice], context: Context):
        self.found = found
        self.rows = Rows({})
        self.images: dict[Variable, Image] = {}
        self.read: list[Variable] = []  # plain images that had to be converted
        self.direct, self.pointwise = Direct(self.rows), Pointwise(self.rows)
        self.winograd = Winograd(self.rows)
        self.pooling = Pooling(self.rows, self.image, context)

    def rule(self, node: Node, inputs: Inputs) -> Outputs:
        """Return the outputs of a node on position-major images, None to leave it as it is."""
        if parts_of(node) is not None:
            choice = self.found.get(key_of(node))
            return None if choice is None else self._convolution(node, inputs, choice)
        images = [self.images.get(x) for x in inputs]
        if node.domain not in ("", "pd") or all(image is None for image in images):
            return None
        if node.op_type in POINTWISE:
            return self._plain(self.pointwise.apply(node, images, inputs, self.image))
        if node.op_type in POOLS:
            return self._plain(self.pooling.apply(node, inputs))
        if images[0] is None:
            return None
        special = _SPECIAL.get(node.op_type)
        return None if special is None else special(self, node, images, inputs)

    def converted(self, targets: Sequence[Variable], context: Context) -> int:
        """Return the number of elements of images that are converted to either layout."""
        computed = {y for node in ancestors(targets) for y in node.outputs}
        made = [x for x in self.images if x in computed and x not in self.read]
        return sum(_elements(x.dims, context) for x in (*made, *self.read))

    # ---- convolutions

    def _convolution(self, node, inputs, choice):
        form, g, _ = choice
        x, w, y = parts_of_inputs(node, inputs)
        if form == "plain" and x in self.images:
            form = "direct"
        sizes = static(x.dims[2:])
        if node.op_type == "ConvInputGrad":
            dy = self.image(y)
            if form == "winograd":
                return self._plain(self.winograd.input_grad(dy, w, g.pads, sizes))
            return self._plain(self.direct.input_grad(dy, w, sizes, g))
        if node.op_type == "ConvFilterGrad":
            dy = self.image(y)
            if form == "winograd":
                return (self.winograd.filter_grad(self.image(x), dy, w.dims, g.pads),)
            source = x if form == "plain" else self.image(x)
            return (self.direct.filter_grad(source, dy, w.dims, g),)
        if form == "winograd":
            image = self.winograd.conv(self.image(x), w, g.pads, g.sizes)
        else:
            image = self.direct.conv(x if form == "plain" else self.image(x), w, g)
        bias = inputs[2] if len(inputs) > 2 else None
        if bias is not None:
            image = image.like(image.rows + self.pointwise.row(bias, image))
        return self._plain(image)

    # ---- other operators that know the layout

    def _reduced(self, node, images, inputs):
        axes = inputs[1].value if len(inputs) > 1 and inputs[1] is not None else None
        if axes is None:
            return None
        keepdims = bool(node.attributes.get("keepdims", 1))
        y = self.pointwise.reduced(node, images[0], axes.tolist(), keepdims)
        return None if y is None else (y,)

    def _normalized(self, node, images, inputs):
        if node.attributes.get("synchronized"):
            return None
        y, *statistics = batch_norm(node, images[0], inputs, self.pointwise)
        return (*self._plain(y), *statistics)

    def _concatenated(self, node, images, inputs):
        if node.attributes["axis"] not in (1, -3) or any(x.rank != 4 for x in inputs):
            return None
        return self._plain(concatenated([self.image(x) for x in inputs], self.rows))

    def _sliced(self, node, images, inputs):
        return self._plain(of_channels(node, images[0], inputs))

    def _shape(self, node, images, inputs):
        """The shape of a plain image that is not made for it."""
        if node.attributes:
            return None
        image = images[0]
        batch = apply("Shape", image.rows, start=1, end=2)
        rest = np.array([image.channels, *image.sizes], np.int64)
        return (ops.concat([batch, rest], 0),)

    def _size(self, node, images, inputs):
        return (apply("Size", images[0].rows),)

    # ---- both layouts

    def image(self, x: Variable) -> Image:
        """Return x position-major."""
        if x not in self.images:
            self.images[x] = packed(x)
            self.read.append(x)
        return self.images[x]

    def _plain(self, image):
        """The plain image that stands for a position-major one."""
        if image is None:
            return None
        x = unpacked(image, self.rows)
        self.images[x] = image
        return (x,)


def _elements(dims: Sequence[Dim], context) -> int:
    return math.prod(context.size(d, default=1) for d in dims)


_SPECIAL = {
    "ReduceSum": _Layout._reduced,
    "ReduceMean": _Layout._reduced,
    "BatchNorm": _Layout._normalized,
    "Concat": _Layout._concatenated,
    "Slice": _Layout._sliced,
    "Shape": _Layout._shape,
    "Size": _Layout._size,
}
