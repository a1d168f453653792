"""Shapes that users write: numbers, with Variables among them for sizes that only runs know."""

import math
from collections import Counter
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


def reshaped_at_run_time(x: Variable, shape: Any, dims: Dims) -> Variable:
    """Reshape to a list of sizes with Variables among them, of which `dims` says what is known."""
    if dims.count(-1) > 1:
        raise ShapeError(f"{list(dims)} leaves several sizes to be inferred")
    sizes: list[Any] = [
        _own_size(x, k) if d == 0 and k < x.rank else given
        for k, (given, d) in enumerate(zip(shape, dims, strict=True))
    ]
    settled = _with_copied_sizes(x, dims)
    names = Counter(d for d in settled if isinstance(d, str))
    if -1 in settled and names == Counter(x.dims[k] for k in _unknown_axes(x)):
        row = math.prod(d for d in x.dims if isinstance(d, int))
        own = math.prod(d for d in settled if isinstance(d, int) and d != -1)
        if own and row % own == 0:
            sizes[dims.index(-1)] = settled[dims.index(-1)] = row // own
    known = [fresh_dim() if d == -1 else d for d in settled]
    # a size that is 0 is no axis to be copied
    allowzero = int(-1 not in settled)
    return apply("Reshape", x, shape_operand(sizes)[0], known=known, allowzero=allowzero)


def _own_size(x, axis):
    """A size of x: a number, or int64 [1]."""
    size = x.dims[axis]
    return size if isinstance(size, int) else apply("Shape", x, start=axis, end=axis + 1)


def with_inferred_batch(x: Variable, sizes: list[int]) -> list[int]:
    """Rewrite [0, -1] for x [N, 2, 3] as [-1, 6]: ONNX cannot infer the 6 where N is 0."""
    unknown = _unknown_axes(x)
    if len(unknown) != 1 or sizes.count(-1) != 1:
        return sizes
    batch, inferred = unknown[0], sizes.index(-1)
    if batch >= len(sizes) or sizes[batch] != 0:
        return sizes
    settled = _with_copied_sizes(x, sizes)
    row = math.prod(d for d in x.dims if isinstance(d, int))
    fixed = math.prod(d for k, d in enumerate(settled) if k not in (batch, inferred))
    if not fixed or row % fixed:
        return sizes
    settled[batch], settled[inferred] = -1, row // fixed
    return settled


def reshaped_dims(x: Variable, sizes: list[int]) -> Dims | None:
    """Return the result's dims where ONNX loses them: [N, 784] to [-1, 1, 28, 28] keeps N."""
    unknown = _unknown_axes(x)
    if sizes.count(-1) != 1 or len(unknown) != 1:
        return None
    sizes = _with_copied_sizes(x, sizes)
    if any(isinstance(d, str) for d in sizes):
        return None
    row = math.prod(d for d in x.dims if isinstance(d, int))
    fixed = math.prod(d for d in sizes if d != -1)
    inferred = x.dims[unknown[0]] if fixed == row else fresh_dim()
    return tuple(inferred if d == -1 else d for d in sizes)


def _unknown_axes(x):
    return [k for k, d in enumerate(x.dims) if isinstance(d, str)]


def _with_copied_sizes(x, sizes):
    """Replace each 0 by the size of that axis of x."""
    return [x.dims[k] if d == 0 and k < x.rank else d for k, d in enumerate(sizes)]


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
