"""Reverse-mode automatic differentiation of ONNX graphs, keyed by ONNX operator."""

from . import control, conv, image, index, loss, math, matrix, reduce, shape
from .engine import gradients
from .registry import elementwise, gradient, reasons, rules, undefined, zero, zeros

__all__ = [
    *("control", "conv", "elementwise", "gradient", "gradients", "image", "index", "loss", "math"),
    *("matrix", "reasons", "reduce", "rules", "shape", "undefined", "zero", "zeros"),
]
