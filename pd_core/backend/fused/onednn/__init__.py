"""Convolutions by oneDNN as custom operators, where its package is installed."""

from . import package
from .package import active, why_not

__all__ = ["active", "package", "why_not"]
