"""Rows of signals."""

import numpy as np

from pd_core import ops

from .case import case, normal


def _complex(x):
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _parts(y):
    return np.stack([y.real, y.imag], -1)


def _dft(x, length=None, axis=-2, inverse=False, onesided=False):
    axis = axis % x.ndim
    y = (np.fft.ifft if inverse else np.fft.fft)(_complex(x), length, axis)
    return _parts(np.take(y, range(y.shape[axis] // 2 + 1), axis) if onesided else y)


CASES = [
    case("DFT", ops.dft, _dft, [normal(2, 6, 1)]),
    case("DFT", ops.dft, _dft, [normal(2, 5, 2)]),
    case("DFT", ops.dft, _dft, [normal(2, 5, 2)], inverse=True),
    case("DFT", ops.dft, _dft, [normal(2, 6, 1)], onesided=True),
    case("DFT", ops.dft, _dft, [normal(2, 4, 1)], length=7),
    case("DFT", ops.dft, _dft, [normal(2, 6, 2)], length=4),
    case("DFT", ops.dft, _dft, [normal(4, 3, 1)], axis=0, batch=()),
]
