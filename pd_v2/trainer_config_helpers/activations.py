"""Activations under their names of v1: `ReluActivation` is `paddle.activation.Relu`."""

from .. import activation
from .renamed import lookup

_NAMES = {f"{name}Activation": name for name in activation.__all__}

__all__ = sorted(_NAMES)
__getattr__ = lookup(activation, _NAMES)
