"""The names of v1, the face before `paddle.v2`, for what both faces have.

A thing has all its names: `layers.fc_layer is paddle.layer.fc`.
"""

from . import activations, attrs, evaluators, layers, networks, optimizers, poolings
from .renamed import renamed

_PARTS = (activations, attrs, evaluators, layers, networks, optimizers, poolings)

for _part in _PARTS:
    globals().update(renamed(_part, {name: name for name in _part.__all__}))

__all__ = [name for part in _PARTS for name in part.__all__]
