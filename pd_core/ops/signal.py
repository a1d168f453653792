"""Signals and their spectra."""

import numpy as np

from ..graph.checks import axis_of, whole
from ..graph.node import apply
from ..graph.variable import Variable, constant


def dft(x, length=None, axis=-2, inverse=False, onesided=False):
    """The discrete Fourier transform along an axis, of numbers [..., 1] or complex ones [..., 2].

    The axis is cut or filled with zeros to `length`; `onesided` gives the length // 2 + 1 lower
    frequencies of a real signal; the inverse divides by the length.
    """
    x = constant(x)
    length = length if length is None or isinstance(length, Variable) else np.int64(length)
    axis = axis if isinstance(axis, Variable) else whole(axis_of(x, axis))
    return apply("DFT", x, length, axis, inverse=int(inverse), onesided=int(onesided))
