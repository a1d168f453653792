"""Poolings under their names of v1: `MaxPooling` is `paddle.pooling.Max`."""

from .. import pooling

__all__ = [
    "AvgPooling",
    "BasePoolingType",
    "CudnnAvgInclPadPooling",
    "CudnnAvgPooling",
    "CudnnMaxPooling",
    "MaxPooling",
    "MaxWithMaskPooling",
    "SquareRootNPooling",
    "SumPooling",
]

AvgPooling = pooling.Avg
BasePoolingType = pooling.BasePool
CudnnAvgInclPadPooling = pooling.CudnnAvgInclPad
CudnnAvgPooling = pooling.CudnnAvg
CudnnMaxPooling = pooling.CudnnMax
MaxPooling = pooling.Max
MaxWithMaskPooling = pooling.MaxWithMask
SquareRootNPooling = pooling.SquareRootN
SumPooling = pooling.Sum
