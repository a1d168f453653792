"""Shapes that users write: numbers, with Variables among them for sizes that only runs know."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from ..graph.checks import whole
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply
from ..graph.variable import Dim, Dims, Operand, Variable, describe, fresh_dim

TargetShape = Operand | Sequence[int | Variable]

_SAME_NUMBER = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def shape_operand(shape: TargetShape) -> tuple[Variable, Dims | None]:
    """Return a shape as int64 [rank], and its sizes where it is a list with Variables among them.

    Such a Variable is an integer: a scalar, or [1] as `size_of` gives it. A size that is read from
    the shape of a Variable keeps its name, so that the result is known to be as large.

    Raises:
        DTypeError: a size is no integer.
        ShapeError: a size is no single number.
    """
    if not isinstance(shape, (list, tuple)) or not any(isinstance(d, Variable) for d in shape):
        given: Any = shape
        return whole(given), None
    sizes: list[Any] = [_size(d) if isinstance(d, Variable) else d for d in shape]
    dims = [_known(d if isinstance(d, Variable) else whole(d)) for d in sizes]
    sizes = [known if isinstance(known, int) else d for d, known in zip(sizes, dims, strict=True)]
    if not any(isinstance(d, Variable) for d in sizes):
        return whole(sizes), None
    parts = [_vector(d) if isinstance(d, Variable) else whole([d]) for d in sizes]
    return apply("Concat", *parts, axis=0), tuple(dims)


def _size(x):
    """A Variable that is one size."""
    if x.dtype.kind not in "iu":
        raise DTypeError(f"a size is an integer, not {describe(x)}")
    if x.dims not in ((), (1,)):
        raise ShapeError(f"a size is one number, not {describe(x)}")
    return x


def _vector(x):
    """A size as int64 [1]."""
    x = x if x.dtype == np.int64 else apply("Cast", x, to=TensorProto.INT64)
    return x if x.rank == 1 else apply("Unsqueeze", x, whole([0]))


def _known(x: Variable) -> Dim:
    """Return the size of some Variable that this number is; a new name if it is computed."""
    if x.value is not None:
        return int(x.value.item())
    node: Any = x.node
    if node is None:
        return fresh_dim()
    source, *others = node.inputs
    if node.op_type == "Shape":
        (size,) = source.dims[node.attributes.get("start", 0) : node.attributes.get("end")]
        return size
    if node.op_type in _SAME_NUMBER:
        return _known(source)
    index = others[0].value if node.op_type == "Gather" else None
    if index is not None and source.is_output_of("Shape") and not source.node.attributes:
        return source.node.inputs[0].dims[index.item()]
    return fresh_dim()
