"""Channels of position-major images side by side, and some of them."""

from collections.abc import Sequence

import numpy as np

from ...graph.node import Node, apply
from ...graph.variable import Inputs
from .image import Image, Rows


def concatenated(images: Sequence[Image], rows: Rows) -> Image:
    """Return images of the same sizes with their channels side by side."""
    first, *others = images
    parts = [first.rows, *(rows.ordered(image, first.order).rows for image in others)]
    dims = (*first.rows.dims[:2], sum(image.channels for image in images))
    return first.like(apply("Concat", *parts, axis=2, known=dims))


def of_channels(node: Node, image: Image, inputs: Inputs) -> Image | None:
    """Return a Slice along the channels; None for other slices."""
    start, end, axes, *steps = (None if x is None else x.value for x in inputs[1:])
    if start is None or end is None or axes is None or len(axes) != 1 or len(start) != 1:
        return None
    if int(axes[0]) % 4 != 1 or any(step is None or (step != 1).any() for step in steps):
        return None
    dims = (*image.rows.dims[:2], node.outputs[0].dims[1])
    bounds = (start, end, np.array([2]))
    return image.like(apply("Slice", image.rows, *bounds, known=dims))
