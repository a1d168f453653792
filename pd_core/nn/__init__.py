"""Layers: `pd.nn`, objects that own their parameters; `pd.layer`, functions that create them."""

from .containers import LayerDict, LayerList, Sequential
from .dense import FC
from .hooks import HookHandle
from .layer import Layer

# For type checkers, to which an import alone is private.
__all__ = [
    "FC",
    "HookHandle",
    "Layer",
    "LayerDict",
    "LayerList",
    "Sequential",
]
