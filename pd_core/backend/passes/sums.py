"""Sums and means over the rows of a matrix, such as gradients of biases, as products with ones."""

from math import prod

import numpy as np
from onnx import numpy_helper

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Dim, Inputs, Variable, constant, static
from .context import Context, Outputs

_FEWEST = 1 << 12  # numbers from which it is faster


def sum_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Sum over the first axes by a product with a row of ones.

    ONNX Runtime's product reads a matrix two to fifteen times as fast as its ReduceSum.
    """
    x, *axes = inputs
    if x.dtype != np.float32 or 0 in x.symbolic_dims or context.has_fewer(x, _FEWEST):
        return None
    count = _first_axes(x, axes[0].value if axes else None)
    if not count:
        return None
    rows, shape = _as_matrix(x, count), _shape(node.outputs[0].dims)
    if rows is None or shape is None:
        return None
    y = ops.matmul(_ones(rows), rows)
    if node.op_type == "ReduceMean":
        y = y / ops.cast(ops.size_of(rows, 0), np.float32)
    return (apply("Reshape", y, shape, known=node.outputs[0].dims),)


def _first_axes(x: Variable, axes: np.ndarray | None) -> int:
    """The number of axes that are summed over, if they are the first ones; 0 if not, or all."""
    found = set() if axes is None else {a % x.rank for a in axes.tolist()}
    count = len(found)
    return count if 0 < count < x.rank and found == set(range(count)) else 0


def _as_matrix(x: Variable, count: int) -> Variable | None:
    """Return x [..., ...] as a matrix [product of the first `count` sizes, product of the rest].

    None where both products are unknown.
    """
    if x.rank == 2:
        return x
    shape = _shape([_product(x.dims[:count]), _product(x.dims[count:])])
    return None if shape is None else apply("Reshape", x, shape)


def _product(dims: tuple[Dim, ...]) -> Dim:
    unknown = [d for d in dims if not isinstance(d, int)]
    return unknown[0] if unknown else prod(static(dims))


def _shape(dims) -> np.ndarray | None:
    """Return the shape argument of a Reshape to these sizes, none of which is 0.

    An unknown size is -1; None with several of them.
    """
    if sum(not isinstance(d, int) for d in dims) > 1:
        return None
    return np.array([d if isinstance(d, int) else -1 for d in dims], np.int64)


def _ones(rows: Variable) -> Variable:
    """Return a vector of N ones for rows [N, W]."""
    if isinstance(rows.dims[0], int):
        return constant(np.ones(rows.dims[0], np.float32))
    size, one = apply("Shape", rows, end=1), numpy_helper.from_array(np.ones(1, np.float32))
    return apply("ConstantOfShape", size, value=one, known=rows.dims[:1])
