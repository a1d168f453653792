"""Poolings under their names of v1: `MaxPooling` is `paddle.pooling.Max`."""

from .. import pooling
from .renamed import lookup

_KINDS = [
    "Avg", "CudnnAvgInclPad", "CudnnAvg", "CudnnMax", "Max", "MaxWithMask", "SquareRootN",
    "Sum",
]  # fmt: skip
_NAMES = {"BasePoolingType": "BasePool", **{f"{name}Pooling": name for name in _KINDS}}

__all__ = sorted(_NAMES)
__getattr__ = lookup(pooling, _NAMES)
