"""The geometry of sliding windows: strides, dilations and pads of convolution and pooling."""

from collections.abc import Sequence

import numpy as np

from ...graph.errors import NoGradient
from ...graph.node import Node
from ...graph.variable import Variable, static

Geometry = dict[str, list[int]]  # strides, dilations, pads


def known_sizes(x: Variable) -> bool:
    """Check whether the spatial sizes of an image are known."""
    return all(isinstance(d, int) for d in x.dims[2:])


def geometry(node: Node, x: Variable, window: Sequence[int]) -> Geometry:
    """Return strides, dilations and explicit pads of a convolution or pooling of images x."""
    n, a = len(window), node.attributes
    strides, dilations = (list(a.get(k) or [1] * n) for k in ("strides", "dilations"))
    pads = _pads(node, x, window, strides, dilations)
    return {"strides": strides, "dilations": dilations, "pads": pads}


def _pads(node, x, window, strides, dilations):
    n, kind = len(strides), node.attributes.get("auto_pad", "NOTSET")
    if kind == "VALID":
        return [0] * (2 * n)
    if kind == "NOTSET":
        return list(node.attributes.get("pads") or [0] * (2 * n))
    if not known_sizes(x):
        raise NoGradient(f"auto_pad={kind} has a gradient for images of known sizes, not {x!r}")
    total = [
        max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        for size, k, s, d in zip(x.dims[2:], window, strides, dilations, strict=True)
    ]
    return split_pads(total, kind)


def split_pads(total: Sequence[int], kind: str) -> list[int]:
    """Split total pads into those before and after; the odd one is after with SAME_UPPER."""
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return [*small, *large] if kind == "SAME_UPPER" else [*large, *small]


def pool_geometry(node: Node, x: Variable, window: Sequence[int]) -> Geometry:
    """Return `geometry` of a pooling, its pads enlarged where ceil_mode lets windows overhang."""
    own = geometry(node, x, window)
    n, pads = len(window), list(own["pads"])
    image, result = static(x.dims[2:]), static(node.outputs[0].dims[2:])
    for k, (s, d) in enumerate(zip(own["strides"], own["dilations"], strict=True)):
        end = (result[k] - 1) * s + (window[k] - 1) * d + 1
        pads[n + k] = max(pads[n + k], end - image[k] - pads[k])
    return {**own, "pads": pads}


def counts(node: Node, x: Variable, window: Sequence[int]) -> np.ndarray:
    """Return the number of cells that each window of an average counts, [*result].

    Cells that only ceil_mode adds are never counted.
    """
    own, total, n = geometry(node, x, window), np.ones(()), len(window)
    include = node.attributes.get("count_include_pad", 0)
    for k, (s, d) in enumerate(zip(own["strides"], own["dilations"], strict=True)):
        size, before, after = static(x.dims)[2 + k], own["pads"][k], own["pads"][n + k]
        low, high = (-before, size + after) if include else (0, size)
        first = np.arange(node.outputs[0].dims[2 + k]) * s - before
        cells = first[:, None] + np.arange(window[k]) * d
        total = np.multiply.outer(total, ((cells >= low) & (cells < high)).sum(1))
    return total


def transposed_geometry(node: Node, x: Variable, window: Sequence[int]) -> Geometry:
    """Return strides, dilations and explicit pads of a transposed convolution of x."""
    a, n = node.attributes, len(window)
    kind, sizes = a.get("auto_pad", "NOTSET"), a.get("output_shape")
    own = geometry(node, x, window) if kind in ("NOTSET", "VALID") else {}
    strides, dilations = (list(a.get(k) or [1] * n) for k in ("strides", "dilations"))
    if sizes is None and own:
        return own
    if not known_sizes(x) or not all(isinstance(k, int) for k in window):
        raise NoGradient(f"a given output size needs images and filters of known sizes, not {x!r}")
    sizes = sizes or [size * s for size, s in zip(x.dims[2:], strides, strict=True)]
    total = [
        max(0, (size - 1) * s + extra + (k - 1) * d + 1 - result)
        for size, s, extra, k, d, result in zip(
            x.dims[2:],
            strides,
            a.get("output_padding") or [0] * n,
            window,
            dilations,
            sizes,
            strict=True,
        )
    ]
    return {"strides": strides, "dilations": dilations, "pads": split_pads(total, kind)}
