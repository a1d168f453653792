"""Activation functions and Flatten as layers, for Sequential."""

from .. import ops
from ..graph.initializers import Constant
from ..graph.variable import Operand, Variable
from . import functional
from .layer import Layer
from .text import arguments


class ReLU(Layer):
    """Rectified linear unit, max(x, 0)."""

    def forward(self, x: Operand) -> Variable:
        """Return max(x, 0)."""
        return ops.relu(x)


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
    """x where positive, a trained slope times x elsewhere, at first 0.25 (He et al. 2015).

    Parameters: W [1], or W [C] of inputs [N, C, ...] with `per_channel`.
    """

    W: Variable

    def __init__(self, per_channel: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        self.per_channel = per_channel

    def forward(self, x: Operand) -> Variable:
        """Return x where positive, W x elsewhere."""
        return functional.prelu(x, self.per_channel, self.owned("W", Constant(0.25)))

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(per_channel=(self.per_channel, False))


class Sigmoid(Layer):
    """Logistic sigmoid, 1 / (1 + e^-x)."""

    def forward(self, x: Operand) -> Variable:
        """Return 1 / (1 + e^-x)."""
        return ops.sigmoid(x)


class Tanh(Layer):
    """Hyperbolic tangent."""

    def forward(self, x: Operand) -> Variable:
        """Return tanh(x)."""
        return ops.tanh(x)


class Softplus(Layer):
    """Smooth ReLU, log(1 + e^x)."""

    def forward(self, x: Operand) -> Variable:
        """Return log(1 + e^x)."""
        return ops.softplus(x)


class Softsign(Layer):
    """x / (1 + |x|)."""

    def forward(self, x: Operand) -> Variable:
        """Return x / (1 + |x|)."""
        return ops.softsign(x)


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


class SiLU(Layer):
    """SiLU or swish, x sigmoid(x)."""

    def forward(self, x: Operand) -> Variable:
        """Return x sigmoid(x)."""
        return ops.silu(x)


class Mish(Layer):
    """Mish, x tanh(softplus(x))."""

    def forward(self, x: Operand) -> Variable:
        """Return x tanh(softplus(x))."""
        return ops.mish(x)


class SELU(Layer):
    """Scaled exponential linear unit (Klambauer et al. 2017)."""

    def forward(self, x: Operand) -> Variable:
        """Return the scaled exponential linear unit of x."""
        return ops.selu(x)


class ReLU6(Layer):
    """ReLU limited to 6, min(max(x, 0), 6)."""

    def forward(self, x: Operand) -> Variable:
        """Return min(max(x, 0), 6)."""
        return ops.relu6(x)


class HardSigmoid(Layer):
    """Piecewise linear sigmoid, x / 6 + 1/2 limited to [0, 1]."""

    def forward(self, x: Operand) -> Variable:
        """Return x / 6 + 1/2 limited to [0, 1]."""
        return ops.hard_sigmoid(x)


class HardSwish(Layer):
    """Hard swish, x hard_sigmoid(x) (Howard et al. 2019)."""

    def forward(self, x: Operand) -> Variable:
        """Return x hard_sigmoid(x)."""
        return ops.hard_swish(x)


class HardTanh(Layer):
    """Piecewise linear tanh, x limited to [-1, 1]."""

    def forward(self, x: Operand) -> Variable:
        """Return x limited to [-1, 1]."""
        return ops.hard_tanh(x)


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


class GLU(Layer):
    """Gated linear unit, a sigmoid(b) of the halves a, b of an axis."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = axis

    def forward(self, x: Operand) -> Variable:
        """Return a sigmoid(b)."""
        return ops.glu(x, self.axis)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(axis=(self.axis, -1))


class Softmax(Layer):
    """Softmax along an axis."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = axis

    def forward(self, x: Operand) -> Variable:
        """Return e^x / sum(e^x)."""
        return ops.softmax(x, self.axis)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(axis=(self.axis, -1))


class LogSoftmax(Layer):
    """Logarithm of the softmax along an axis."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = axis

    def forward(self, x: Operand) -> Variable:
        """Return x - log(sum(e^x))."""
        return ops.log_softmax(x, self.axis)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(axis=(self.axis, -1))


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
