"""The pass that keeps the images of a program position-major where that is faster."""

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.rewrite import rewrite
from ...graph.variable import Inputs, Variable
from ..passes.context import Context, Outputs
from .direct import Direct, Geometry
from .elementwise import POINTWISE, Pointwise
from .image import Image, Rows, packed, unpacked
from .normalization import batch_norm
from .pooling import MOST_CELLS, Pooling, geometry_of, tiles
from .winograd import Winograd

_CONVOLUTIONS = frozenset({"Conv", "ConvInputGrad", "ConvFilterGrad"})
_POOLS = frozenset(
    {
        *("MaxPool", "TiedMaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
        *("MaxPoolGrad", "AveragePoolGrad"),
    }
)
_FEW = 64  # cells of a window up to which a plain image is read by windows
_LEAST = 16  # channels on both sides from which Winograd's products are efficient
_POSITIONS = 1000  # of a result, of all images, below which nothing is gained


def positions(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with convolutions, and what lies between them, on rows of pixels."""
    return _Layout(context).rewritten(targets)


class _Layout:
    """One walk; a position-major image stands for a plain one that is made only where it is read."""

    def __init__(self, context: Context):
        self.context = context
        self.rows = Rows({})
        self.images: dict[Variable, Image] = {}
        self.winograd, self.direct = Winograd(self.rows), Direct(self.rows)
        self.pointwise, self.pooling = Pointwise(self.rows), Pooling(self.rows)

    def rewritten(self, targets):
        return rewrite(targets, self._rule)

    def _rule(self, node: Node, inputs: Inputs) -> Outputs:
        if node.domain not in ("", "pd"):
            return None
        if node.op_type in _CONVOLUTIONS:
            return self._convolution(node, inputs)
        images = [self.images.get(x) for x in inputs]
        if all(image is None for image in images):
            return None
        if node.op_type in POINTWISE:
            return self._plain(self.pointwise.apply(node, images, inputs))
        if node.op_type in _POOLS:
            return self._plain(self._pooled(node, images, inputs))
        if node.op_type in ("ReduceSum", "ReduceMean") and images[0] is not None:
            return self._reduced(node, images[0], inputs)
        if node.op_type == "BatchNorm" and images[0] is not None:
            if node.attributes.get("synchronized"):
                return None
            y, *statistics = batch_norm(node, images[0], inputs, self.pointwise)
            return (*self._plain(y), *statistics)
        if node.op_type in ("Shape", "Size"):
            return self._shape(node, images[0])
        return None

    # ---- convolutions

    def _convolution(self, node, inputs):
        if node.op_type == "Conv":
            x, w, *bias = inputs
            y = node.outputs[0]
            kind, geometry = self._kind(node, x, w, y)
            if kind is None:
                return None
            source = x if kind == "plain" else self._image(x)
            if kind == "winograd":
                image = self.winograd.conv(source, w, geometry.pads, geometry.sizes)
            else:
                image = self.direct.conv(source, w, geometry)
            if bias and bias[0] is not None:
                image = image.like(image.rows + self.pointwise.row(bias[0], image))
            return self._plain(image)
        if node.op_type == "ConvInputGrad":
            w, dy, x = inputs
            kind, geometry = self._kind(node, x, w, dy)
            if kind in (None, "plain"):
                return None
            image, dy = tuple(x.dims[2:]), self._image(dy)
            if kind == "winograd":
                return self._plain(self.winograd.input_grad(dy, w, geometry.pads, image))
            return self._plain(self.direct.input_grad(dy, w, image, geometry))
        x, dy, w = inputs
        kind, geometry = self._kind(node, x, w, dy)
        if kind is None:
            return None
        source, dy = x if kind == "plain" else self._image(x), self._image(dy)
        if kind == "winograd":
            return (self.winograd.filter_grad(source, dy, w.dims, geometry.pads),)
        return (self.direct.filter_grad(source, dy, w.dims, geometry),)

    def _kind(self, node, x, w, y):
        """How a convolution is computed, and its geometry: (None, None) if it is left as it is."""
        a = node.attributes
        geometry = _geometry(a, x, w, y)
        if geometry is None:
            return None, None
        channels = min(int(d) for d in w.dims[:2])
        n = self.context.size(y.dims[0], default=1)
        if n * math.prod(geometry.sizes) < _POSITIONS:
            return None, None
        cells = int(w.dims[1]) * math.prod(geometry.window)
        if cells <= _FEW and math.prod(geometry.window) > 1 and x not in self.images:
            return "plain", geometry
        if channels < _LEAST:
            return None, None
        if geometry.strides == (1, 1) and geometry.window in ((3, 3), (5, 5)):
            return "winograd", geometry
        if math.prod(geometry.window) <= 9:
            return "direct", geometry
        return None, None

    # ---- between them

    def _pooled(self, node, images, inputs):
        if node.op_type.endswith("Grad"):
            image, result = inputs[0], node.inputs[-1]
        else:
            image, result = inputs[0], node.outputs[0]
        sizes = [v.dims[2:] for v in (image, result)]
        known = all(isinstance(d, int) for size in sizes for d in size)
        g = geometry_of(node, *sizes) if known and len(sizes[0]) == 2 else None
        if g is None or len(node.outputs) > 1:
            return None
        whole = math.prod(g.sizes) == 1 and g.window == tuple(sizes[0])
        if math.prod(g.window) > MOST_CELLS and not (whole and "Average" in node.op_type):
            return None
        return _POOLINGS[node.op_type](self, node, inputs, g)

    def _max(self, node, inputs, g):
        return self.pooling.max(self._image(inputs[0]), g)

    def _mean(self, node, inputs, g):
        return self.pooling.mean(self._image(inputs[0]), g)

    def _max_grad(self, node, inputs, g):
        if not tiles(g):
            return None
        all_ties = node.attributes.get("ties", "first") == "all"
        return self.pooling.max_grad(*map(self._image, inputs), g, all_ties)

    def _mean_grad(self, node, inputs, g):
        if not tiles(g):
            return None
        x, *_, dy = inputs
        return self.pooling.mean_grad(self._image(dy), tuple(x.dims[2:]), g)

    def _reduced(self, node, image, inputs):
        axes = inputs[1].value if len(inputs) > 1 and inputs[1] is not None else None
        if axes is None:
            return None
        keepdims = bool(node.attributes.get("keepdims", 1))
        y = self.pointwise.reduced(node, image, axes.tolist(), keepdims)
        return None if y is None else (y,)

    def _shape(self, node, image):
        """The shape, or size, of a plain image that is not made for it."""
        if node.op_type == "Size":
            return (apply("Size", image.rows),)
        if node.attributes:
            return None
        batch = apply("Shape", image.rows, start=1, end=2)
        rest = np.array([image.channels, *image.sizes], np.int64)
        return (ops.concat([batch, rest], 0),)

    # ---- both layouts

    def _image(self, x: Variable) -> Image:
        """x position-major."""
        if x not in self.images:
            self.images[x] = packed(x)
        return self.images[x]

    def _plain(self, image):
        """The plain image that stands for a position-major one."""
        if image is None:
            return None
        x = unpacked(image, self.rows)
        self.images[x] = image
        return (x,)


_POOLINGS = {
    "MaxPool": _Layout._max,
    "TiedMaxPool": _Layout._max,
    "GlobalMaxPool": _Layout._max,
    "AveragePool": _Layout._mean,
    "GlobalAveragePool": _Layout._mean,
    "MaxPoolGrad": _Layout._max_grad,
    "AveragePoolGrad": _Layout._mean_grad,
}


def _geometry(a, x, w, y):
    """The windows of a convolution of images [N, C, H, W]; None if it has groups, or unknowns."""
    sizes = [*w.dims, *x.dims[1:], *y.dims[1:]]
    if x.rank != 4 or x.dtype != np.float32 or not all(isinstance(d, int) for d in sizes):
        return None
    if a.get("group", 1) != 1 or a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    if any(d != 1 for d in a.get("dilations") or ()):
        return None
    window = tuple(int(d) for d in w.dims[2:])
    pads = tuple(a.get("pads") or (0, 0, 0, 0))[:2]
    if any(p >= k for p, k in zip(pads, window, strict=True)):
        return None
    return Geometry(window, tuple(a.get("strides") or (1, 1)), pads, tuple(y.dims[2:]))
