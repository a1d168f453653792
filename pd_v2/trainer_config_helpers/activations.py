"""Activations under their names of v1: `ReluActivation` is `paddle.activation.Relu`."""

from .. import activation
from .renamed import renamed

_NAMES = {name: f"{name}Activation" for name in activation.__all__}

globals().update(renamed(activation, _NAMES))
__all__ = [*_NAMES.values()]
