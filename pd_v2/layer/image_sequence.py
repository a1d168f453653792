"""Images as sequences of blocks."""

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined

from .base import layer
from .image import image_of, record_axes, whole


@layer("blockexpand", "block_expand_layer")
def block_expand(
    scope,
    input,
    block_x=0,
    block_y=0,
    stride_x=0,
    stride_y=0,
    padding_x=0,
    padding_y=0,
    num_channels=None,
    name=None,
    layer_attr=None,
):
    """Turn each image into the sequence of its blocks (im2col), row by row.

    A step is a block [channels, y, x]; zeros fill a block that reaches beyond the image.
    """
    x, channels = image_of(input, num_channels)
    block = [whole("block_y", block_y), whole("block_x", block_x)]
    strides = [whole("stride_y", stride_y), whole("stride_x", stride_x)]
    pads = [whole("padding_y", padding_y, 0), whole("padding_x", padding_x, 0)]
    conf = scope.config.inputs[0].block_expand_conf
    conf.channels = channels
    record_axes(conf, last="_x", block=block, stride=strides, padding=pads)
    record_axes(conf, last="_x", output=[0, 0], img_size=[0, 0])  # 2017 left them to run time
    rows, count = pd.im2col(x, block, strides, pads)
    lengths = pd.expand(pd.constant(np.array([count])), pd.size_of(x, 0))
    lengths = refined(lengths, x.dims[:1])
    scope.levels = (pd.Segments(lengths, rows.dims[0]),)
    return rows
