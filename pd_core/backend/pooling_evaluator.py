"""MaxPool in numpy: onnx 1.23's reference evaluator returns wrong Indices where windows are padded
or strides are 1, and none for some geometries."""

import numpy as np
from onnx.reference.op_run import OpRun


class MaxPool(OpRun):
    """The maximum of each window and its flat index; of equal ones the first, row by row."""

    op_domain = ""

    def _run(self, x, kernel_shape=None, storage_order=0, **attributes):
        axes = _axes(x.shape[2:], kernel_shape, **attributes)
        at, inside, result = _cells(x.shape[2:], axes)
        flat = x.reshape(*x.shape[:2], -1)
        cells = np.where(inside, flat[:, :, at], _lowest(x.dtype))
        y = cells.max(-1)
        winners = (inside & (cells == y[..., None])).argmax(-1)
        pixel = np.take_along_axis(np.broadcast_to(at, cells.shape), winners[..., None], -1)[..., 0]
        if storage_order:
            pixel = np.ravel_multi_index(
                np.unravel_index(pixel, x.shape[2:]), x.shape[2:], order="F"
            )
        image = np.arange(flat.shape[0] * flat.shape[1]).reshape(*flat.shape[:2], 1)
        index = (image * flat.shape[2] + pixel).astype(np.int64)
        shape = (*x.shape[:2], *result)
        return (y.reshape(shape), index.reshape(shape))[: len(self.onnx_node.output)]


def _lowest(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _axes(image, window, strides=None, dilations=None, pads=None, auto_pad="NOTSET", ceil_mode=0):
    """The pixels of each window along each axis, [windows, cells]."""
    n = len(window)
    pads = pads or [0] * (2 * n)
    axes = []
    for k, (size, width) in enumerate(zip(image, window, strict=True)):
        stride, dilation = (strides or [1] * n)[k], (dilations or [1] * n)[k]
        reach, before, after = (width - 1) * dilation + 1, pads[k], pads[k + n]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (-(-size // stride) - 1) * stride + reach - size)
            before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            after = total - before
        free = size + before + after - reach
        count = (-(-free // stride) if ceil_mode else free // stride) + 1
        count -= bool(ceil_mode and (count - 1) * stride >= size + before)  # none in the padding
        axes.append(np.arange(count)[:, None] * stride + np.arange(width) * dilation - before)
    return axes


def _cells(image, axes):
    """The flat index of each window cell, whether it is in the image, and the result's shape."""
    at, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for size, cells in zip(image, axes, strict=True):
        valid = (cells >= 0) & (cells < size)
        at = _outer(at * size, np.where(valid, cells, 0), np.add)
        inside = _outer(inside, valid, np.logical_and)
    return at, inside, [len(cells) for cells in axes]


def _outer(a, b, function):
    """The function of every row of a and every row of b, and of every two of their columns."""
    pairs = function(a[:, None, :, None], b[None, :, None, :])
    return pairs.reshape(len(a) * len(b), -1)
