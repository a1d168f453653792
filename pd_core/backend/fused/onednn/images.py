"""Images whose channels come last, [N, H, W, C], in the place of plain ones, [N, C, H, W]."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....graph.node import Node, apply, composite
from ....graph.variable import Dim, Inputs, Variable
from ...layout import elementwise

LastOf = Callable[[Variable], Variable]
TO_LAST, TO_PLAIN = [0, 2, 3, 1], [0, 3, 1, 2]
POINTWISE = elementwise.POINTWISE | {"Gelu", "NormalCdf", "NormalPdf"}
_AXES = {0: 0, 1: 3, 2: 1, 3: 2}
_WHOLE = ([2, 3], [0, 2, 3], [0, 1, 2, 3], [1])  # axes whose sums have their elements in order


def to_last(x: Variable) -> Variable:
    """Return a plain image with its channels last."""
    n, channels, height, width = x.dims
    return _turned(x, TO_LAST, (n, height, width, channels), channels)


def to_plain(x: Variable) -> Variable:
    """Return an image whose channels are last as a plain one."""
    return _turned(x, TO_PLAIN, plain_dims(x.dims), x.dims[3])


def _turned(x, order, dims, channels):
    if channels == 1 and all(isinstance(d, int) for d in dims[1:]):  # the same elements in order
        return apply("Reshape", x, np.array([-1, *dims[1:]]), known=dims)
    return apply("Transpose", x, perm=order, known=dims)


def plain_dims(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the sizes of a plain image from those with the channels last."""
    n, height, width, channels = dims
    return n, channels, height, width


def pointwise(node: Node, images: list, inputs: Inputs, last_of: LastOf) -> Variable | None:
    """Return an elementwise operator on images with channels last; None where it does not fit.

    `images` has None for inputs that are plain; `last_of(x)` turns one of those.
    """
    first = next(i for i in images if i is not None)
    y = node.outputs[0]
    if plain_dims(first.dims)[1:] != tuple(y.dims[1:]) or len(node.outputs) > 1:
        return None
    operands = []
    for image, x in zip(images, inputs, strict=True):
        operand = _operand(image, x, first, last_of)
        if operand is None and x is not None:
            return None
        operands.append(operand)
    return _rebuilt(node, operands, first.dims)


def _rebuilt(node: Node, operands: list, dims: Sequence[Dim]) -> Any:
    if node.domain:
        types = [(tuple(dims), node.outputs[0].dtype)]
        return composite(
            node.op_type, *operands, types=types, domain=node.domain, **node.attributes
        )
    return apply(node.op_type, *operands, known=tuple(dims), **node.attributes)


def _operand(image, x, first, last_of):
    """An input: an image of the same sizes, a value for each channel, or a number."""
    if image is not None:
        return image if tuple(image.dims) == tuple(first.dims) else None
    if x is None:
        return None
    if all(d == 1 for d in x.dims):
        return x if x.rank < 4 else apply("Reshape", x, np.array([1]), known=(1,))
    if x.rank == 4 and tuple(x.dims) == plain_dims(first.dims):
        return last_of(x)
    channels = first.dims[3]
    if x.rank in (3, 4) and (*[1] * (4 - x.rank), *x.dims) == (1, channels, 1, 1):
        return flat(x)
    return None


def flat(x: Variable) -> Variable:
    """Return a value for each channel as a vector."""
    (channels,) = [d for d in x.dims if d != 1] or [1]
    return apply("Reshape", x, np.array([-1]), known=(channels,))


def reduced(node: Node, image: Variable, inputs: Inputs) -> Variable | None:
    """Return a sum or mean of an image, whose channels are last, in the form of a plain one's."""
    axes = inputs[1].value if len(inputs) > 1 and inputs[1] is not None else None
    if axes is None:
        return None
    over = sorted(int(a) % 4 for a in axes.ravel())
    if over not in _WHOLE:
        return None
    plain = plain_dims(image.dims)
    last = np.array(sorted(_AXES[a] for a in over))
    kept = tuple([d for a, d in enumerate(image.dims) if a not in last])
    y = apply(node.op_type, image, last, keepdims=0, known=kept)
    if not node.attributes.get("keepdims", 1):
        return y
    dims = tuple([1 if a in over else d for a, d in enumerate(plain)])
    target = [d if isinstance(d, int) else -1 for d in dims]
    return apply("Reshape", y, np.array(target), known=dims)


def batch_norm(node: Node, x: Variable, inputs: Inputs, count: Variable) -> tuple[Variable, ...]:
    """Return the normalized image, mean and biased variance of each channel, and `count`.

    The variance is that of centred values, as for plain images.
    """
    _, scale, shift = inputs
    channels = (x.dims[3],)
    axes = np.array([0, 1, 2])
    mean = apply("ReduceMean", x, axes, keepdims=0, known=channels)
    centred = apply("Sub", x, mean, known=x.dims)
    squares = apply("Mul", centred, centred, known=x.dims)
    variance = apply("ReduceMean", squares, axes, keepdims=0, known=channels)
    y = _scaled(node, x, scale, shift, mean, variance)
    return y, mean, variance, count


def batch_normalization(node: Node, x: Variable, inputs: Inputs) -> Variable | None:
    """Return an image normalized by given statistics; None in ONNX's mode of training."""
    if len(node.outputs) > 1 or node.attributes.get("training_mode", 0):
        return None
    return _scaled(node, x, *inputs[1:])


def _scaled(node, x, scale, shift, mean, variance):
    factor = scale / apply("Sqrt", variance + node.attributes.get("epsilon", 1e-5))
    scaled = apply("Mul", x, factor, known=x.dims)
    return apply("Add", scaled, shift - mean * factor, known=x.dims)
