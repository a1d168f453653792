"""Activation functions and Flatten as layers, for Sequential."""

from collections.abc import Callable

from .. import ops
from ..graph.initializers import Constant, Initial, initializer
from ..graph.variable import Operand, Variable
from . import functional
from .layer import Layer
from .text import arguments


class _Elementwise(Layer):
    """Base of the functions without arguments."""

    _function: Callable[[Operand], Variable]

    def forward(self, x: Operand) -> Variable:
        """Return the function of each element of x."""
        return self._function(x)


class _AlongAxis(Layer):
    """Base of the functions along an axis."""

    _function: Callable[[Operand, int], Variable]

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = axis

    def forward(self, x: Operand) -> Variable:
        """Return the function of x along the axis."""
        return self._function(x, self.axis)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(axis=(self.axis, -1))


class ReLU(_Elementwise):
    """Rectified linear unit, max(x, 0)."""

    _function = staticmethod(ops.relu)


class LeakyReLU(Layer):
    """x where positive, alpha x elsewhere."""

    def __init__(self, alpha: float = 0.01, name: str | None = None) -> None:
        super().__init__(name)
        self.alpha = alpha

    def forward(self, x: Operand) -> Variable:
        """Return x where positive, alpha x elsewhere."""
        return ops.leaky_relu(x, self.alpha)

    def extra(self) -> str:
        """Return the slope."""
        return arguments(self.alpha)


class PReLU(Layer):
    """x where positive, a trained slope times x elsewhere (He et al. 2015).

    Parameters: W [1], or W [C] of inputs [N, C, ...] with `per_channel`; at first 0.25, or
    `kernel_init`.
    """

    W: Variable

    def __init__(
        self, *, per_channel: bool = False, kernel_init: Initial = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.per_channel = per_channel
        self.kernel_init = Constant(0.25) if kernel_init is None else initializer(kernel_init)

    def forward(self, x: Operand) -> Variable:
        """Return x where positive, W x elsewhere."""
        return functional.prelu(x, self.per_channel, self.owned("W", self.kernel_init))

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(per_channel=(self.per_channel, False))


class Sigmoid(_Elementwise):
    """Logistic sigmoid, 1 / (1 + e^-x)."""

    _function = staticmethod(ops.sigmoid)


class Tanh(_Elementwise):
    """Hyperbolic tangent."""

    _function = staticmethod(ops.tanh)


class Softplus(_Elementwise):
    """Smooth ReLU, log(1 + e^x)."""

    _function = staticmethod(ops.softplus)


class Softsign(_Elementwise):
    """x / (1 + |x|)."""

    _function = staticmethod(ops.softsign)


class GELU(Layer):
    """x times the normal distribution function of x; `approximate` is its tanh formula."""

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        self.approximate = approximate

    def forward(self, x: Operand) -> Variable:
        """Return 0.5 x (1 + erf(x / sqrt 2))."""
        return ops.gelu(x, self.approximate)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(approximate=(self.approximate, False))


class SiLU(_Elementwise):
    """SiLU or swish, x sigmoid(x)."""

    _function = staticmethod(ops.silu)


class Mish(_Elementwise):
    """Mish, x tanh(softplus(x))."""

    _function = staticmethod(ops.mish)


class SELU(_Elementwise):
    """Scaled exponential linear unit (Klambauer et al. 2017)."""

    _function = staticmethod(ops.selu)


class ReLU6(_Elementwise):
    """ReLU limited to 6, min(max(x, 0), 6)."""

    _function = staticmethod(ops.relu6)


class HardSigmoid(_Elementwise):
    """Piecewise linear sigmoid, x / 6 + 1/2 limited to [0, 1]."""

    _function = staticmethod(ops.hard_sigmoid)


class HardSwish(_Elementwise):
    """Hard swish, x hard_sigmoid(x) (Howard et al. 2019)."""

    _function = staticmethod(ops.hard_swish)


class HardTanh(_Elementwise):
    """Piecewise linear tanh, x limited to [-1, 1]."""

    _function = staticmethod(ops.hard_tanh)


class ELU(Layer):
    """Exponential linear unit: x where positive, alpha (e^x - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        self.alpha = alpha

    def forward(self, x: Operand) -> Variable:
        """Return x where positive, alpha (e^x - 1) elsewhere."""
        return ops.elu(x, self.alpha)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(alpha=(self.alpha, 1.0))


class GLU(_AlongAxis):
    """Gated linear unit, a sigmoid(b) of the halves a, b of an axis."""

    _function = staticmethod(ops.glu)


class Softmax(_AlongAxis):
    """Softmax along an axis."""

    _function = staticmethod(ops.softmax)


class LogSoftmax(_AlongAxis):
    """Logarithm of the softmax along an axis."""

    _function = staticmethod(ops.log_softmax)


class Flatten(Layer):
    """Flatten to a matrix: the axes before `axis` become its rows, the others its columns."""

    def __init__(self, axis: int = 1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = axis

    def forward(self, x: Operand) -> Variable:
        """Return the matrix."""
        return ops.flatten(x, self.axis)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(axis=(self.axis, 1))
