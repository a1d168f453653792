"""Layers: `pd.nn`, objects that own their parameters; `pd.layer`, functions that create them."""

from .attention import MultiHeadAttention
from .containers import LayerDict, LayerList, Sequential
from .dense import FC
from .hooks import HookHandle
from .layer import Layer
from .losses import (
    L1,
    MSE,
    NLL,
    CrossEntropy,
    Huber,
    KLDiv,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
)
from .recurrent import GRU, LSTM, RNN

# For type checkers, to which an import alone is private.
__all__ = [
    "FC",
    "GRU",
    "L1",
    "LSTM",
    "MSE",
    "NLL",
    "RNN",
    "CrossEntropy",
    "HookHandle",
    "Huber",
    "KLDiv",
    "Layer",
    "LayerDict",
    "LayerList",
    "MultiHeadAttention",
    "Sequential",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
]
