"""The names of v1, the interface before `paddle.v2`, for what both have.

Both names are of one object: `layers.fc_layer is paddle.layer.fc`.
"""

from . import activations, attrs, evaluators, layer_math, layers, networks, optimizers, poolings

_PARTS = (activations, attrs, evaluators, layers, networks, optimizers, poolings)

__all__ = [*(name for part in _PARTS for name in part.__all__), "layer_math"]


def __getattr__(name):
    for part in _PARTS:
        if name in part.__all__:
            return getattr(part, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
