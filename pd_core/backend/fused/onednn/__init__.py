"""Convolutions by oneDNN as custom operators, where its package is installed."""

from .package import active, library, why_not

__all__ = ["active", "library", "why_not"]
