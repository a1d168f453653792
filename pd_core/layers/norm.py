"""Normalisation layers. `affine=False` leaves scale and bias out.

`scale_init` and `bias_init` are initializers, their names, or arrays.
"""

from ..graph.errors import ShapeError
from ..graph.initializers import Initial, initializer
from ..graph.site import warn
from ..graph.variable import Operand, Variable, constant
from . import functional
from .functional_conv import INPUTS
from .layer import Layer
from .parameter import Bias
from .text import arguments


class _Norm(Layer):
    """Base of the normalisation layers: a scale, at first of ones, and a bias, of zeros."""

    scale: Variable
    bias: Variable
    has_bias = True

    def __init__(
        self,
        epsilon: float,
        affine: bool,
        scale_init: Initial,
        bias_init: Initial,
        name: str | None,
    ) -> None:
        super().__init__(name)
        self.epsilon, self.affine = epsilon, affine
        self.scale_init, self.bias_init = initializer(scale_init), initializer(bias_init)

    def _scale(self) -> Bias:
        return self.owned("scale", self.scale_init) if self.affine else False

    def _bias(self) -> Bias:
        return self.owned("bias", self.bias_init) if self.affine else False

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(epsilon=(self.epsilon, 1e-5), affine=(self.affine, True))


class _BatchNorm(_Norm):
    """Base of batch normalisation for inputs of some ranks."""

    mean: Variable
    variance: Variable
    _ranks: tuple[int, ...]
    _inputs: str

    def __init__(
        self,
        *,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale_init: Initial = "ones",
        bias_init: Initial = "zeros",
        name: str | None = None,
    ) -> None:
        super().__init__(epsilon, affine, scale_init, bias_init, name)
        if 0 < momentum < 0.5:
            warn(
                UserWarning(
                    f"{type(self).__name__}: momentum={momentum} is what is kept of the moving "
                    f"statistics; PyTorch's momentum={momentum} is {1 - momentum:g} here"
                )
            )
        self.momentum = momentum

    def forward(self, x: Operand) -> Variable:
        """Return x normalised by the batch in training, by the moving statistics otherwise."""
        x = constant(x)
        if x.rank not in self._ranks:
            raise ShapeError(f"{type(self).__name__}: takes {self._inputs}, not {x!r}")
        statistics = self.owned_buffer("mean", "zeros"), self.owned_buffer("variance", "ones")
        parameters = self._scale(), self._bias()
        return functional.batch_norm(x, self.momentum, self.epsilon, *parameters, *statistics)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(super().extra(), momentum=(self.momentum, 0.9))


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of rows [N, C] or sequences [N, C, L] (Ioffe & Szegedy 2015).

    A training step keeps `momentum` of the moving statistics. Parameters: scale and bias [C];
    buffers: mean and variance [C].
    """

    _ranks, _inputs = (2, 3), "rows [N, C] or sequences [N, C, L]"


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images [N, C, H, W] (Ioffe & Szegedy 2015).

    A training step keeps `momentum` of the moving statistics. Parameters: scale and bias [C];
    buffers: mean and variance [C].
    """

    _ranks, _inputs = (4,), INPUTS[2]


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of volumes [N, C, D, H, W] (Ioffe & Szegedy 2015).

    A training step keeps `momentum` of the moving statistics. Parameters: scale and bias [C];
    buffers: mean and variance [C].
    """

    _ranks, _inputs = (5,), INPUTS[3]


class LayerNorm(_Norm):
    """Layer normalisation over the axes from `axis` on (Ba et al. 2016).

    Parameters: scale, and bias unless `bias` is False, with the sizes of those axes.
    """

    def __init__(
        self,
        *,
        axis: int = -1,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale_init: Initial = "ones",
        bias_init: Initial = "zeros",
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(epsilon, affine, scale_init, bias_init, name)
        self.axis, self.has_bias = axis, bias

    def _bias(self) -> Bias:
        return super()._bias() if self.has_bias else False

    def forward(self, x: Operand) -> Variable:
        """Return scale (x - mean) / sqrt(var + epsilon) + bias."""
        return functional.layer_norm(x, self.axis, self.epsilon, self._scale(), self._bias())

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(super().extra(), axis=(self.axis, -1), bias=(self.has_bias, True))


class RMSNorm(_Norm):
    """Root mean square normalisation over the axes from `axis` on (Zhang & Sennrich 2019).

    Parameter: scale, with the sizes of those axes.
    """

    has_bias = False

    def __init__(
        self,
        *,
        axis: int = -1,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale_init: Initial = "ones",
        name: str | None = None,
    ) -> None:
        super().__init__(epsilon, affine, scale_init, "zeros", name)
        self.axis = axis

    def forward(self, x: Operand) -> Variable:
        """Return scale x / sqrt(mean(x^2) + epsilon)."""
        return functional.rms_norm(x, self.axis, self.epsilon, self._scale())

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(super().extra(), axis=(self.axis, -1))


class GroupNorm(_Norm):
    """Normalisation of x [N, C, ...] over groups of C / groups channels (Wu & He 2018).

    Parameters: scale and bias [C].
    """

    def __init__(
        self,
        groups: int,
        *,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale_init: Initial = "ones",
        bias_init: Initial = "zeros",
        name: str | None = None,
    ) -> None:
        super().__init__(epsilon, affine, scale_init, bias_init, name)
        self.groups = groups

    def forward(self, x: Operand) -> Variable:
        """Return scale (x - mean) / sqrt(var + epsilon) + bias, by groups."""
        return functional.group_norm(x, self.groups, self.epsilon, self._scale(), self._bias())

    def extra(self) -> str:
        """Return the number of groups, and what is not the default."""
        return arguments(self.groups, super().extra())


class _InstanceNorm(_Norm):
    """Base of instance normalisation for inputs with `_axes` axes after the channels."""

    _axes: int

    def __init__(
        self,
        *,
        epsilon: float = 1e-5,
        affine: bool = False,
        scale_init: Initial = "ones",
        bias_init: Initial = "zeros",
        name: str | None = None,
    ) -> None:
        super().__init__(epsilon, affine, scale_init, bias_init, name)

    def forward(self, x: Operand) -> Variable:
        """Return (x - mean) / sqrt(var + epsilon) of each channel, scaled and shifted if affine."""
        x = constant(x)
        if x.rank != self._axes + 2:
            raise ShapeError(f"{type(self).__name__}: takes {INPUTS[self._axes]}, not {x!r}")
        return functional.instance_norm(x, self.epsilon, self._scale(), self._bias())

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(epsilon=(self.epsilon, 1e-5), affine=(self.affine, False))


class InstanceNorm1d(_InstanceNorm):
    """Normalisation of each channel of each sequence of [N, C, L] (Ulyanov et al. 2016).

    Parameters with `affine=True`: scale and bias [C].
    """

    _axes = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalisation of each channel of each image of [N, C, H, W] (Ulyanov et al. 2016).

    Parameters with `affine=True`: scale and bias [C].
    """

    _axes = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalisation of each channel of each volume of [N, C, D, H, W] (Ulyanov et al. 2016).

    Parameters with `affine=True`: scale and bias [C].
    """

    _axes = 3
