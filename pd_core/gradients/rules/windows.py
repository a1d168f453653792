"""The geometry of sliding windows, whichever way a node gives it."""

import numpy as np

from ...graph.errors import NoGradient


def known_sizes(x):
    """Whether the spatial sizes of an image are known."""
    return all(isinstance(d, int) for d in x.dims[2:])


def geometry(node, x, window):
    """Strides, dilations and pads of a convolution or pooling of images x, all written out."""
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


def split_pads(total, kind):
    """Pads before and after; the odd one is after with SAME_UPPER, else before."""
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return [*small, *large] if kind == "SAME_UPPER" else [*large, *small]


def reached(node, x, window):
    """The geometry of a pooling: cells that its last windows hang over the image are padding."""
    found = geometry(node, x, window)
    n, pads = len(window), list(found["pads"])
    for k, (s, d) in enumerate(zip(found["strides"], found["dilations"], strict=True)):
        end = (node.outputs[0].dims[2 + k] - 1) * s + (window[k] - 1) * d + 1
        pads[n + k] = max(pads[n + k], end - x.dims[2 + k] - pads[k])
    return {**found, "pads": pads}


def counts(node, x, window):
    """How many cells each window of an average counts, [*result]; never what it hangs over."""
    found, total, n = geometry(node, x, window), np.ones(()), len(window)
    include = node.attributes.get("count_include_pad", 0)
    for k, (s, d) in enumerate(zip(found["strides"], found["dilations"], strict=True)):
        size, before, after = x.dims[2 + k], found["pads"][k], found["pads"][n + k]
        low, high = (-before, size + after) if include else (0, size)
        first = np.arange(node.outputs[0].dims[2 + k]) * s - before
        cells = first[:, None] + np.arange(window[k]) * d
        total = np.multiply.outer(total, ((cells >= low) & (cells < high)).sum(1))
    return total


def transposed_geometry(node, x, window):
    """Strides, dilations and pads of a transposed convolution of x, all written out."""
    a, n = node.attributes, len(window)
    kind, wanted = a.get("auto_pad", "NOTSET"), a.get("output_shape")
    found = geometry(node, x, window) if kind in ("NOTSET", "VALID") else {}
    strides, dilations = (list(a.get(k) or [1] * n) for k in ("strides", "dilations"))
    if wanted is None and found:
        return found
    if not known_sizes(x):
        raise NoGradient(f"a wanted size has a gradient for images of known sizes, not {x!r}")
    wanted = wanted or [size * s for size, s in zip(x.dims[2:], strides, strict=True)]
    total = [
        max(0, (size - 1) * s + more + (k - 1) * d + 1 - result)
        for size, s, more, k, d, result in zip(
            x.dims[2:],
            strides,
            a.get("output_padding") or [0] * n,
            window,
            dilations,
            wanted,
            strict=True,
        )
    ]
    return {"strides": strides, "dilations": dilations, "pads": split_pads(total, kind)}
