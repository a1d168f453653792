"""Convolutions on images that are kept position-major, on a CPU."""

from .layout import positions

__all__ = ["positions"]
