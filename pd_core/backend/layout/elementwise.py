"""Operators that treat every pixel alike, or every channel, on images that are position-major."""

from collections.abc import Callable

import numpy as np

from ... import ops
from ...graph.node import Node, apply, composite
from ...graph.variable import Dim, Inputs, Variable, static
from .image import Image, Rows

ImageOf = Callable[[Variable], Image]
POINTWISE = frozenset(
    {
        *("Relu", "ReluGrad", "LeakyRelu", "Elu", "Selu", "Sigmoid", "Tanh", "Clip", "Softplus"),
        *("Abs", "Neg", "Exp", "Log", "Sqrt", "Sign", "Erf", "HardSigmoid", "HardSwish", "Celu"),
        *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "PRelu", "ThresholdedRelu"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Not", "And", "Or"),
        *("Where", "Cast", "Identity", "Reciprocal"),
    }
)


class Pointwise:
    """Rebuilds operators on rows."""

    def __init__(self, rows: Rows):
        self.rows = rows

    def apply(self, node: Node, images: list, inputs: Inputs, image_of: ImageOf) -> Image | None:
        """Return the node on rows; `images` has None for inputs that are not position-major.

        `image_of(x)` makes a plain image position-major.
        """
        dims = node.outputs[0].dims
        first = next(i for i in images if i is not None)
        if first.dims[1:] != tuple(dims[1:]) or len(node.outputs) > 1:
            return None
        operands = []
        for image, x in zip(images, inputs, strict=True):
            operand = self._operand(image, x, first, image_of)
            if operand is None and x is not None:
                return None
            operands.append(operand)
        types = [(first.rows.dims, node.outputs[0].dtype)]
        if node.domain:
            y = composite(
                node.op_type, *operands, types=types, domain=node.domain, **node.attributes
            )
        else:
            y = apply(node.op_type, *operands, known=first.rows.dims, **node.attributes)
        return first.like(y)

    def _operand(self, image, x, first, image_of):
        """An input on rows: an image in the order of the first, a row of channels, or a number."""
        if image is not None:
            whole = image.dims[1:] == first.dims[1:]
            return self.rows.ordered(image, first.order).rows if whole else None
        if x is None:
            return None
        sizes = x.dims
        if all(d == 1 for d in sizes):
            return x if x.rank < 4 else ops.reshape(x, np.array([1]))
        if x.rank == 4 and tuple(sizes[1:]) == first.dims[1:] and sizes[0] == first.batch:
            return self.rows.ordered(image_of(x), first.order).rows
        if _per_channel(sizes, first.channels):
            return self.row(x, first)
        return None

    def row(self, vector: Variable, image: Image) -> Variable:
        """Return a value per channel as a row [N, C]: a kernel takes long rows at a time."""
        key = ("row", vector, image.batch, image.channels)
        return self.rows.once(key, lambda: self._row(vector, image))

    def _row(self, vector, image):
        flat = ops.reshape(vector, np.array([image.channels]))
        shape = apply("Shape", image.rows, start=1)
        return apply("Expand", flat, shape, known=image.rows.dims[1:])

    def reduced(self, node: Node, image: Image, axes: list[int], keepdims: bool) -> Variable | None:
        """Return the sum or mean of an image over positions, and images if axis 0 is among them."""
        over = sorted(a % 4 for a in axes)
        if over not in ([0, 2, 3], [2, 3]):
            return None
        y = _along(node.op_type, image.rows, 0, image.rows.dims[1:])
        dims: tuple[Dim, ...] = (image.batch, image.channels, 1, 1)
        if over == [0, 2, 3]:
            y = _along(node.op_type, y, 0, (image.channels,))
            dims = (1, *dims[1:])
        if not keepdims:
            return y
        return apply("Reshape", y, np.array([-1, *static(dims[1:])]), known=dims)


def _per_channel(dims, channels):
    """Whether a value of these dims has one element per channel of an image."""
    full = (*[1] * (4 - len(dims)), *dims)
    return len(dims) in (3, 4) and full == (1, channels, 1, 1)


def _along(op_type, x, axis, dims):
    return apply(op_type, x, np.array([axis]), keepdims=0, known=tuple(dims))
