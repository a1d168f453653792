"""Data layers: the inputs of a network.

The rows of all samples are packed back to back; the lengths of sequences are fed beside them as
`<name>.lengths`, and for nested sequences also `<name>.sub_lengths`.
"""

import numpy as np

import pd_core as pd
from pd_core.graph.names import checked_text

from .. import build
from ..config_base import Layer
from ..data_type import DataType, InputType
from ..formats.proto import LayerConfig


def data(name, type, depth=None, height=None, width=None, layer_attr=None):
    """Declare a column of the training data: float rows [rows, dim], or ids [rows].

    Sparse rows are one vector of the indices of nonzero columns. By its type a sample is a row, a
    sequence of rows, or a sequence of sequences. With `height` and `width` (and `depth`) a row is
    an image of dim / (height width) channels.
    """
    if not isinstance(name, str):
        raise TypeError(f"data layer: the name is a string, not {name!r}")
    if not isinstance(type, InputType):
        raise TypeError(f"data layer {name!r}: type is one of paddle.data_type, not {type!r}")
    current = build.current()
    if not current.groups:
        return _declared(current, name, type, depth, height, width)
    with current.outside(None):  # a data layer never belongs to a group
        return _declared(current, name, type, depth, height, width)


def _declared(current, name, type, *sizes):
    """Return a new data layer, or the one of the same declaration within a naming."""
    previous = current.naming.data.get(name)
    if previous is not None and current.naming.in_use:
        current.begin_naming()
    elif previous is not None and previous.declared == (type, *sizes):
        return previous
    out = current.naming.data[name] = _new(name, type, *sizes)
    out.declared = (type, *sizes)
    current.add(out)
    return out


def _new(name, type, depth, height, width):
    config = LayerConfig(name=checked_text(name), type="data", size=type.dim, active_type="")
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
    if dense and channels is None:
        out.read_as = set()
    if not dense and not ids:
        out.sparse = _sparse(out, rows, type)
    return out


def _sparse(columns, rows, type):
    """Return the SparseRows of fed columns, with feeds for their counts and values."""
    counts = pd.Variable.of((rows,), np.int64, f"{columns.name}.counts")
    values = None
    if type.type == DataType.SparseValue:
        values = pd.Variable.of(columns.dims, np.float32, f"{columns.name}.values")
    return pd.SparseRows(columns, counts, type.dim, values)


def _levels(name, depth):
    """Return the Segments of each level, with feeds for their lengths."""
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
