"""Optimizers with 2017's formulas: summed gradients, rates per parameter, schedules by samples."""

# isort: skip_file
# fmt: off
from .methods import (
    AdaDelta, AdaGrad, Adam, Adamax, DecayedAdaGrad, Momentum, RMSProp,
)
from .settings import L2Regularization, ModelAverage, Optimizer

__all__ = [
    "AdaDelta", "AdaGrad", "Adam", "Adamax", "DecayedAdaGrad", "L2Regularization", "ModelAverage",
    "Momentum", "RMSProp",
]
