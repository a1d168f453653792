"""Derivatives of images in other sizes."""

from .. import ops
from ..errors import NoGradient
from ..ops.image import interpolation_matrix
from ..variable import constant
from .registry import gradient


@gradient("Resize")
def resize(node, dy):
    """An interpolation is a product along each axis: its matrix, turned."""
    x, a = node.inputs[0], node.attributes
    mode, corners = a.get("mode", "nearest"), a.get("coordinate_transformation_mode")
    spatial = list(range(2, x.rank))
    if (mode, corners) != ("linear", "align_corners") or a.get("axes") != spatial:
        raise NoGradient(f"only interpolate() has a gradient rule, not mode={mode} with {corners}")
    if not all(isinstance(d, int) for d in (*x.dims[2:], *dy.dims[2:])):
        raise NoGradient(f"only images of known sizes have a gradient, not {x!r}")
    for axis in spatial:
        matrix = interpolation_matrix(x.dims[axis], dy.dims[axis])
        dy = _along(dy, constant(matrix, dy.dtype), axis)
    return [dy, *[None] * (len(node.inputs) - 1)]


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
