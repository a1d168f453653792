"""Pooling layers: sizes are one number, or one for each spatial axis."""

from collections.abc import Callable

from .. import ops
from ..graph.errors import ShapeError
from ..graph.variable import Operand, Variable, constant
from .functional_conv import INPUTS
from .layer import Layer
from .parameter import Sizes
from .text import arguments


class _Pool(Layer):
    """Base of the layers that pool windows over a number of spatial axes."""

    _axes: int

    def __init__(
        self,
        kernel: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        *,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.kernel, self.stride = kernel, kernel if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode

    def extra(self) -> str:
        """Return the size of the window, and what is not the default."""
        return arguments(
            self.kernel,
            stride=(self.stride, self.kernel),
            padding=(self.padding, 0),
            ceil_mode=(self.ceil_mode, False),
        )


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        *,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel, stride, padding, ceil_mode=ceil_mode, name=name)
        self.dilation = dilation

    def forward(self, x: Operand) -> Variable:
        """Return the maximum of each window."""
        x, geometry = _checked(self, x, self._axes), (self.kernel, self.stride, self.padding)
        return ops.max_pool(x, *geometry, self.ceil_mode, dilations=self.dilation)

    def extra(self) -> str:
        """Return the size of the window, and what is not the default."""
        return arguments(super().extra(), dilation=(self.dilation, 1))


class MaxPool1d(_MaxPool):
    """Maximum of each window of sequences [N, C, L]; the stride defaults to the window."""

    _axes = 1


class MaxPool2d(_MaxPool):
    """Maximum of each window of images [N, C, H, W]; the stride defaults to the window."""

    _axes = 2


class MaxPool3d(_MaxPool):
    """Maximum of each window of volumes [N, C, D, H, W]; the stride defaults to the window."""

    _axes = 3


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        *,
        ceil_mode: bool = False,
        include_pad: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel, stride, padding, ceil_mode=ceil_mode, name=name)
        self.include_pad = include_pad

    def forward(self, x: Operand) -> Variable:
        """Return the mean of each window."""
        x, geometry = _checked(self, x, self._axes), (self.kernel, self.stride, self.padding)
        return ops.avg_pool(x, *geometry, self.ceil_mode, self.include_pad)

    def extra(self) -> str:
        """Return the size of the window, and what is not the default."""
        return arguments(super().extra(), include_pad=(self.include_pad, False))


class AvgPool1d(_AvgPool):
    """Mean of each window of sequences [N, C, L]; the stride defaults to the window.

    The padding counts with `include_pad` only.
    """

    _axes = 1


class AvgPool2d(_AvgPool):
    """Mean of each window of images [N, C, H, W]; the stride defaults to the window.

    The padding counts with `include_pad` only.
    """

    _axes = 2


class AvgPool3d(_AvgPool):
    """Mean of each window of volumes [N, C, D, H, W]; the stride defaults to the window.

    The padding counts with `include_pad` only.
    """

    _axes = 3


class _AdaptivePool2d(Layer):
    """Base of the pooling layers whose result has a given size."""

    _pool: Callable[[Operand, Sizes], Variable]

    def __init__(self, size: Sizes, name: str | None = None) -> None:
        super().__init__(name)
        self.size = size

    def forward(self, x: Operand) -> Variable:
        """Return one number for each window."""
        return self._pool(_checked(self, x, 2), self.size)

    def extra(self) -> str:
        """Return the size."""
        return arguments(self.size)


class AdaptiveAvgPool2d(_AdaptivePool2d):
    """Means of windows of images [N, C, H, W] that give the size: [N, C, *size]."""

    _pool = staticmethod(ops.adaptive_avg_pool)


class AdaptiveMaxPool2d(_AdaptivePool2d):
    """Maxima of windows of images [N, C, H, W] that give the size: [N, C, *size]."""

    _pool = staticmethod(ops.adaptive_max_pool)


class GlobalAvgPool2d(Layer):
    """Mean of each channel of images [N, C, H, W]: [N, C]."""

    def forward(self, x: Operand) -> Variable:
        """Return the means."""
        return ops.reduce_mean(_checked(self, x, 2), [2, 3])


class GlobalMaxPool2d(Layer):
    """Maximum of each channel of images [N, C, H, W]: [N, C]."""

    def forward(self, x: Operand) -> Variable:
        """Return the maxima."""
        return ops.reduce_max(_checked(self, x, 2), [2, 3])


def _checked(layer, x, axes):
    x = constant(x)
    if x.rank != axes + 2:
        raise ShapeError(f"{type(layer).__name__}: takes {INPUTS[axes]}, not {x!r}")
    return x
