"""Convolutions on images that are kept position-major, on a CPU."""

from .position_major import position_major

__all__ = ["position_major"]
