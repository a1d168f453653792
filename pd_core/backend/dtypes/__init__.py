"""Element types that ONNX Runtime's CPU provider has no kernels for."""

from .halves import with_halves_rounded
from .lowering import by_formulas, with_kernels, without_bodies

__all__ = ["by_formulas", "with_halves_rounded", "with_kernels", "without_bodies"]
