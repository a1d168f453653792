"""Which convolutions of a program gain by position-major images, and what conversions cost.

The limits and times are measurements on two cores, with blocked kernels for plain images: see
docs/performance.md.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...graph.node import Node
from ...graph.variable import Inputs, Variable, static
from ..passes.context import Context
from .direct import Geometry

CONVERSION = 0.6  # ns per element of a plain image that is made or read
_FEW = 80  # cells of a window up to which a plain image is read by windows
CONVOLUTIONS = frozenset({"Conv", "ConvInputGrad", "ConvFilterGrad"})
_SQUARES = ((3, 3), (5, 5))  # filters that Winograd's tiles are made for


class Choice(NamedTuple):
    """How a convolution is computed, and the time that it gains, in ns."""

    form: str  # "winograd", "direct", or "plain": windows of an image that is not position-major
    geometry: Geometry
    gain: float = 0.0


def choices(nodes: Sequence[Node], context: Context, least: int = 0) -> dict[tuple, Choice]:
    """Return the choice for each convolution, by `key_of`, that is not left as it is.

    With `least` they are those of so many channels, and filters, for Winograd's filtering alone.
    """
    trained = {node.inputs[2] for node in nodes if node.op_type == "ConvFilterGrad"}
    found = {}
    for node in nodes:
        parts = parts_of(node)
        if parts is not None:
            x, w, y = parts
            choice = _choice(node, x, w, y, w in trained, context)
            if choice is not None and (not least or _is_wide(choice, w, least)):
                found[key_of(node)] = choice
    return found if any(c.form == "winograd" for c in found.values()) else {}


def _is_wide(choice, w, least):
    return choice.form == "winograd" and min(w.dims[:2]) >= least


def key_of(node: Node) -> tuple:
    """Return what a convolution and its gradients have in common."""
    x, w, y = parts_of_inputs(node, node.inputs)
    return x, w, *y.dims[2:], *(node.attributes.get("strides") or ())


def parts_of(node: Node) -> tuple[Variable, Variable, Variable] | None:
    """Return (image, filters, a variable like the result) of a convolution or its gradient."""
    if node.domain not in ("", "pd"):
        return None
    return parts_of_inputs(node, node.inputs) if node.op_type in CONVOLUTIONS else None


def parts_of_inputs(node: Node, inputs: Inputs) -> tuple[Variable, Variable, Variable]:
    """Return the same, where the node has these inputs."""
    if node.op_type == "Conv":
        return inputs[0], inputs[1], node.outputs[0]
    if node.op_type == "ConvInputGrad":
        w, dy, x = inputs
        return x, w, dy
    x, dy, w = inputs
    return x, w, dy


def _choice(node, x, w, y, trained, context):
    geometry = _geometry(node.attributes, x, w, y)
    if geometry is None:
        return None
    taps = math.prod(geometry.window)
    if taps > 1 and int(w.dims[1]) * taps <= _FEW:
        return Choice("plain", geometry)
    channels = [int(d) for d in w.dims[:2]]
    if geometry.strides == (1, 1) and geometry.window in _SQUARES:
        n = context.size(y.dims[0], default=1)
        gain = gain_of(n, channels, math.prod(geometry.sizes), trained)
        return Choice("winograd", geometry, gain) if gain > 0 else None
    return Choice("direct", geometry) if taps <= 9 and min(channels) >= 16 else None


def gain_of(n: int, channels: Sequence[int], pixels: int, trained: bool) -> float:
    """Return the time that Winograd's filtering gains in a step, in ns; 0 for none."""
    least, elements = min(channels), n * max(channels) * pixels
    if trained:
        enough = n * pixels >= 64 and (least >= 32 or (least >= 16 and n * least >= 64))
        cached = least >= 64 or elements <= 100_000 * least  # what larger images need is moved
        return elements * max(0.5, 0.15 * least - 3) if enough and cached else 0.0
    fits = {2: n >= 8 and pixels <= 256, 3: pixels <= 1024}
    size = int(math.log2(max(least, 1) / 8))
    enough = n * pixels >= 256 and size >= 2 and fits.get(size, True)
    return elements * max(0.3, 0.04 * least - 1) if enough else 0.0


def _geometry(a, x, w, y):
    """The windows of a convolution of images [N, C, H, W]; None if it has groups, or unknowns."""
    sizes = [*w.dims, *x.dims[1:], *y.dims[1:]]
    if x.rank != 4 or x.dtype != np.float32 or not all(isinstance(d, int) for d in sizes):
        return None
    if a.get("group", 1) != 1 or a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    if any(d != 1 for d in a.get("dilations") or ()) or 0 in sizes:
        return None
    height, width = static(w.dims[2:])
    down, across = static(y.dims[2:])
    window = (height, width)
    pads = tuple(a.get("pads") or (0, 0, 0, 0))[:2]
    if any(p >= k for p, k in zip(pads, window, strict=True)):
        return None
    return Geometry(window, tuple(a.get("strides") or (1, 1)), pads, (down, across))
