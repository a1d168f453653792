"""Derivatives of images in other sizes."""

import numpy as np

from .. import ops
from ..errors import NoGradient
from ..ops.image import interpolation_matrix
from ..variable import constant
from .registry import again, gradient


@gradient("Resize")
def resize(node, dy):
    """An interpolation is a product along each axis: its matrix, turned."""
    x, a = node.inputs[0], node.attributes
    if _is_interpolation(node, dy):
        for axis in range(2, x.rank):
            matrix = constant(interpolation_matrix(x.dims[axis], dy.dims[axis]), dy.dtype)
            dy = _along(dy, matrix, axis)
    else:
        axes = [int(k) % x.rank for k in a.get("axes") or range(x.rank)]
        for place, axis in enumerate(axes):
            if not _kept(node, place, axis):
                matrix = _matrix(node, dy, place, axis, len(axes))
                dy = _along(dy, ops.transpose(matrix), axis)
    return [dy, *[None] * (len(node.inputs) - 1)]


def _is_interpolation(node, dy):
    """Whether it is what `interpolate` gives, whose matrices are known."""
    x, a = node.inputs[0], node.attributes
    kind = a.get("mode", "nearest"), a.get("coordinate_transformation_mode"), a.get("axes")
    sizes = (*x.dims[2:], *dy.dims[2:])
    wanted = "linear", "align_corners", list(range(2, x.rank))
    return kind == wanted and all(isinstance(d, int) for d in sizes) and not a.get("antialias")


def _kept(node, place, axis):
    """Whether an axis stays as it is, as far as is known."""
    _, _, scales, sizes = (*node.inputs, None, None)[:4]
    if node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return False
    if scales is not None and scales.dims != (0,):
        return scales.value is not None and scales.value[place] == 1.0
    return sizes.value is not None and sizes.value[place] == node.inputs[0].dims[axis]


def _matrix(node, dy, place, axis, count):
    """[size, result]: how much each pixel of an axis gives to each of its interpolation.

    It is found by interpolating the unit matrix.
    """
    x, a = node.inputs[0], node.attributes
    _, region, scales, sizes = (*node.inputs, None, None, None)[:4]
    rows = ops.arange(ops.size_of(x, axis))
    unit = ops.equal(ops.unsqueeze(rows, 0), ops.unsqueeze(rows, 1))
    unit = ops.unsqueeze(ops.cast(unit, dy.dtype), [0, 1])
    keep = {"axes": None, "extrapolation_value": 0.0, "keep_aspect_ratio_policy": None}
    if a.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        first, last = (ops.slice(region, [place + k], [place + k + 1], [0]) for k in (0, count))
        none = np.array([0, 0, 0], region.dtype)
        region = ops.concat([none, first, none + 1, last])
    else:
        region = None
    if scales is not None and scales.dims != (0,):
        scale = ops.slice(scales, [place], [place + 1], [0])
        inputs = [region, ops.concat([np.ones(3, np.float32), scale])]
    elif a.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return _matrix_of_images(node, dy, axis)
    else:
        one = constant(np.ones(2, np.int64))
        sizes = ops.slice(sizes, [place], [place + 1], [0])
        inputs = [region, None, ops.concat([one, ops.size_of(x, axis), sizes])]
    known = (1, 1, x.dims[axis], dy.dims[axis])
    return ops.squeeze(again(node, unit, *inputs, known=known, **keep), [0, 1])


def _matrix_of_images(node, dy, axis):
    """The same where the scale of one axis depends on the others: of whole images, each of which
    is 1 at one place of the axis.
    """
    x, axes = (
        node.inputs[0],
        [int(k) % node.inputs[0].rank for k in node.attributes.get("axes", [0])],
    )
    if 0 in axes:
        raise NoGradient("an aspect ratio is kept of some axes of an image, not of the first")
    size = ops.size_of(x, axis)
    rows, along = ops.arange(size), [-1 if k == axis else 1 for k in range(x.rank)]
    hit = ops.equal(ops.reshape(rows, [-1, *[1] * (x.rank - 1)]), ops.reshape(rows, along))
    one = constant(np.ones(1, np.int64))
    sizes = [ops.size_of(x, k) if k in axes else one for k in range(x.rank)]
    images = ops.expand(ops.cast(hit, dy.dtype), ops.concat([size, *sizes[1:]]))
    images.dims = (x.dims[axis], *(d if k in axes else 1 for k, d in enumerate(x.dims) if k))
    found = again(node, images, *node.inputs[1:])
    others = [k for k in range(1, x.rank) if k != axis]
    found = ops.slice(found, [0] * len(others), [1] * len(others), others)
    return ops.squeeze(found, others)


def _along(dy, matrix, axis):
    """dy times a matrix, along one axis."""
    last = dy.rank - 1
    if axis == last:
        return ops.matmul(dy, matrix)
    if axis == last - 1:
        return ops.matmul(ops.transpose(matrix), dy)
    order = list(range(dy.rank))
    order[axis], order[last] = last, axis
    return ops.transpose(ops.matmul(ops.transpose(dy, order), matrix), order)
