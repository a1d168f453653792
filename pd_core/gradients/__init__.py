"""Reverse-mode automatic differentiation of ONNX graphs, keyed by ONNX operator."""

from . import (
    activation,
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
    region,
    sampling,
    selection,
    sequence,
    shape,
    signal,
    verdicts,
)
from .engine import gradients
from .registry import elementwise, gradient, reasons, rules, undefined, zero, zeros

__all__ = ["elementwise", "gradient", "gradients", "reasons", "rules", "undefined", "zero", "zeros"]
