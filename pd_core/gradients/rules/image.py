"""Derivatives of resizing images."""

from typing import Any

import numpy as np

from ... import ops
from ...graph.errors import NoGradient
from ...graph.node import Node, refined
from ...graph.rewrite import substitute
from ...graph.variable import Variable, constant, static
from ...ops.image import interpolation_matrix
from ..engine import gradients
from ..registry import Gradients, gradient, reapply
from .sampling import cubic_taps, linear_taps


@gradient("Resize")
def resize(node: Node, dy: Variable) -> Gradients:
    """By the transposed matrix of each axis: an interpolation is a matrix product along each."""
    x, a, dx = node.inputs[0], node.attributes, dy
    if _is_interpolation(node, dy):
        for axis in range(2, x.rank):
            matrix = constant(
                interpolation_matrix(static(x.dims)[axis], static(dy.dims)[axis]), dy.dtype
            )
            dx = _multiply_along(dx, matrix, axis)
    else:
        axes = _axes(node)
        for k, axis in enumerate(axes):
            if not _is_unchanged(node, k, axis):
                matrix = _matrix(node, dx, k, axis, len(axes))
                dx = _multiply_along(dx, ops.transpose(matrix), axis)
    cropped = a.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    region = (lambda: _region_gradient(node, dy)) if cropped else None
    return [dx, region, None, None][: len(node.inputs)]


def _axes(node):
    rank = node.inputs[0].rank
    return [int(k) % rank for k in node.attributes.get("axes") or range(rank)]


def _region_gradient(node, dy):
    """Differentiate by the region of a crop, which moves the points that are sampled."""
    x, region, a = node.inputs[0], node.inputs[1], node.attributes
    if a.get("mode", "nearest") == "nearest":
        return ops.zeros_like(region)
    if a.get("antialias", 0) or a.get("exclude_outside", 0):
        raise NoGradient("antialias and exclude_outside leave a region without a gradient")
    block_input, y = Variable.of(region.dims, region.dtype, region.name), x
    for k, axis in enumerate(_axes(node)):
        if axis < 2 < x.rank and x.dims[axis] == dy.dims[axis]:
            continue  # images and channels are never cropped
        y = _multiply_along(y, ops.transpose(_crop_matrix(node, block_input, dy, k, axis)), axis)
    g: Any = gradients([y], [block_input], [dy])[0]
    return substitute([g], {block_input: region}, stop={block_input, dy})[0]


def _crop_matrix(node, region, dy, k, axis):
    """Return the interpolation matrix of a crop along an axis, [result, size], from its ends.

    The axis is the k-th of those that are resized.
    """
    x, a = node.inputs[0], node.attributes
    size, count = (ops.cast(ops.reshape(ops.size_of(v, axis), []), dy.dtype) for v in (x, dy))
    first, last = (
        ops.cast(ops.reshape(ops.slice(region, [n], [n + 1], [0]), []), dy.dtype) * (size - 1.0)
        for n in (k, k + len(_axes(node)))
    )
    steps = ops.cast(ops.arange(ops.size_of(dy, axis)), dy.dtype)
    step = (last - first) / ops.where(count > 1.0, count - 1.0, 1.0)
    at = ops.where(count > 1.0, first + steps * step, (first + last) * 0.5)
    base = ops.stop_gradient(ops.floor(at))
    fraction, linear = at - base, a["mode"] == "linear"
    taps = linear_taps(fraction) if linear else cubic_taps(fraction, a.get("cubic_coeff_a", -0.75))
    pixels = ops.cast(ops.arange(ops.size_of(x, axis)), dy.dtype)
    matrix: Any = None
    for tap, weight in taps.items():
        pixel = ops.clip(base + float(tap), 0.0, size - 1.0)
        hit = ops.equal(ops.unsqueeze(pixel, 1), ops.unsqueeze(pixels, 0))
        weights = ops.unsqueeze(weight, 1) * ops.cast(hit, dy.dtype)
        matrix = weights if matrix is None else matrix + weights
    within = ops.logical_and(at >= 0.0, at <= size - 1.0)
    return ops.where(ops.unsqueeze(within, 1), matrix, 0.0)


def _is_interpolation(node, dy):
    """Check whether a node is one of `ops.interpolate`, whose matrices are known."""
    x, a = node.inputs[0], node.attributes
    kind = a.get("mode", "nearest"), a.get("coordinate_transformation_mode"), a.get("axes")
    sizes = (*x.dims[2:], *dy.dims[2:])
    expected = "linear", "align_corners", list(range(2, x.rank))
    return kind == expected and all(isinstance(d, int) for d in sizes) and not a.get("antialias")


def _is_unchanged(node, k, axis):
    """Check whether the k-th axis is known to keep its size."""
    _, _, scales, sizes = (*node.inputs, None, None)[:4]
    if node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return False
    if node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False  # the size that is asked for may be another one than that of the result
    if scales is not None and scales.dims != (0,):
        return scales.value is not None and scales.value[k] == 1.0
    return sizes.value is not None and sizes.value[k] == node.inputs[0].dims[axis]


def _matrix(node, dy, k, axis, count):
    """Return the interpolation matrix of the k-th of `count` axes, [size, result].

    It is the interpolation of the identity matrix.
    """
    x, a = node.inputs[0], node.attributes
    _, region, scales, sizes = (*node.inputs, None, None, None)[:4]
    rows = ops.arange(ops.size_of(x, axis))
    identity = ops.equal(ops.unsqueeze(rows, 0), ops.unsqueeze(rows, 1))
    identity = ops.unsqueeze(ops.cast(identity, dy.dtype), [0, 1])
    identity = refined(identity, (1, 1, x.dims[axis], x.dims[axis]))
    changed: dict[str, Any] = {
        "axes": None,
        "extrapolation_value": 0.0,
        "keep_aspect_ratio_policy": None,
    }
    if a.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        first, last = (ops.slice(region, [n], [n + 1], [0]) for n in (k, k + count))
        zeros = np.array([0, 0, 0], region.dtype)
        region = ops.concat([zeros, first, zeros + 1, last])
    else:
        region = None
    if scales is not None and scales.dims != (0,):
        inputs = [region, _scales_of_matrix(scales, k)]
    elif a.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return _matrix_from_images(node, dy, axis)
    else:
        one = constant(np.ones(2, np.int64))
        sizes = ops.slice(sizes, [k], [k + 1], [0])
        inputs = [region, None, ops.concat([one, ops.size_of(x, axis), sizes])]
    known = (1, 1, x.dims[axis], dy.dims[axis])
    return ops.squeeze(reapply(node, identity, *inputs, known=known, **changed), [0, 1])


def _scales_of_matrix(scales, k):
    """Return the scales of a matrix: that of the k-th axis along the last one."""
    ones = np.ones(3, np.float32)
    if scales.value is not None:
        return constant(np.append(ones, scales.value[k]))
    return ops.concat([ones, ops.slice(scales, [k], [k + 1], [0])])


def _matrix_from_images(node, dy, axis):
    """Return the matrix of an axis whose scale depends on the other axes.

    It is the interpolation of whole images, each of which is 1 at one index of the axis.
    """
    x = node.inputs[0]
    axes = [int(k) % x.rank for k in node.attributes.get("axes", [0])]
    if 0 in axes:
        raise NoGradient("an aspect ratio is kept of some axes of an image, not of the first")
    size = ops.size_of(x, axis)
    rows, along = ops.arange(size), [-1 if k == axis else 1 for k in range(x.rank)]
    hit = ops.equal(ops.reshape(rows, [-1, *[1] * (x.rank - 1)]), ops.reshape(rows, along))
    one = constant(np.ones(1, np.int64))
    sizes = [ops.size_of(x, k) if k in axes else one for k in range(x.rank)]
    images = ops.expand(ops.cast(hit, dy.dtype), ops.concat([size, *sizes[1:]]))
    dims = (x.dims[axis], *(d if k in axes else 1 for k, d in enumerate(x.dims) if k))
    images = refined(images, dims)
    resized = reapply(node, images, *node.inputs[1:])
    others = [k for k in range(1, x.rank) if k != axis]
    resized = ops.slice(resized, [0] * len(others), [1] * len(others), others)
    return ops.squeeze(resized, others)


def _multiply_along(dy, matrix, axis):
    """Multiply dy with a matrix along one axis."""
    last = dy.rank - 1
    if axis == last:
        return dy @ matrix
    if axis == last - 1:
        return ops.transpose(matrix) @ dy
    order = list(range(dy.rank))
    order[axis], order[last] = last, axis
    return ops.transpose(ops.transpose(dy, order) @ matrix, order)
