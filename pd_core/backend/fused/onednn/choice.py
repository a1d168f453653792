"""Which convolutions of a program are computed by oneDNN.

The limits are measurements on one core with AVX2, of stacks of four convolutions of 3 x 3 with all
gradients: see docs/fused.md. Nothing is timed at run time, so that results repeat.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....graph.node import Node
from ....graph.variable import Variable, static
from ...passes.context import Context

WINOGRAD = 64  # channels from which Winograd's filtering takes less time than oneDNN
_IMAGES = 8  # of fewer, parts are few, where the runtime divides an image, too
_GROUPED = 8  # channels of a group, and filters; for fewer, oneDNN has no kernels of its own
CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "ConvInputGrad", "ConvFilterGrad"})


class Geometry(NamedTuple):
    """The sizes and attributes of a convolution, which its gradients share."""

    channels: int
    filters: int
    group: int
    image: tuple[int, ...]
    result: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an operator."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self._asdict().items()}


def chosen(nodes: Sequence[Node], context: Context) -> dict[Node, Geometry]:
    """Return the geometry of each convolution, or gradient, that is computed by oneDNN."""
    found = {}
    for node in nodes:
        if node.op_type in CONVOLUTIONS and node.domain in ("", "pd"):
            geometry = geometry_of(node)
            n = context.size(_parts_of(node)[2].dims[0], default=_IMAGES)
            if geometry is not None and n is not None and is_faster(geometry, n):
                found[node] = geometry
    return found


def is_faster(g: Geometry, n: int) -> bool:
    """Return whether oneDNN computes convolutions of n images, and their gradients, faster."""
    depthwise = g.group == g.channels == g.filters
    wide = min(g.channels, g.filters) >= _GROUPED * g.group
    return n >= _IMAGES and (g.group == 1 or depthwise or wide)


def _parts_of(node: Node) -> tuple[Variable, Variable, Variable]:
    """The image, filters and result of the convolution that a node is, or is a gradient of."""
    inputs = node.inputs
    if node.op_type == "Conv":
        return inputs[0], inputs[1], node.outputs[0]
    if node.op_type == "ConvTranspose":
        return node.outputs[0], inputs[1], inputs[0]
    if node.op_type == "ConvInputGrad":
        w, dy, x = inputs
        return x, w, dy
    x, dy, w = inputs
    return x, w, dy


def geometry_of(node: Node) -> Geometry | None:
    """Return the geometry of a convolution of images [N, C, H, W]; None if a size is unknown."""
    x, w, y = _parts_of(node)
    a = node.attributes
    if x.rank != 4 or w.rank != 4 or y.rank != 4 or {x.dtype, w.dtype} != {np.dtype(np.float32)}:
        return None
    sizes = [*w.dims, *x.dims[1:], *y.dims[1:]]
    if any(isinstance(d, str) or d < 1 for d in sizes):
        return None
    if a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    filters, channels = int(w.dims[0]), int(x.dims[1])
    geometry = Geometry(
        channels,
        filters,
        int(a.get("group", 1)),
        static(x.dims[2:]),
        static(y.dims[2:]),
        static(w.dims[2:]),
        tuple(a.get("strides") or (1, 1)),
        tuple(a.get("dilations") or (1, 1)),
        tuple(a.get("pads") or (0, 0, 0, 0)),
    )
    return geometry if _fits(geometry) else None


def _fits(g):
    """Whether the windows of the image give just this result."""
    axes = zip(
        g.image, g.result, g.window, g.strides, g.dilations, g.pads, g.pads[2:], strict=False
    )
    return all((s + p + q - (k - 1) * d - 1) // t + 1 == r for s, r, k, t, d, p, q in axes)
