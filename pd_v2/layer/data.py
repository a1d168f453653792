"""Data layers: where a network's input comes in."""

import numpy as np

import pd_core as pd

from .. import build
from ..config_base import Layer
from ..data_type import DataType, InputType
from ..proto import LayerConfig


def data(name, type, depth=None, height=None, width=None, layer_attr=None):
    """A column of the training data: float rows [batch, dim], or ids [batch] of integer data.

    `height` and `width` (and `depth`) say that a row is an image of dim / (height width) channels.
    """
    if not isinstance(name, str):
        raise TypeError(f"data layer: the name is a string, not {name!r}")
    if not isinstance(type, InputType):
        raise TypeError(f"data layer {name!r}: type is one of paddle.data_type, not {type!r}")
    if type.seq_type or type.type not in (DataType.Dense, DataType.Index):
        raise pd.GraphError(
            f"data layer {name!r}: {type!r} is not supported; "
            "dense vectors and integers without sequence are"
        )
    if name in build.current().layers:
        raise pd.NameConflict(f"there is a layer {name!r} already")
    config = LayerConfig(name=name, type="data", size=type.dim, active_type="")
    channels = None
    if height and width:
        channels = _channels(name, type.dim, height * width * (depth or 1))
        config.height, config.width = height, width
        if depth:
            config.depth = depth
    ids = type.type == DataType.Index
    out = Layer.of(
        ("batch",) if ids else ("batch", type.dim),
        np.int64 if ids else np.float32,
        name,
        layer_type="data",
        parents=[],
        size=type.dim,
        num_filters=channels,
        data_type=type,
        config=config,
    )
    build.current().layers[name] = out
    return out


def _channels(name, size, pixels):
    if size % pixels:
        raise pd.ShapeError(f"data layer {name!r}: {size} numbers are no image of {pixels} pixels")
    return size // pixels
