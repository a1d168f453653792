"""Poolings under their names of v1: `MaxPooling` is `paddle.pooling.Max`."""

from .. import pooling
from .renamed import renamed

_NAMES = {name: f"{name}Pooling" for name in pooling.__all__} | {"BasePool": "BasePoolingType"}

globals().update(renamed(pooling, _NAMES))
__all__ = [*_NAMES.values()]
