"""Activations under their names of v1: `ReluActivation` is `paddle.activation.Relu`."""

from .. import activation

__all__ = [
    "AbsActivation", "BReluActivation", "BaseActivation", "ExpActivation", "IdentityActivation",
    "LinearActivation", "LogActivation", "ReciprocalActivation", "ReluActivation",
    "STanhActivation", "SequenceSoftmaxActivation", "SigmoidActivation", "SoftReluActivation",
    "SoftSignActivation", "SoftmaxActivation", "SqrtActivation", "SquareActivation",
    "TanhActivation",
]  # fmt: skip

AbsActivation = activation.Abs
BReluActivation = activation.BRelu
BaseActivation = activation.Base
ExpActivation = activation.Exp
IdentityActivation = activation.Identity
LinearActivation = activation.Linear
LogActivation = activation.Log
ReciprocalActivation = activation.Reciprocal
ReluActivation = activation.Relu
STanhActivation = activation.STanh
SequenceSoftmaxActivation = activation.SequenceSoftmax
SigmoidActivation = activation.Sigmoid
SoftReluActivation = activation.SoftRelu
SoftSignActivation = activation.SoftSign
SoftmaxActivation = activation.Softmax
SqrtActivation = activation.Sqrt
SquareActivation = activation.Square
TanhActivation = activation.Tanh
