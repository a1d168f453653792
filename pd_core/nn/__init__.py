"""Layers: `pd.nn`, objects that own their parameters; `pd.layer`, functions that create them."""

from .activation import (
    GELU,
    Flatten,
    LeakyReLU,
    LogSoftmax,
    PReLU,
    ReLU,
    Sigmoid,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from .attention import MultiHeadAttention
from .containers import LayerDict, LayerList, Sequential
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .dense import FC, Embedding
from .history import History
from .hooks import HookHandle
from .layer import Layer
from .losses import (
    L1,
    MSE,
    NLL,
    CrossEntropy,
    Dice,
    Focal,
    GaussianNLL,
    Huber,
    KLDiv,
    PoissonNLL,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    Triplet,
)
from .module import Module
from .norm import BatchNorm1d, BatchNorm2d, GroupNorm, InstanceNorm2d, LayerNorm, RMSNorm
from .pool import (
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool2d,
    GlobalMaxPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from .recurrent import GRU, LSTM, RNN
from .regularization import Dropout
from .transformer import TransformerDecoderLayer, TransformerEncoderLayer

# For type checkers, to which an import alone is private.
__all__ = [
    "FC",
    "GELU",
    "GRU",
    "L1",
    "LSTM",
    "MSE",
    "NLL",
    "RNN",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CrossEntropy",
    "Dice",
    "Dropout",
    "Embedding",
    "Flatten",
    "Focal",
    "GaussianNLL",
    "GlobalAvgPool2d",
    "GlobalMaxPool2d",
    "GroupNorm",
    "History",
    "HookHandle",
    "Huber",
    "InstanceNorm2d",
    "KLDiv",
    "Layer",
    "LayerDict",
    "LayerList",
    "LayerNorm",
    "LeakyReLU",
    "LogSoftmax",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "MultiHeadAttention",
    "PReLU",
    "PoissonNLL",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "SigmoidCrossEntropy",
    "Softmax",
    "SoftmaxCrossEntropy",
    "Softplus",
    "Softsign",
    "Tanh",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "Triplet",
]
