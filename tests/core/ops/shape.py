"""Rows of functions that move elements."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed, normal, whole

PADDING = ("edge", "reflect", "wrap")


def _dealt(x, block, mode="DCR"):
    n, c, h, w = x.shape
    if mode == "DCR":
        x = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // block**2, h * block, w * block)


def _gathered(x, block):
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * block**2, h // block, w // block)


RESHAPING = [
    case("DepthToSpace", ops.depth_to_space, _dealt, [normal(2, 8, 1, 3)], block=2),
    case("DepthToSpace", ops.depth_to_space, _dealt, [normal(2, 8, 1, 3)], block=2, mode="CRD"),
    case("SpaceToDepth", ops.space_to_depth, _gathered, [normal(2, 2, 4, 6)], block=2),
    case("Reshape", ops.reshape, np.reshape, [normal(3, 4)], shape=[6, 2], batch=()),
    case("Reshape", ops.reshape, np.reshape, [normal(3, 4)], shape=[-1, 2, 2]),
    case("Reshape", ops.reshape, np.reshape, [normal(3, 4)], shape=[-1]),
    case("Reshape", ops.reshape, np.reshape, [normal(4, 3)], shape=[2, -1], batch=()),
    case("Reshape", ops.reshape, np.reshape, [normal()], shape=[1, 1], batch=()),
    case(
        "Reshape",
        lambda x: ops.reshape(x, [0, -1]),
        lambda x: x.reshape(3, 8),
        [normal(3, 2, 4)],
        label="keeps an axis",
    ),
    case(
        "Reshape",
        lambda x, shape: ops.reshape(x, shape),
        lambda x, shape: x.reshape(shape),
        [normal(3, 4), fixed([2, 6])],
        label="run-time shape",
        batch=(),
    ),
    case(
        "Reshape",
        ops.reshape_like,
        lambda x, ref: x.reshape(ref.shape),
        [normal(12), normal(3, 4)],
        batch=(1,),
    ),
    case("Unsqueeze", lambda x: ops.unsqueeze(x, 0), lambda x: x[None], [normal(3, 4)]),
    case(
        "Unsqueeze",
        lambda x: ops.unsqueeze(x, [1, -1]),
        lambda x: x[:, None, :, None],
        [normal(3, 4)],
        label="[1,-1]",
    ),
    case("Squeeze", lambda x: ops.squeeze(x, 1), lambda x: x[:, 0], [normal(3, 1, 4)]),
    case(
        "Squeeze",
        lambda x: ops.squeeze(x, [1, -1]),
        lambda x: x[:, 0, :, 0],
        [normal(3, 1, 4, 1)],
        label="[1,-1]",
    ),
    case("Flatten", ops.flatten, lambda x: x.reshape(3, 8), [normal(3, 2, 4)]),
    case("Flatten", lambda x: ops.flatten(x, 0), lambda x: x.reshape(1, -1), [normal(3, 4)]),
    case(
        "Flatten",
        lambda x: ops.flatten(x, 2),
        lambda x: x.reshape(6, 4),
        [normal(3, 2, 4)],
        label="2",
    ),
]

STRETCHING = [
    case("Expand", ops.expand, np.broadcast_to, [normal(3, 1)], shape=[2, 3, 4], batch=()),
    case("Expand", ops.expand, np.broadcast_to, [normal(4)], shape=[3, 4], batch=()),
    case("Expand", ops.expand, np.broadcast_to, [normal()], shape=[3, 4], batch=()),
    case(
        "Expand",
        lambda x, shape: ops.expand(x, shape),
        lambda x, shape: np.broadcast_to(x, shape),
        [normal(3, 1), fixed([2, 3, 4])],
        label="run-time shape",
        batch=(),
    ),
    case(
        "Expand",
        ops.expand_like,
        lambda x, ref: np.broadcast_to(x, ref.shape),
        [normal(3, 1), normal(2, 3, 4)],
        batch=(1,),
    ),
    case(
        "Expand",
        ops.expand_like,
        lambda x, ref: np.broadcast_to(x, ref.shape),
        [normal(4), normal(3, 4)],
        batch=(1,),
        label="rows",
    ),
    case("zeros_like", ops.zeros_like, np.zeros_like, [normal(3, 4)]),
    case("ones_like", ops.ones_like, np.ones_like, [normal(3, 4)]),
]

ORDER = [
    case("Transpose", ops.transpose, np.transpose, [normal(3, 4)]),
    case("Transpose", ops.transpose, np.transpose, [normal(2, 3, 4)]),
    case(
        "Transpose",
        lambda x: ops.transpose(x, [2, 0, 1]),
        lambda x: x.transpose(2, 0, 1),
        [normal(2, 3, 4)],
        label="[2,0,1]",
    ),
    case(
        "Transpose",
        ops.matrix_transpose,
        lambda x: x.swapaxes(-1, -2),
        [normal(2, 3, 4)],
        label="last",
    ),
]


def _joined(*arrays, axis):
    return np.concatenate(arrays, axis)


def _concat(*inputs, axis):
    return ops.concat(inputs, axis)


def _pieces(x, sizes, axis=0):
    return np.split(x, np.cumsum(sizes)[:-1], axis)


PARTS = [
    case("Concat", _concat, _joined, [normal(2, 4), normal(3, 4)], axis=0, batch=()),
    case("Concat", _concat, _joined, [normal(2, 4), normal(3, 4)], axis=0, batch=(0, 1), label="N"),
    case("Concat", _concat, _joined, [normal(2, 4), normal(3, 4)], axis=-2, batch=(1,), label="N"),
    case(
        "Concat",
        _concat,
        _joined,
        [normal(2, 1), normal(2, 3), normal(2, 2)],
        axis=1,
        batch=(0, 1, 2),
    ),
    case("Concat", _concat, _joined, [normal(2, 3, 1), normal(2, 3, 2)], axis=-1, batch=(0, 1)),
    case("Concat", _concat, _joined, [normal(2, 3)], axis=0, label="alone"),
    case("Split", ops.split, _pieces, [normal(6, 4)], sizes=[1, 3, 2], batch=()),
    case("Split", ops.split, _pieces, [normal(3, 4)], sizes=[3, 1], axis=1),
    case("Split", ops.split, _pieces, [normal(3, 4)], sizes=[2, 2], axis=-1),
    case("Split", ops.split, _pieces, [normal(3, 4)], sizes=[4], axis=1, label="whole"),
    case(
        "Split",
        lambda x: ops.split(x, [1, 2, 1], 1)[1],
        lambda x: x[:, 1:3],
        [normal(3, 4)],
        label="one piece used",
    ),
]


def _slice(label, reference, *arguments, shape=(5, 6), batch=()):
    return case(
        "Slice",
        lambda x: ops.slice(x, *arguments),
        reference,
        [normal(*shape)],
        label=label,
        batch=batch,
    )


CUTTING = [
    _slice("1:4", lambda x: x[1:4], [1], [4], [0]),
    _slice("1:", lambda x: x[1:], [1], [1000], [0], batch=(0,)),
    _slice("-3:-1", lambda x: x[-3:-1], [-3], [-1], [0]),
    _slice(":,::2", lambda x: x[:, ::2], [0], [6], [1], [2], batch=(0,)),
    _slice(":,1:6:3", lambda x: x[:, 1:6:3], [1], [6], [1], [3]),
    _slice("::-1", lambda x: x[::-1], [-1], [-1000], [0], [-1], batch=(0,)),
    _slice(":,4:0:-2", lambda x: x[:, 4:0:-2], [4], [0], [1], [-2]),
    _slice("last axis", lambda x: x[..., 1:3], [1], [3], [-1], batch=(0,)),
    _slice("both", lambda x: x[1:3, 2:5], [1, 2], [3, 5], [0, 1]),
    _slice("both, exchanged", lambda x: x[1:3, 2:5], [2, 1], [5, 3], [-1, -2]),
    _slice("middle", lambda x: x[:, 1:, ::2], [1, 0], [9, 9], [1, 2], [1, 2], shape=(2, 3, 4)),
    case(
        "Slice",
        lambda x, starts, ends: ops.slice(x, starts, ends, [1]),
        lambda x, starts, ends: x[:, starts[0] : ends[0]],
        [normal(3, 5), fixed([1]), fixed([4])],
        label="run-time places",
    ),
    case(
        "Slice",
        lambda x, starts: ops.slice(x, starts, [4, 5], [0, 1]),
        lambda x, starts: x[starts[0] : 4, starts[1] : 5],
        [normal(5, 6), fixed([1, 2])],
        label="run-time starts of two",
        batch=(),
    ),
    case(
        "Pad",
        lambda x: ops.pad(x, [0, 1], [0, 2]),
        lambda x: np.pad(x, [(0, 0), (1, 2)]),
        [normal(3, 4)],
    ),
    case(
        "Pad",
        lambda x: ops.pad(x, [2, 0], [1, 3], 1.5),
        lambda x: np.pad(x, [(2, 1), (0, 3)], constant_values=1.5),
        [normal(3, 4)],
        label="rows and value",
    ),
    case(
        "Pad",
        lambda x, value: ops.pad(x, [1], [2], value),
        lambda x, value: np.pad(x, [(1, 2)], constant_values=value),
        [normal(4), normal()],
        label="run-time value",
    ),
    case(
        "pad",
        lambda x, widths: [
            *(ops.pad(x, [0, 2], [0, 3], mode=mode) for mode in PADDING),
            *(ops.pad(x, widths, widths, mode=mode) for mode in PADDING),
        ],
        lambda x, widths: [
            *(np.pad(x, [(0, 0), (2, 3)], mode=mode) for mode in PADDING),
            *(np.pad(x, np.stack([widths, widths], 1), mode=mode) for mode in PADDING),
        ],
        [normal(3, 4), fixed([1, 2])],
        label="modes",
    ),
]

SIZES = [
    case("Size", ops.size, lambda x: np.array(x.size), [normal(3, 4)], smooth=False),
    case("Shape", ops.shape_of, lambda x: np.array(x.shape), [normal(3, 4)], smooth=False),
    case(
        "Shape",
        ops.size_of,
        lambda x, axis: np.array([x.shape[axis]]),
        [distinct(3, 4)],
        axis=0,
        smooth=False,
    ),
    case(
        "Shape",
        ops.size_of,
        lambda x, axis: np.array([x.shape[axis]]),
        [distinct(3, 4)],
        axis=-1,
        smooth=False,
    ),
    case("Range", ops.arange, np.arange, [fixed(5)], smooth=False, batch=()),
    case(
        "Range",
        ops.arange,
        lambda n: np.arange(n[0]),
        [fixed([5])],
        smooth=False,
        batch=(),
        label="[1]",
    ),
    case(
        "Range",
        ops.arange,
        np.arange,
        [whole(3, 6, dtype="int32")],
        smooth=False,
        batch=(),
        label="int32",
    ),
]

CASES = RESHAPING + STRETCHING + ORDER + PARTS + CUTTING + SIZES
