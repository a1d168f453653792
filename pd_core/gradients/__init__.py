"""Reverse-mode automatic differentiation of ONNX graphs, keyed by ONNX operator."""

from . import rules
from .custom import custom_gradient
from .engine import gradients
from .jacobians import hessian, hessian_vector_product, jacobian, jvp
from .recompute import recompute
from .registry import elementwise, gradient, gradient_rules, reasons, undefined, zero, zeros

__all__ = [
    "custom_gradient", "elementwise", "gradient", "gradient_rules", "gradients", "hessian",
    "hessian_vector_product", "jacobian", "jvp", "reasons", "recompute", "undefined", "zero",
    "zeros",
]  # fmt: skip
