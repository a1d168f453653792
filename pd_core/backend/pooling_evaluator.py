"""MaxPool in numpy: the evaluator of onnx 1.23 gives wrong Indices where windows are padded or
strides are 1, and none for some geometries."""

import numpy as np
from onnx.reference.op_run import OpRun


class MaxPool(OpRun):
    """The largest element of each window and its number; of equal ones the first, row by row."""

    op_domain = ""

    def _run(self, x, kernel_shape=None, storage_order=0, **attributes):
        axes = _axes(x.shape[2:], kernel_shape, **attributes)
        at, inside, result = _cells(x.shape[2:], axes)
        flat = x.reshape(*x.shape[:2], -1)
        cells = np.where(inside, flat[:, :, at], _lowest(x.dtype))
        y = cells.max(-1)
        won = (inside & (cells == y[..., None])).argmax(-1)
        pixel = np.take_along_axis(np.broadcast_to(at, cells.shape), won[..., None], -1)[..., 0]
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
    """The cells of each window along each axis, [windows, cells]."""
    n = len(window)
    pads = pads or [0] * (2 * n)
    found = []
    for k, (size, width) in enumerate(zip(image, window, strict=True)):
        step, hole = (strides or [1] * n)[k], (dilations or [1] * n)[k]
        reach, before, after = (width - 1) * hole + 1, pads[k], pads[k + n]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (-(-size // step) - 1) * step + reach - size)
            before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            after = total - before
        free = size + before + after - reach
        count = (-(-free // step) if ceil_mode else free // step) + 1
        count -= bool(ceil_mode and (count - 1) * step >= size + before)
        found.append(np.arange(count)[:, None] * step + np.arange(width) * hole - before)
    return found


def _cells(image, axes):
    """The pixel of each cell of each window, whether it lies in the image, and all windows."""
    at, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for size, cells in zip(image, axes, strict=True):
        here = (cells >= 0) & (cells < size)
        at = _beside(at * size, np.where(here, cells, 0), np.add)
        inside = _beside(inside, here, np.logical_and)
    return at, inside, [len(cells) for cells in axes]


def _beside(a, b, join):
    """Every row of a with every row of b, and so for their columns."""
    joined = join(a[:, None, :, None], b[None, :, None, :])
    return joined.reshape(len(a) * len(b), -1)
