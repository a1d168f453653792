"""`pd.nn`: layers that own their parameters, and modules, which are trained, saved and loaded."""

# isort: skip_file
# fmt: off
from .layers import functional as functional
from .layers.activation import (
    ELU, GELU, GLU, SELU, Flatten, HardSigmoid, HardSwish, HardTanh, LeakyReLU, LogSoftmax, Mish,
    PReLU, ReLU, ReLU6, Sigmoid, SiLU, Softmax, Softplus, Softsign, Tanh,
)
from .layers.attention import MultiHeadAttention
from .layers.blocks import Fold, Unfold
from .layers.containers import LayerDict, LayerList, Sequential
from .layers.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .layers.dense import FC, Embedding
from .layers.function import Lambda
from .layers.hooks import HookHandle
from .layers.layer import Layer
from .layers.losses import (
    L1, MSE, NLL, CrossEntropy, Dice, Focal, GaussianNLL, Huber, KLDiv, PoissonNLL,
    SigmoidCrossEntropy, SoftmaxCrossEntropy, Triplet,
)
from .layers.norm import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d,
    InstanceNorm3d, LayerNorm, RMSNorm,
)
from .layers.pool import (
    AdaptiveAvgPool2d, AdaptiveMaxPool2d, AvgPool1d, AvgPool2d, AvgPool3d, GlobalAvgPool2d,
    GlobalMaxPool2d, MaxPool1d, MaxPool2d, MaxPool3d,
)
from .layers.recurrent import GRU, LSTM, RNN
from .layers.regularization import Dropout, StochasticDepth
from .layers.reparametrization import SpectralNorm, WeightNorm
from .layers.transformer import TransformerDecoderLayer, TransformerEncoderLayer
from .training.fit.history import History
from .training.module import Module

# For type checkers, to which an import alone is private.
__all__ = [
    "ELU", "FC", "GELU", "GLU", "GRU", "L1", "LSTM", "MSE", "NLL", "RNN", "SELU",
    "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "CrossEntropy", "Dice", "Dropout", "Embedding", "Flatten",
    "Focal", "Fold", "GaussianNLL", "GlobalAvgPool2d", "GlobalMaxPool2d", "GroupNorm",
    "HardSigmoid", "HardSwish", "HardTanh", "History", "HookHandle", "Huber", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "KLDiv", "Lambda", "Layer", "LayerDict", "LayerList",
    "LayerNorm", "LeakyReLU", "LogSoftmax", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish", "Module",
    "MultiHeadAttention", "PReLU", "PoissonNLL", "RMSNorm", "ReLU", "ReLU6", "Sequential", "SiLU",
    "Sigmoid", "SigmoidCrossEntropy", "Softmax", "SoftmaxCrossEntropy", "Softplus", "Softsign",
    "SpectralNorm", "StochasticDepth", "Tanh", "TransformerDecoderLayer", "TransformerEncoderLayer",
    "Triplet", "Unfold", "WeightNorm",
]
