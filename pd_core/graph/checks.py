"""Checks of operators, with both sizes in the message where ONNX is silent or terse.

`checks[op_type](node)` raises ShapeError or DTypeError.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from .arrays import common_dtype
from .broadcast import BROADCASTING, broadcast_dims
from .errors import DTypeError, ShapeError
from .operator import Operator
from .variable import Operand, Variable, constant, describe, format_dims

_Check = TypeVar("_Check", bound=Callable[[Operator], None])

checks: dict[str, Callable[[Operator], None]] = {}


def check(*op_types: str) -> Callable[[_Check], _Check]:
    """Register fn(node), which raises an error, as the check of these operators."""
    return lambda fn: checks.update(dict.fromkeys(op_types, fn)) or fn


# ---- arguments


def axis_of(x: Variable, axis: int) -> int:
    """Return an axis of x counted from the front; ShapeError unless x has it."""
    if not -x.rank <= axis < x.rank:
        raise ShapeError(f"axis {axis} of {x!r}, which has {x.rank} axes")
    return axis % x.rank


def numbers(x: Operand) -> Variable:
    """Return x, whose elements are numbers; DTypeError if they are bools or text."""
    x = constant(x)
    if x.dtype.kind in "bOSU":
        raise DTypeError(f"takes numbers, not {describe(x)}")
    return x


def floats(x: Operand) -> Variable:
    """Return x, whose elements are floats; DTypeError if they are not."""
    x = constant(x)
    if x.dtype.kind != "f":
        raise DTypeError(f"takes floats, not {describe(x)}")
    return x


def per_axis(value: Operand, n: int) -> list[int]:
    """Return one int for each of n axes."""
    array: Any = whole(value).value
    values = array.reshape(-1).tolist()
    if len(values) not in (1, n):
        raise ShapeError(f"{len(values)} numbers {values} for {n} spatial axes")
    return values * n if len(values) == 1 else values


def whole(values: Operand) -> Variable:
    """Return an int64 constant, such as sizes; a Variable unchanged."""
    return constant(values, np.int64)


# ---- operators


def sizes_differ(a: Any, b: Any) -> bool:
    """Return whether two sizes are known to differ."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def differ(a: Variable, b: Variable) -> bool:
    """Return whether the shapes of two Variables are known to differ."""
    return a.rank != b.rank or any(map(sizes_differ, a.dims, b.dims))


@check(*BROADCASTING)
def _check_broadcast(node: Any) -> None:
    if broadcast_dims(*(x.dims for x in node.inputs)) is None:
        shapes = " and ".join(format_dims(x.dims) for x in node.inputs)
        raise ShapeError(f"sizes {shapes} do not broadcast")
    if node.op_type != "Pow":
        _check_dtypes(node.inputs[1:] if node.op_type == "Where" else node.inputs)


def _check_dtypes(values: Any) -> None:
    """Check that operands have one dtype, and say which one they should have."""
    types = [x.dtype for x in values]
    if len(set(types)) == 1:
        return
    wanted: Any = reduce(lambda p, q: p and common_dtype(p, q), types)
    others = " and ".join(dict.fromkeys(str(t) for t in types if t != wanted))
    hint = f"cast() the {others} to {wanted}" if wanted else "cast() one of them"
    raise DTypeError(f"element types differ, {' and '.join(map(str, types))}\n  hint: {hint}")


@check("MatMul")
def _check_matmul(node: Any) -> None:
    a, b = node.inputs
    if a.rank == 0 or b.rank == 0:
        raise ShapeError("an operand is a scalar")
    _check_dtypes(node.inputs)
    if broadcast_dims(a.dims[:-2], b.dims[:-2]) is None:
        leading = f"{format_dims(a.dims[:-2])} and {format_dims(b.dims[:-2])}"
        raise ShapeError(f"leading sizes {leading} do not broadcast")
    if sizes_differ(a.dims[-1], b.dims[-2 if b.rank > 1 else 0]):
        raise ShapeError(
            f"inner sizes differ, {a.dims[-1]} against {b.dims[-2 if b.rank > 1 else 0]}"
        )


@check("Conv")
def _check_conv(node: Any) -> None:
    x, w = node.inputs[:2]
    group = node.attributes.get("group", 1)
    if x.rank < 3 or x.rank != w.rank:
        raise ShapeError(f"an image of rank {x.rank} and filters of rank {w.rank}")
    _check_filters(w, group)
    if isinstance(w.dims[1], int) and sizes_differ(x.dims[1], w.dims[1] * group):
        raise ShapeError(
            f"the image has {x.dims[1]} channels, the filters take {w.dims[1] * group}"
        )
    if isinstance(w.dims[0], int) and w.dims[0] % group:
        raise ShapeError(f"{w.dims[0]} filters do not split into {group} groups")
    _check_bias(node, w.dims[0])
    window = [
        (k - 1) * d + 1 if isinstance(k, int) else 1
        for k, d in zip(w.dims[2:], node.attributes.get("dilations", [1] * x.rank), strict=False)
    ]
    _check_window(x, window, node.attributes.get("pads"))


def _check_filters(w: Variable, group: int) -> None:
    """Refuse filters without elements, with which kernels of ONNX Runtime 1.31 never end."""
    if 0 in w.dims or not group:
        raise ShapeError(f"filters {format_dims(w.dims)} have no elements")


@check("ConvTranspose")
def _check_conv_transpose(node: Any) -> None:
    (x, w), a = node.inputs[:2], node.attributes
    if x.rank < 3 or x.rank != w.rank:
        raise ShapeError(f"an image of rank {x.rank} and filters of rank {w.rank}")
    _check_filters(w, a.get("group", 1))
    if sizes_differ(x.dims[1], w.dims[0]):
        raise ShapeError(f"the image has {x.dims[1]} channels, the filters take {w.dims[0]}")
    for extra, stride in zip(a.get("output_padding", ()), a.get("strides", ()), strict=False):
        if extra >= stride:
            raise ShapeError(
                f"an output padding of {extra} is not below the stride, {stride}, or the dilation"
            )
    if isinstance(w.dims[1], int):
        _check_bias(node, w.dims[1] * a.get("group", 1))
    _check_transposed(x.dims[2:], w.dims[2:], a)


def _check_transposed(image: Any, window: Any, a: Any) -> None:
    """Padding crops a transposed convolution: at least one element must remain."""
    n = len(image)
    pads = a.get("pads") or [0] * (2 * n)
    strides, extra = a.get("strides") or [1] * n, a.get("output_padding") or [0] * n
    dilations = a.get("dilations") or [1] * n
    for k, (size, width) in enumerate(zip(image, window, strict=True)):
        if isinstance(size, int) and isinstance(width, int):
            full = (size - 1) * strides[k] + (width - 1) * dilations[k] + 1 + extra[k]
            if full <= pads[k] + pads[k + n]:
                cut = pads[k] + pads[k + n]
                raise ShapeError(f"the result is {full} wide on axis {k + 2}, {cut} are cut")


def _check_bias(node: Any, filters: Any) -> None:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and (bias.rank != 1 or sizes_differ(bias.dims[0], filters)):
        raise ShapeError(f"a bias of {format_dims(bias.dims)} for {filters} filters")


@check("MaxPool", "AveragePool")
def _check_pool(node: Any) -> None:
    x, window = node.inputs[0], node.attributes["kernel_shape"]
    if x.rank != len(window) + 2:
        raise ShapeError(f"a window of {len(window)} axes on an input of rank {x.rank}")
    if 0 in x.dims[1:]:
        raise ShapeError(f"images {format_dims(x.dims)} have no elements")
    for k, width in enumerate(node.attributes.get("pads", ())):
        axis = k % len(window)
        if width >= window[axis]:
            raise ShapeError(
                f"a padding of {width} on axis {2 + axis} is not below the window, {window[axis]}"
            )
    _check_window(x, window, node.attributes.get("pads"))


def _check_window(x: Variable, window: Any, pads: Any) -> None:
    n = len(window)
    pads = pads or [0] * (2 * n)
    for axis, size in enumerate(window):
        length = x.dims[2 + axis]
        if isinstance(length, int) and length + pads[axis] + pads[axis + n] < size:
            raise ShapeError(
                f"the window is {size} wide on axis {2 + axis}, the padded input "
                f"{length + pads[axis] + pads[axis + n]}"
            )


@check("Concat")
def _check_concat(node: Any) -> None:
    first, axis = node.inputs[0], node.attributes["axis"]
    for other in node.inputs[1:]:
        if other.rank != first.rank:
            raise ShapeError(f"ranks differ, {first.rank} against {other.rank}")
        for k, (a, b) in enumerate(zip(first.dims, other.dims, strict=True)):
            if k != axis % first.rank and sizes_differ(a, b):
                raise ShapeError(f"sizes of axis {k} differ, {a} against {b}")


@check("Reshape")
def _check_reshape(node: Any) -> None:
    x, target = node.inputs
    if target.value is not None and (target.value < -1).any():
        raise ShapeError(f"a size is not negative, {target.value.tolist()}")
    if target.value is None:
        return
    if not x.is_static:
        part = int(np.prod([d for d in x.dims if isinstance(d, int)]))
        count = int(target.value.prod())
        if (target.value > 0).all() and (count % part if part else count):
            raise ShapeError(f"no multiple of {part} elements fills {target.value.tolist()}")
        return
    # a 0 copies the size of the input, unless `allowzero`
    copied = range(0 if node.attributes.get("allowzero") else x.rank)
    sizes = [x.dims[k] if d == 0 and k in copied else int(d) for k, d in enumerate(target.value)]
    count, known = int(np.prod(x.dims)), int(np.prod([d for d in sizes if d != -1]))
    if (count % known if known else count) if -1 in sizes else count != known:
        raise ShapeError(f"{count} elements do not fill {sizes}")


@check("Expand")
def _check_expand(node: Any) -> None:
    x, target = node.inputs
    _check_sizes(target)
    if target.value is not None and broadcast_dims(x.dims, tuple(target.value.tolist())) is None:
        raise ShapeError(f"sizes {format_dims(x.dims)} do not broadcast to {target.value.tolist()}")


def _check_sizes(sizes: Any) -> None:
    """Check that sizes are not negative, as far as they are known."""
    if sizes.value is not None and (sizes.value < 0).any():
        raise ShapeError(f"a size is not negative, {sizes.value.tolist()}")


@check("Split")
def _check_split(node: Any) -> None:
    for sizes in node.inputs[1:]:
        _check_sizes(sizes)


@check("TopK")
def _check_top_k(node: Any) -> None:
    _check_sizes(node.inputs[1])


@check("DepthToSpace", "SpaceToDepth")
def _check_blocks(node: Any) -> None:
    (x,), side = node.inputs, node.attributes["blocksize"]
    if side < 1:
        raise ShapeError(f"a block has pixels, not a side of {side}")
    if x.rank != 4:
        raise ShapeError(f"takes images [N, C, H, W], not {describe(x)}")
    to_depth = node.op_type == "SpaceToDepth"
    least = side if to_depth else side * side
    for axis in (2, 3) if to_depth else (1,):
        if isinstance(x.dims[axis], int) and x.dims[axis] % least:
            raise ShapeError(f"axis {axis} of {x!r} is no multiple of {least}")


@check("LSTM", "GRU", "RNN")
def _check_recurrent(node: Any) -> None:
    hidden, units = node.attributes.get("hidden_size"), node.inputs[2].dims[-1]
    if hidden is not None and isinstance(units, int) and hidden != units:
        raise ShapeError(f"hidden_size is {hidden}, the recurrent weights are of {units} units")


@check("Transpose")
def _check_transpose(node: Any) -> None:
    (x,), order = node.inputs, node.attributes.get("perm")
    if order is not None and sorted(order) != list(range(x.rank)):
        raise ShapeError(f"{order} is no permutation of {x.rank} axes")


@check("Clip")
def _check_clip(node: Any) -> None:
    for bound in node.inputs[1:]:
        if bound is not None and bound.rank:
            raise ShapeError(f"a bound is a scalar, not {describe(bound)}")


@check("Gather")
def _check_index(node: Any) -> None:
    index = node.inputs[1]
    if index.dtype.kind != "i":
        raise DTypeError(f"an index is an integer, not {index.dtype}")


@check("GatherElements", "ScatterElements")
def _check_elements(node: Any) -> None:
    _check_index(node)
    x, index, *values = node.inputs
    if x.dtype == np.bool_ and node.attributes.get("reduction", "none") in ("max", "min"):
        raise DTypeError(f"no {node.attributes['reduction']} of {describe(x)}")
    axis = node.attributes.get("axis", 0) % x.rank
    if index.rank != x.rank:
        raise ShapeError(f"an index of rank {index.rank} for rank {x.rank}")
    for k, (size, entries) in enumerate(zip(x.dims, index.dims, strict=True)):
        if k != axis and sizes_differ(size, entries) and entries > size:
            raise ShapeError(f"the index has {entries} entries on axis {k}, the input {size}")
    for v in values:
        if v.rank != index.rank or any(map(sizes_differ, v.dims, index.dims)):
            raise ShapeError(
                f"values of {format_dims(v.dims)} for an index of {format_dims(index.dims)}"
            )
