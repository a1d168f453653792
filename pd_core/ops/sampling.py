"""Sampling of images at points: the points of affine maps, and the pixels between them."""

from ..graph.errors import GraphError, ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, static
from .sizes import TargetShape, shape_operand


@op
def affine_grid(theta: Operand, shape: TargetShape, align_corners: bool = False) -> Variable:
    """Sample points of an affine map, torch.nn.functional.affine_grid.

    Matrices theta [N, 2, 3] and a shape [N, C, H, W] give [N, H, W, 2]: the point (x, y) in the
    input of each pixel of the output, where -1 and 1 are the borders of the input; with
    `align_corners` they are the centres of its first and last pixel. [N, 3, 4] and
    [N, C, D, H, W] give [N, D, H, W, 3]. The shape may be an int64 Variable.

    Args:
        theta: floats [N, 2, 3] or [N, 3, 4].
        shape: [N, C, H, W] or [N, C, D, H, W], numbers or an int64 Variable.

    Returns:
        [N, H, W, 2] or [N, D, H, W, 3].

    Raises:
        ShapeError: theta and shape do not fit each other.
    """
    theta = constant(theta)
    shape = shape_operand(shape)
    if theta.dims[1:] not in ((2, 3), (3, 4)) or shape.dims != (static(theta.dims)[1] + 2,):
        raise ShapeError(f"{describe(theta)} are no maps of images of {describe(shape)}")
    return apply("AffineGrid", theta, shape, align_corners=int(align_corners))


@op
def grid_sample(
    x: Operand,
    grid: Operand,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Variable:
    """Sample images at points, torch.nn.functional.grid_sample (Jaderberg et al. 2015).

    x [N, C, H, W] and points [N, A, B, 2] as of `affine_grid` give [N, C, A, B]; volumes
    [N, C, D, H, W] and [N, A, B, E, 3] give [N, C, A, B, E]. `mode` is linear, nearest, or cubic
    (of images). Beyond the borders there are zeros, the nearest pixel ("border") or the mirrored
    image ("reflection"). Gradients flow to x and, except for nearest, to the points.

    Args:
        x: floats [N, C, H, W] or [N, C, D, H, W].
        grid: floats [N, A, B, 2] or [N, A, B, E, 3].
        mode: "linear", "nearest" or "cubic".
        padding_mode: "zeros", "border" or "reflection".

    Returns:
        [N, C, A, B] or [N, C, A, B, E].

    Raises:
        GraphError: there is no such mode or padding_mode.
        ShapeError: x and grid do not fit each other.
    """
    x = constant(x)
    grid = constant(grid)
    if mode not in ("linear", "nearest", "cubic"):
        raise GraphError(f"the mode is linear, nearest or cubic, not {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise GraphError(f"padding_mode is zeros, border or reflection, not {padding_mode!r}")
    if x.rank not in (4, 5) or grid.rank != x.rank or grid.dims[-1] != x.rank - 2:
        raise ShapeError(f"{describe(x)} at the points {describe(grid)}")
    if 0 in x.dims[2:]:
        raise ShapeError(f"{describe(x)} has no pixels")
    if mode == "cubic" and x.rank == 5:
        raise ShapeError(f"the cubic mode takes images [N, C, H, W], not {describe(x)}")
    corners = int(align_corners)
    return apply("GridSample", x, grid, mode=mode, padding_mode=padding_mode, align_corners=corners)
