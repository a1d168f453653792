"""Convolutional layers: sizes are one number, or one for each spatial axis."""

from collections.abc import Callable

from ..graph.initializers import Initial, initializer
from ..graph.variable import Operand, Variable
from ..ops.conv import Padding
from . import functional
from .functional_conv import check_padding_mode
from .layer import Layer
from .parameter import Activation, Sizes, activation
from .text import arguments


class _Convolution(Layer):
    """Base of the convolutional layers, which have a functional layer each."""

    W: Variable
    B: Variable
    _convolve: Callable[..., Variable]

    def __init__(
        self,
        filters: int,
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        act: Activation = None,
        kernel_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        padding_mode: str = "zeros",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        activation(act)  # an unknown one is found here
        check_padding_mode(padding_mode)
        self.padding_mode = padding_mode
        self.filters, self.kernel, self.stride, self.padding = filters, kernel, stride, padding
        self.dilation, self.groups, self.act, self.has_bias = dilation, groups, act, bias
        self.kernel_init, self.bias_init = initializer(kernel_init), initializer(bias_init)

    def forward(self, x: Operand) -> Variable:
        """Return act(conv(x, W) + B)."""
        return self._convolve(
            x,
            self.filters,
            self.kernel,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            act=self.act,
            W=self.owned("W", self.kernel_init),
            B=self.owned("B", self.bias_init) if self.has_bias else False,
            **({} if self.padding_mode == "zeros" else {"padding_mode": self.padding_mode}),
        )

    def extra(self) -> str:
        """Return the number of filters, their size, and what is not the default."""
        return arguments(
            self.filters,
            kernel=(self.kernel, None),
            stride=(self.stride, 1),
            padding=(self.padding, 0),
            dilation=(self.dilation, 1),
            groups=(self.groups, 1),
            act=(self.act, None),
            bias=(self.has_bias, True),
            padding_mode=(self.padding_mode, "zeros"),
        )


class Conv1d(_Convolution):
    """Convolutional layer, act(conv(x, W) + B), of sequences [N, C, L].

    Parameters: W [filters, C / groups, K], and B [filters] unless `bias` is False.
    `padding_mode` is "zeros", or "reflect", "edge" or "wrap" as in `pd.pad`.
    """

    _convolve = staticmethod(functional.conv1d)


class Conv2d(_Convolution):
    """Convolutional layer, act(conv(x, W) + B), of images [N, C, H, W].

    Parameters: W [filters, C / groups, K, K], and B [filters] unless `bias` is False.
    `padding_mode` is "zeros", or "reflect", "edge" or "wrap" as in `pd.pad`.
    """

    _convolve = staticmethod(functional.conv2d)


class Conv3d(_Convolution):
    """Convolutional layer, act(conv(x, W) + B), of volumes [N, C, D, H, W].

    Parameters: W [filters, C / groups, K, K, K], and B [filters] unless `bias` is False.
    `padding_mode` is "zeros", or "reflect", "edge" or "wrap" as in `pd.pad`.
    """

    _convolve = staticmethod(functional.conv3d)


class _Transposed(_Convolution):
    """Base of the transposed convolutional layers."""

    _transpose: Callable[..., Variable]

    def __init__(
        self,
        filters: int,
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        act: Activation = None,
        kernel_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(
            filters,
            kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            act=act,
            kernel_init=kernel_init,
            bias_init=bias_init,
            bias=bias,
            name=name,
        )
        self.output_padding = output_padding

    def _convolve(self, x, filters, kernel, **options):
        return self._transpose(x, filters, kernel, output_padding=self.output_padding, **options)

    def extra(self) -> str:
        """Return the number of filters, their size, and what is not the default."""
        return arguments(super().extra(), output_padding=(self.output_padding, 0))


class ConvTranspose1d(_Transposed):
    """Transposed convolutional layer of sequences [N, C, L].

    `padding` crops the result, and `output_padding` lengthens it at the end.
    Parameters: W [C, filters / groups, K], and B [filters] unless `bias` is False.
    """

    _transpose = staticmethod(functional.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """Transposed convolutional layer of images [N, C, H, W].

    `padding` crops the result, and `output_padding` lengthens it at the end of each axis.
    Parameters: W [C, filters / groups, K, K], and B [filters] unless `bias` is False.
    """

    _transpose = staticmethod(functional.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """Transposed convolutional layer of volumes [N, C, D, H, W].

    `padding` crops the result, and `output_padding` lengthens it at the end of each axis.
    Parameters: W [C, filters / groups, K, K, K], and B [filters] unless `bias` is False.
    """

    _transpose = staticmethod(functional.conv_transpose3d)
