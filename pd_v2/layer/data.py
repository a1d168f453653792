"""Data layers: where a network's input comes in.

The rows of all samples are back to back; what says how many belong to each is fed beside them, as
`<name>.lengths`, and for nested sequences `<name>.sub_lengths`.
"""

import numpy as np

import pd_core as pd

from .. import build
from ..config_base import Layer
from ..data_type import DataType, InputType
from ..formats.proto import LayerConfig


def data(name, type, depth=None, height=None, width=None, layer_attr=None):
    """A column of the training data: float rows [rows, dim], or ids [rows] of integer data.

    Sparse rows are the columns that are not zero, in one vector.

    A sample is a row, or a sequence of rows, or a sequence of those, as the type says.

    `height` and `width` (and `depth`) say that a row is an image of dim / (height width) channels.
    """
    if not isinstance(name, str):
        raise TypeError(f"data layer: the name is a string, not {name!r}")
    if not isinstance(type, InputType):
        raise TypeError(f"data layer {name!r}: type is one of paddle.data_type, not {type!r}")
    known = build.current()
    if not known.groups:
        return _declared(known, name, type, depth, height, width)
    with known.outside(None):  # a step that declares one means a layer outside of it
        return _declared(known, name, type, depth, height, width)


def _declared(known, name, type, *frame):
    """A new data layer, or within a naming the one that has been declared like this before."""
    earlier = known.naming.data.get(name)
    if earlier is not None and known.naming.in_use:
        known.begin_naming()
    elif earlier is not None and earlier.declared == (type, *frame):
        return earlier
    out = known.naming.data[name] = _new(name, type, *frame)
    out.declared = (type, *frame)
    known.add(out)
    return out


def _new(name, type, depth, height, width):
    config = LayerConfig(name=name, type="data", size=type.dim, active_type="")
    channels = None
    if height and width:
        channels = _channels(name, type.dim, height * width * (depth or 1))
        config.height, config.width = height, width
        if depth:
            config.depth = depth
    ids, dense = type.type == DataType.Index, type.type == DataType.Dense
    levels = _levels(name, type.seq_type)
    rows = levels[-1].tokens if levels else "batch"
    out = Layer.of(
        (rows, type.dim) if dense else (rows if ids else f"{name}.columns",),
        np.float32 if dense else np.int64,
        name,
        layer_type="data",
        parents=[],
        size=type.dim,
        num_filters=channels,
        data_type=type,
        config=config,
        levels=levels,
    )
    if not dense and not ids:
        out.sparse = _sparse(out, rows, type)
    return out


def _sparse(columns, rows, type):
    """The SparseRows of columns that are fed, with their counts and values."""
    counts = pd.Variable.of((rows,), np.int64, f"{columns.name}.counts")
    values = None
    if type.type == DataType.SparseValue:
        values = pd.Variable.of(columns.dims, np.float32, f"{columns.name}.values")
    return pd.SparseRows(columns, counts, type.dim, values)


def _levels(name, depth):
    """The Segments of each level, with lengths that are fed."""
    names = (f"{name}.lengths", f"{name}.sub_lengths")
    sizes = ["batch", f"{name}.subs", f"{name}.rows"] if depth > 1 else ["batch", f"{name}.rows"]
    return tuple(
        pd.Segments(pd.Variable.of((sizes[k],), np.int64, names[k]), sizes[k + 1])
        for k in range(depth)
    )


def _channels(name, size, pixels):
    if size % pixels:
        raise pd.ShapeError(f"data layer {name!r}: {size} numbers are no image of {pixels} pixels")
    return size // pixels
