"""Layers of 2017 in numpy, by their formulas: [N, C, H, W] images and loops over every cell."""

import numpy as np


def count(size, window, stride, pad, dilation=1, ceil=False):
    """Windows along an axis."""
    room = 2 * pad + size - ((window - 1) * dilation + 1)
    return 1 + (-(-room // stride) if ceil else room // stride)


def conv(x, w, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1):
    """Cross-correlation; pairs are (y, x)."""
    (n, _, height, width), (filters, depth, kh, kw) = x.shape, w.shape
    rows = count(height, kh, stride[0], pad[0], dilation[0])
    columns = count(width, kw, stride[1], pad[1], dilation[1])
    y = np.zeros((n, filters, rows, columns))
    for f, i, j, a, b in np.ndindex(filters, rows, columns, kh, kw):
        r, c = i * stride[0] + a * dilation[0] - pad[0], j * stride[1] + b * dilation[1] - pad[1]
        if 0 <= r < height and 0 <= c < width:
            first = f // (filters // groups) * depth
            y[:, f, i, j] += x[:, first : first + depth, r, c] @ w[f, :, a, b]
    return y


def pool(x, kind, window, stride=(1, 1), pad=(0, 0), ceil=True, exclude=True):
    """The largest or mean cell of each window; pairs are (y, x).

    A mean is over the cells inside the image, or over the whole window if not `exclude`. A window
    that lies outside gives 0.
    """
    n, channels, height, width = x.shape
    rows = count(height, window[0], stride[0], pad[0], 1, ceil)
    columns = count(width, window[1], stride[1], pad[1], 1, ceil)
    y = np.zeros((n, channels, rows, columns))
    for i, j in np.ndindex(rows, columns):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        cells = x[:, :, max(top, 0) : top + window[0], max(left, 0) : left + window[1]]
        cells = cells.reshape(n, channels, -1)
        if not cells.shape[2]:
            continue
        size = cells.shape[2] if exclude else window[0] * window[1]
        y[:, :, i, j] = cells.max(2) if kind == "max" else cells.sum(2) / size
    return y


def batch_norm(x, gamma, beta, mean=None, variance=None, epsilon=1e-5):
    """Normalised over all axes but 1, with the statistics of the batch if none are given."""
    axes, column = (0, *range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
    mean = x.mean(axes) if mean is None else mean
    variance = x.var(axes) if variance is None else variance
    scaled = (x - mean.reshape(column)) / np.sqrt(variance.reshape(column) + epsilon)
    return scaled * gamma.reshape(column) + beta.reshape(column)


def softmax(x):
    """Over the row."""
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def relu(x):
    """max(0, x)."""
    return np.maximum(x, 0)


def cross_entropy(p, label):
    """-ln p[label], [N, 1]."""
    return -np.log(p[np.arange(len(p)), label])[:, None]


def square_error(x, label):
    """Sum over the row of the squared difference, [N, 1]."""
    return np.square(x - label).sum(1, keepdims=True)
