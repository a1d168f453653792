"""Rows of gather, scatter and one_hot."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed, normal, whole


def _added(x, index, values, axis=0):
    """One addition after the other, so that duplicates are seen."""
    out = x.copy()
    for place in np.ndindex(*index.shape):
        target = list(place)
        target[axis] = index[place]
        out[tuple(target)] += values[place]
    return out


def _scattered(x, index, values, axis, reduction):
    """One element after the other."""
    join = {"none": lambda a, b: b, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    out = x.copy()
    for place in np.ndindex(*index.shape):
        target = list(place)
        target[axis] = index[place]
        out[tuple(target)] = join[reduction](out[tuple(target)], values[place])
    return out


def _one_hot(index, size):
    return np.array([[float(k == i) for k in range(size)] for i in index.ravel()]).reshape(
        *index.shape, size
    )


def _gather(label, shape, index, axis, dtype="int64"):
    return case(
        "Gather",
        ops.gather,
        lambda x, index, axis: np.take(x, index, axis),
        [normal(*shape), fixed(index, dtype)],
        axis=axis,
        label=label,
        batch=(1,) if np.ndim(index) else (),
    )


def _updated(x, value):
    out = x.copy()
    out[:, [2, 0]] = value
    return out


CASES = [
    case(
        "index_update",
        lambda x, value: ops.index_update(x, np.s_[:, [2, 0]], value),
        _updated,
        [normal(2, 3), normal(2, 2)],
        batch=(0, 1),
    ),
    case(
        "index_add",
        lambda x, value: ops.index_add(x, np.s_[:, [2, 2]], value),
        lambda x, value: x + value.sum(1, keepdims=True) * np.eye(3)[2],
        [normal(2, 3), normal(2, 2)],
        batch=(0, 1),
    ),
    case(
        "ScatterND",
        lambda x, value: ops.scatter_nd(x, [[1, 2], [0, 0]], value),
        lambda x, value: np.array([[value[1], *x[0, 1:]], [*x[1, :2], value[0]]]),
        [normal(2, 3), normal(2)],
        batch=(),
    ),
    _gather("duplicates", (5, 3), [4, 0, 0, 2], 0),
    _gather("negative", (5, 3), [-1, 0, -5], 0),
    _gather("scalar", (5, 3), 2, 0),
    _gather("rank 2", (5, 3), [[4, 0, 1], [0, 2, 0]], 0),
    _gather("vector", (5,), [[1, 1], [0, 4]], 0),
    _gather("column", (3, 5), [4, 0, 0, 2], 1),
    _gather("last", (2, 3, 5), [[4, 0], [0, 2], [1, 1]], -1),
    _gather("middle, scalar", (2, 5, 3), 2, 1),
    _gather("int32", (5, 3), [4, 0, 0], 0, "int32"),
    case(
        "Gather",
        ops.gather,
        lambda x, index, axis: np.take(x, index, axis),
        [normal(4, 5), fixed([[4, 0], [0, 2]])],
        axis=1,
        label="from a batch",
    ),
    case(
        "GatherElements",
        ops.gather_elements,
        lambda x, index, axis: np.take_along_axis(x, index, axis),
        [normal(3, 4), whole(0, 4, 3, 2)],
        axis=1,
        batch=(0, 1),
    ),
    case(
        "GatherElements",
        ops.gather_elements,
        lambda x, index: np.take_along_axis(x, index, 0),
        [normal(4, 3), fixed([[1, 1, 3], [1, 0, 3], [-1, 0, 0]])],
        label="duplicates",
        batch=(1,),
    ),
    case(
        "GatherElements",
        ops.gather_elements,
        lambda x, index, axis: np.take_along_axis(x, index, axis),
        [normal(2, 3, 4), whole(0, 4, 2, 3, 5)],
        axis=-1,
        batch=(0, 1),
    ),
    case(
        "ScatterElements",
        ops.scatter_add,
        _added,
        [normal(4, 3), fixed([[1, 1, 3], [1, 0, 3]]), normal(2, 3)],
        label="duplicates",
        batch=(1, 2),
    ),
    case(
        "ScatterElements",
        ops.scatter_add,
        _added,
        [normal(2, 4), fixed([[0, 0, 0], [3, 3, 1]]), normal(2, 3)],
        axis=1,
        batch=(0, 1, 2),
    ),
    case(
        "ScatterElements",
        ops.scatter_add,
        _added,
        [normal(2, 4), fixed([[0, 0, 0], [3, -1, 1]]), normal(2, 3)],
        axis=-1,
    ),
    *(
        case(
            "ScatterElements",
            ops.scatter,
            _scattered,
            [distinct(4, 3), fixed(rows), normal(2, 3)],
            axis=0,
            reduction=reduction,
            batch=(1, 2),
        )
        for reduction, rows in {
            "none": [[1, 2, 3], [0, -1, 0]],
            "mul": [[1, 1, 3], [1, 0, 3]],
            "max": [[1, 1, 3], [1, 0, 3]],
            "min": [[1, 1, -1], [1, 0, 3]],
        }.items()
    ),
    case(
        "GatherND",
        ops.gather_nd,
        lambda x, index: x[tuple(index.T)],
        [normal(3, 4, 2), fixed([[0, 1], [2, 3], [0, 1]])],
        label="duplicates",
        batch=(1,),
    ),
    case(
        "GatherND",
        ops.gather_nd,
        lambda x, index, batch_dims: np.stack([a[tuple(i)] for a, i in zip(x, index, strict=True)]),
        [normal(3, 4, 2), fixed([[0], [2], [-1]])],
        batch_dims=1,
        batch=(),
    ),
    case(
        "NonZero",
        ops.nonzero,
        lambda x: np.array(np.nonzero(x)),
        [fixed([[0, 2, 0], [1, 0, 3]])],
        smooth=False,
    ),
    case("one_hot", ops.one_hot, _one_hot, [fixed([2, 0, 1, 1])], size=3, smooth=False),
    case(
        "one_hot", ops.one_hot, _one_hot, [fixed([[2, 0], [1, 1]])], size=3, smooth=False, label="2"
    ),
    case(
        "one_hot",
        ops.one_hot,
        _one_hot,
        [fixed([2, 0], "int32")],
        size=3,
        smooth=False,
        label="int32",
    ),
    case(
        "one_hot",
        lambda index: ops.one_hot(index, 3, "int64"),
        lambda index: np.eye(3, dtype=int)[index],
        [fixed([2, 0])],
        smooth=False,
        label="of int64",
    ),
]
