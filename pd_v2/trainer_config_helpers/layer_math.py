"""Functions of layers under their module of v1: `layer_math.exp` is `paddle.op.exp`."""

from ..op import abs, exp, log, reciprocal, relu, sigmoid, sqrt, square, tanh

__all__ = ["abs", "exp", "log", "reciprocal", "relu", "sigmoid", "sqrt", "square", "tanh"]
