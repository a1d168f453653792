"""Reverse-mode automatic differentiation of ONNX graphs, keyed by ONNX operator."""

from . import (
    attention,
    control,
    conv,
    image,
    index,
    loss,
    math,
    matrix,
    norm,
    recurrent,
    reduce,
    sequence,
    shape,
)
from .engine import gradients
from .registry import elementwise, gradient, reasons, rules, undefined, zero, zeros

__all__ = [
    *("attention", "control", "conv", "elementwise", "gradient", "gradients", "image", "index"),
    *("loss", "math", "matrix", "norm", "reasons", "recurrent", "reduce", "rules", "sequence"),
    *("shape", "undefined", "zero", "zeros"),
]
