"""Random nodes that move, choose, cut and write elements."""

import numpy as np
from onnx import numpy_helper

from .draw import FLOATS, Draw
from .elementwise import recipe

_ANY = (*FLOATS, "int64", "bool", "uint8")


@recipe(7, "Reshape")
def reshape(d: Draw, op_type: str):
    x = d.any(_ANY)
    dims, count = d.shape(x), int(np.prod(d.shape(x)))
    target = list(dims)
    kind = d.number(0, 3)
    if kind == 0:
        target = [-1]
    elif kind == 1 and len(dims) > 1:
        target = [int(np.prod(dims[:2])), *dims[2:]]
    elif kind == 2:
        target = [*dims, 1]
    target = [
        0 if k < len(dims) and n == dims[k] and d.chance(0.3) else n for k, n in enumerate(target)
    ]
    if -1 not in target and count and d.chance(0.4) and target:
        target[d.number(0, len(target) - 1)] = -1
    a = {"allowzero": d.one((None, 0, 1))} if d.opset >= 14 else {}
    return d.node(op_type, [x, d.fixed(np.array(target, np.int64))], **a)


@recipe(7, "Flatten")
def flatten(d: Draw, op_type: str):
    x = d.any(FLOATS, least=1)
    rank = len(d.shape(x))
    axis = d.number(-rank if d.opset > 10 else 0, rank)
    return d.node(op_type, [x], axis=d.one((None, axis)))


@recipe(7, "Squeeze", "Unsqueeze")
def squeeze(d: Draw, op_type: str):
    x = d.any(_ANY)
    rank, negative = len(d.shape(x)), d.opset > 10 and d.chance(0.4)
    if op_type == "Squeeze":
        found = [k for k, n in enumerate(d.shape(x)) if n == 1]
        axes = found[: d.number(0, len(found))]
        if not axes:
            axes = None
    else:
        more = d.number(1, 2)
        axes = sorted(int(k) for k in d.rng.permutation(rank + more)[:more])
        rank += more
    if axes and negative:
        axes = [k - rank for k in axes]
    if d.opset < 13:
        return d.node(op_type, [x], axes=axes)
    return d.node(op_type, [x] if axes is None else [x, d.fixed(axes)])


@recipe(7, "Transpose")
def transpose(d: Draw, op_type: str):
    x = d.any(_ANY)
    order = [int(k) for k in d.rng.permutation(len(d.shape(x)))]
    return d.node(op_type, [x], perm=d.one((None, order or None)))


@recipe(8, "Expand")
def expand(d: Draw, op_type: str):
    x = d.any(_ANY)
    target = [d.number(1, 3) if n == 1 else d.one((n, n, 1)) for n in d.shape(x)]
    target = target[d.number(0, len(target)) if d.chance(0.2) else 0 :]
    target = (
        [*([2] if d.chance(0.3) else []), *target] if len(target) == len(d.shape(x)) else target
    )
    return d.node(op_type, [x, d.fixed(np.array(target, np.int64))])


@recipe(7, "Tile")
def tile(d: Draw, op_type: str):
    x = d.any(FLOATS, least=1)
    return d.node(op_type, [x, d.fixed([d.number(1, 3) for _ in d.shape(x)])])


@recipe(7, "Concat")
def concat(d: Draw, op_type: str):
    x = d.any(_ANY, least=1)
    rank = len(d.shape(x))
    axis = d.axis(rank) if d.opset > 10 else d.number(0, rank - 1)
    parts = [x]
    for _ in range(d.number(0, 2)):
        dims = list(d.shape(x))
        dims[axis] = d.number(0, 3)
        parts.append(d.any((d.dtype(x),), shape=dims))
    return d.node(op_type, parts, axis=axis)


@recipe(7, "Split")
def split(d: Draw, op_type: str):
    x = d.any(FLOATS, least=1)
    rank = len(d.shape(x))
    axis = d.axis(rank) if d.opset > 10 else d.number(0, rank - 1)
    size, count = d.shape(x)[axis], d.number(1, 3)
    cuts = sorted(d.number(0, size) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, size])
    a = {"axis": d.one((None, axis)) if axis in (0, -rank) else axis}
    if d.chance(0.5) and (size % count == 0 or d.opset >= 18):
        more = {"num_outputs": count} if d.opset >= 18 else {}
        return d.node(op_type, [x], count, **a, **more)
    if d.opset < 13:
        return d.node(op_type, [x], count, split=sizes.tolist(), **a)
    return d.node(op_type, [x, d.fixed(sizes)], count, **a)


@recipe(7, "Slice")
def cut(d: Draw, op_type: str):
    x = d.any(_ANY, least=1)
    rank = len(d.shape(x))
    axes = [int(k) for k in d.rng.permutation(rank)[: d.number(1, rank)]]
    bounds = [[d.one((0, 1, -1, -2, -9, 9, 2)) for _ in axes] for _ in range(2)]
    bounds[1] = [d.one((2**31 - 1, -1, 3, 2, 9, 1, -(2**31))) for _ in axes]
    if d.opset < 10:
        return d.node(op_type, [x], starts=bounds[0], ends=bounds[1], axes=axes)
    if d.chance(0.3):
        axes = [k - rank for k in axes]
    kind = d.one(("int64", "int32"))
    more = [d.fixed(b, kind) for b in bounds]
    if d.chance(0.9) or len(axes) < rank:
        more.append(d.fixed(axes, kind))
        if d.chance(0.6):
            more.append(d.fixed([d.one((1, 2, -1, -2, 3)) for _ in axes], kind))
    else:
        order = np.argsort(axes)
        more = [d.fixed([b[k] for k in order], kind) for b in bounds]
    return d.node(op_type, [x, *more])


@recipe(7, "Pad")
def pad(d: Draw, op_type: str):
    x = d.any(FLOATS if d.opset < 13 else (*FLOATS, "int64"), least=1)
    dims = d.shape(x)
    modes = ("constant", "constant", "reflect", "edge", *(["wrap"] if d.opset >= 19 else []))
    mode = d.one(modes)
    least = [-1 if n > 2 and d.chance(0.2) else 0 for n in dims]
    pads = [d.number(low, min(2, n - 1) if mode != "constant" else 2) if n else 0
            for _ in range(2) for n, low in zip(dims, least, strict=True)]  # fmt: skip
    a = {"mode": mode if mode != "constant" else d.one((None, mode))}
    value = round(float(d.rng.uniform(-1, 1)), 2)
    if d.opset < 11:
        return d.node(op_type, [x], pads=pads, value=d.one((None, value)), **a)
    if d.opset >= 18 and d.chance(0.4):
        axes = [int(k) for k in d.rng.permutation(len(dims))[: d.number(1, len(dims))]]
        pads = [pads[k] for k in axes] + [pads[len(dims) + k] for k in axes]
        axes = [k - len(dims) if d.chance(0.4) else k for k in axes]
        kind = np.dtype(d.dtype(x))
        more = [d.fixed(value, kind.name) if mode == "constant" and d.chance(0.6) else ""]
        return d.node(op_type, [x, d.fixed(pads), *more, d.fixed(axes)], **a)
    more = [d.fixed(value, d.dtype(x))] if d.chance(0.5) else [""] if d.chance(0.2) else []
    return d.node(op_type, [x, d.fixed(pads), *more], **a)


def _index(d, size, shape, negative=True):
    array = d.rng.integers(-size if negative and size else 0, max(size, 1), shape)
    return array.astype(d.one(("int64", "int64", "int32")))


@recipe(7, "Gather")
def gather(d: Draw, op_type: str):
    x = d.any(_ANY, least=1)
    rank = len(d.shape(x))
    axis = d.axis(rank) if d.opset > 10 else d.number(0, rank - 1)
    size = d.shape(x)[axis]
    shape = d.dims(d.number(0, 2)) if size else (0,)
    return d.node(op_type, [x, d.fixed_index(_index(d, size, shape, d.opset > 10))], axis=axis)


@recipe(11, "GatherElements")
def gather_elements(d: Draw, op_type: str):
    x = d.any(_ANY, least=1)
    dims = d.shape(x)
    axis = d.axis(len(dims))
    shape = [d.number(0, n) if d.chance(0.3) else n for n in dims]
    shape[axis] = d.number(1, 3) if dims[axis] else 0
    return d.node(
        op_type,
        [x, d.fixed_index(_index(d, dims[axis], shape))],
        axis=d.one((None, axis)) if axis == 0 else axis,
    )


@recipe(11, "GatherND")
def gather_nd(d: Draw, op_type: str):
    x = d.any(_ANY, least=1)
    dims = d.shape(x)
    batch = d.number(0, len(dims) - 1) if d.opset >= 12 else 0
    depth = d.number(1, len(dims) - batch)
    middle = d.dims(d.number(0, 1))
    index = np.stack(
        [
            d.rng.integers(-n, max(n, 1), (*dims[:batch], *middle))
            for n in dims[batch : batch + depth]
        ],
        -1,
    )
    return d.node(
        op_type, [x, d.fixed_index(index)], **({"batch_dims": batch} if d.opset >= 12 else {})
    )


@recipe(9, "Scatter")
@recipe(11, "ScatterElements")
def scatter(d: Draw, op_type: str):
    if op_type == "Scatter" and d.opset > 10:
        op_type = "ScatterElements"
    x = d.any(("float32", "float64", "int64"), least=1)
    dims = d.shape(x)
    axis = d.axis(len(dims)) if d.opset > 10 else d.number(0, len(dims) - 1)
    kinds = (None, "none") + (("add", "mul") if d.opset >= 16 else ())
    kind = d.one(kinds + (("max", "min") if d.opset >= 18 else ()))
    a = {"reduction": kind} if d.opset >= 16 else {}
    shape = [d.number(1, n) if n and d.chance(0.5) else n for n in dims]
    index = _index(d, dims[axis], shape, d.opset > 10)
    if kind in (None, "none"):  # with the same index twice the order is not defined
        order = np.arange(dims[axis]).reshape(
            [-1 if k == axis % len(dims) else 1 for k in range(len(dims))]
        )
        index = np.broadcast_to(d.rng.permutation(order.ravel()).reshape(order.shape), dims)
        index = index[tuple(slice(0, n) for n in shape)].astype(np.int64)
    updates = d.any((d.dtype(x),), shape=index.shape)
    return d.node(op_type, [x, d.fixed_index(index), updates], axis=axis, **a)


@recipe(11, "ScatterND")
def scatter_nd(d: Draw, op_type: str):
    x = d.any(("float32", "float64", "int64"), least=1)
    dims = d.shape(x)
    depth = d.number(1, len(dims))
    count = int(np.prod(dims[:depth]))
    flat = d.rng.permutation(count)[: d.number(0, count)]
    index = (
        np.stack(np.unravel_index(flat, dims[:depth]), -1).astype(np.int64)
        if count
        else np.zeros((0, depth), np.int64)
    )
    kinds = (None, "none") + (("add", "mul") if d.opset >= 16 else ())
    kind = d.one(kinds + (("max", "min") if d.opset >= 18 else ()))
    updates = d.any((d.dtype(x),), shape=(len(index), *dims[depth:]))
    return d.node(
        op_type,
        [x, d.fixed_index(index), updates],
        **({"reduction": kind} if d.opset >= 16 else {}),
    )


@recipe(24, "TensorScatter")
def tensor_scatter(d: Draw, op_type: str):
    b, s, n = d.number(1, 3), d.number(3, 5), d.number(1, 3)
    past, t = d.any(("float32",), shape=(b, 2, s, n)), d.number(1, 3)
    mode = d.one((None, "linear", "circular"))
    starts = [d.number(0, s - (0 if mode == "circular" else t)) for _ in range(b)]
    more = [d.fixed(np.minimum(starts, s - 1))] if d.chance(0.7) else []
    return d.node(op_type, [past, d.new(b, 2, t, n), *more], mode=mode, axis=d.one((None, -2, 2)))


@recipe(9, "OneHot")
def one_hot(d: Draw, op_type: str):
    x = d.fixed_index(d.rng.integers(-3, 4, d.dims(d.number(0, 2))))
    values = d.give(d.array((2,), d.one(("float32", "int64"))))
    depth = d.fixed(d.one((4, [4])), d.one(("int64", "int32", "float32")))
    axis = d.one((None, d.axis(len(d.shape(x)) + 1)))
    return d.node(op_type, [x, depth, values], axis=axis)


@recipe(9, "EyeLike")
def eye(d: Draw, op_type: str):
    return d.node(op_type, [d.any(("float32", "int64", "float64"), rank=2)],
                  k=d.one((None, -1, 1, 2)), dtype=d.one((None, 1, 7, 11)))  # fmt: skip


@recipe(14, "Trilu")
def trilu(d: Draw, op_type: str):
    x = d.any(("float32", "float64", "int64", "bool"), least=2)
    more = [d.fixed(d.number(-2, 2))] if d.chance(0.6) else []
    return d.node(op_type, [x, *more], upper=d.one((None, 0, 1)))


@recipe(10, "ReverseSequence")
def reverse_sequence(d: Draw, op_type: str):
    x = d.any(("float32", "float64", "int64"), least=2)
    batch = d.number(0, 1)
    lengths = [d.number(1, max(d.shape(x)[1 - batch], 1)) for _ in range(d.shape(x)[batch])]
    return d.node(
        op_type, [x, d.fixed(np.array(lengths, np.int64))], batch_axis=batch, time_axis=1 - batch
    )


@recipe(7, "DepthToSpace", "SpaceToDepth")
def blocks(d: Draw, op_type: str):
    n, c, h, w = d.number(1, 2), d.number(1, 2), d.number(1, 3), d.number(1, 3)
    if op_type == "SpaceToDepth":
        return d.node(op_type, [d.any(("float32",), shape=(n, c, 2 * h, 2 * w))], blocksize=2)
    a = {"mode": d.one((None, "DCR", "CRD"))} if d.opset >= 11 else {}
    return d.node(op_type, [d.any(("float32",), shape=(n, 4 * c, h, w))], blocksize=2, **a)


@recipe(9, "Compress")
def compress(d: Draw, op_type: str):
    x = d.any(("float32", "int64"), least=1)
    axis = d.one((None, d.axis(len(d.shape(x))) if d.opset > 10 else 0))
    size = int(np.prod(d.shape(x))) if axis is None else d.shape(x)[axis]
    return d.node(op_type, [x, d.give(d.array((d.number(0, size),), "bool"))], axis=axis)


@recipe(9, "NonZero")
def non_zero(d: Draw, op_type: str):
    return d.node(op_type, [d.any(("float32", "int64", "bool"), least=1)])


@recipe(11, "Unique")
def unique(d: Draw, op_type: str):
    x = d.any(("float32", "int64"), least=1)
    axis = d.one((None, d.axis(len(d.shape(x)))))
    return d.node(op_type, [x], d.number(1, 4), axis=axis, sorted=d.one((None, 1)))


@recipe(7, "TopK")
def top_k(d: Draw, op_type: str):
    x = d.any(("float32", "float64", *(("int64", "int32") if d.opset >= 11 else ())), least=1)
    rank = len(d.shape(x))
    axis = d.axis(rank) if d.opset > 10 else d.number(0, rank - 1)
    k = d.number(0 if d.opset > 9 else 1, max(d.shape(x)[axis], 1))
    if d.opset < 10:
        return d.node(op_type, [x], 2, k=k, axis=axis)
    a = {"largest": d.one((None, 0, 1)), "sorted": d.one((None, 1))} if d.opset >= 11 else {}
    return d.node(op_type, [x, d.fixed([k])], 2, axis=axis, **a)


@recipe(7, "Shape", "Size")
def shape(d: Draw, op_type: str):
    a = {}
    if op_type == "Shape" and d.opset >= 15:
        a = {k: d.one((None, d.number(-3, 3))) for k in ("start", "end")}
    return d.node(op_type, [d.any(_ANY)], **a)


@recipe(9, "ConstantOfShape")
def constant_of_shape(d: Draw, op_type: str):
    value = d.one((None, np.array([2.5], np.float32), np.array([3], np.int64), np.array([True])))
    a = {} if value is None else {"value": numpy_helper.from_array(value)}
    return d.node(op_type, [d.fixed(np.array(d.dims(d.number(0, 3)), np.int64))], **a)


@recipe(11, "Range")
def numbers(d: Draw, op_type: str):
    kind = d.one(("int64", "float32", "int32", "float64"))
    first, last, step = d.number(-2, 2), d.number(-3, 6), d.one((1, 2, -1))
    return d.node(op_type, [d.fixed(first, kind), d.fixed(last, kind), d.fixed(step, kind)])


@recipe(18, "CenterCropPad")
def center_crop_pad(d: Draw, op_type: str):
    x = d.any(("float32",), least=1)
    rank = len(d.shape(x))
    axes = [int(k) for k in d.rng.permutation(rank)[: d.number(1, rank)]]
    sizes = d.fixed([d.number(1, 6) for _ in axes])
    negative = [k - rank if d.chance(0.4) else k for k in axes]
    if len(axes) == rank and d.chance(0.5):
        return d.node(op_type, [x, sizes])
    return d.node(op_type, [x, sizes], axes=negative)


@recipe(11, "SequenceConstruct")
def sequences(d: Draw, op_type: str):
    """A sequence that is built, changed and read, in one chain."""
    kind = d.one(("float32", "int64"))
    (s,) = d.node("SequenceConstruct", [d.any((kind,), rank=2) for _ in range(d.number(1, 3))])
    length = len(d.of(s))
    if d.chance(0.4):
        more = [d.fixed(d.number(-length, length - 1))] if d.chance(0.6) else []
        (s,) = d.node("SequenceInsert", [s, d.any((kind,), rank=2), *more])
    if d.chance(0.3) and len(d.of(s)) > 1:
        more = [d.fixed(d.number(-1, 0))] if d.chance(0.6) else []
        (s,) = d.node("SequenceErase", [s, *more])
    if d.chance(0.3):
        return d.node("SequenceLength", [s])
    if d.chance(0.4):
        x = d.of(s)[0]
        if all(np.shape(y) == np.shape(x) for y in d.of(s)):
            return d.node("ConcatFromSequence", [s], axis=d.axis(2), new_axis=d.one((None, 0, 1)))
    return d.node("SequenceAt", [s, d.fixed(d.number(-1, 0))])


@recipe(11, "SplitToSequence")
def split_to_sequence(d: Draw, op_type: str):
    x = d.any(("float32", "int64"), least=1)
    axis = d.axis(len(d.shape(x)))
    more, a = [], {"keepdims": d.one((None, 0, 1))}
    if d.shape(x)[axis] and d.chance(0.5):
        more = [d.fixed(d.one((1, 2, [1, d.shape(x)[axis] - 1])))]
    (s,) = d.node(op_type, [x, *more], axis=axis, **a)
    return d.node("SequenceAt", [s, d.fixed(d.number(-1, 0))])


@recipe(15, "Optional")
def optional(d: Draw, op_type: str):
    (o,) = d.node("Identity", [d.any(("float32",))])
    return d.node("OptionalHasElement" if d.chance(0.3) and d.opset >= 18 else "Identity", [o])
