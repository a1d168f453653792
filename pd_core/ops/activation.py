"""Activation functions, elementwise."""

from collections.abc import Callable

from ..graph.checks import axis_of, numbers
from ..graph.errors import ShapeError
from ..graph.node import apply, composite
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .shape import reshape, split

Activation = Callable[[Variable], Variable]  # an activation function, ours or a user's


@op
def tanh(x: Operand) -> Variable:
    """Hyperbolic tangent.

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Tanh", x)


@op
def sigmoid(x: Operand) -> Variable:
    """Logistic sigmoid, 1 / (1 + e^-x).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Sigmoid", x)


@op
def relu(x: Operand) -> Variable:
    """Rectified linear unit, max(x, 0); the derivative at 0 is 0, and 1 at NaN.

    Args:
        x: numbers of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is bool or text.
    """
    return apply("Relu", x)


@op
def relu_grad(y: Variable, dy: Variable) -> Variable:
    """Gradient of y = relu(x) in x: dy where y is positive or NaN, 0 where it is 0."""
    return composite("ReluGrad", y, dy, types=[(dy.dims, dy.dtype)])


@op
def leaky_relu(x: Operand, alpha: float = 0.01) -> Variable:
    """Leaky ReLU: x where positive, alpha x elsewhere.

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("LeakyRelu", x, alpha=float(alpha))


@op
def softplus(x: Operand) -> Variable:
    """Smooth ReLU, log(1 + e^x).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Softplus", x)


@op
def softsign(x: Operand) -> Variable:
    """x / (1 + |x|).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Softsign", x)


@op
def gelu(x: Operand, approximate: bool = False) -> Variable:
    """x times the normal distribution function of x, 0.5 x (1 + erf(x / sqrt 2)).

    `approximate` is the tanh formula of Hendrycks & Gimpel (2016),
    0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Gelu", x, approximate="tanh" if approximate else "none")


@op
def normal_cdf(x: Operand) -> Variable:
    """Distribution function of the standard normal distribution, (1 + erf(x / sqrt 2)) / 2."""
    return _of_normal("NormalCdf", x)


@op
def normal_pdf(x: Operand) -> Variable:
    """Density of the standard normal distribution, exp(-x^2 / 2) / sqrt(2 pi)."""
    return _of_normal("NormalPdf", x)


def _of_normal(op_type, x):
    x = constant(x)
    return composite(op_type, x, types=[(x.dims, x.dtype)])


@op
def silu(x: Operand) -> Variable:
    """SiLU or swish, x sigmoid(x) (Elfwing et al. 2018).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    x = constant(x)
    return x * sigmoid(x)


@op
def mish(x: Operand) -> Variable:
    """Mish, x tanh(softplus(x)) (Misra 2019).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    x = constant(x)
    return x * tanh(softplus(x))


@op
def elu(x: Operand, alpha: float = 1.0) -> Variable:
    """ELU: x where positive, alpha (e^x - 1) elsewhere (Clevert et al. 2016).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Elu", x, alpha=float(alpha))


@op
def celu(x: Operand, alpha: float = 1.0) -> Variable:
    """CELU: x where positive, alpha (e^(x / alpha) - 1) elsewhere (Barron 2017).

    Args:
        x: floats of any shape.
        alpha: a positive number.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is bool or text.
        ValueError: alpha is not positive.
    """
    if alpha <= 0:
        raise ValueError(f"celu: alpha is positive, not {alpha}")
    # not ONNX's Celu, which is for float32 only
    return elu(m.div(numbers(x), alpha)) * alpha


@op
def selu(x: Operand) -> Variable:
    """SELU: 1.0507 x where positive, 1.7581 (e^x - 1) elsewhere (Klambauer et al. 2017).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("Selu", x)


@op
def hard_sigmoid(x: Operand, alpha: float = 1 / 6, beta: float = 0.5) -> Variable:
    """Piecewise linear sigmoid, alpha x + beta limited to [0, 1]; PyTorch's alpha and beta.

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("HardSigmoid", x, alpha=float(alpha), beta=float(beta))


@op
def hard_swish(x: Operand) -> Variable:
    """Hard swish, x hard_sigmoid(x) (Howard et al. 2019).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return apply("HardSwish", x)


@op
def hard_tanh(x: Operand, low: float = -1.0, high: float = 1.0) -> Variable:
    """Piecewise linear tanh: x limited to [low, high], two numbers.

    Args:
        x: numbers of any shape.
        low: a number.
        high: a number.

    Returns:
        Of the shape of x.
    """
    return m.clip(x, low, high)


@op
def relu6(x: Operand) -> Variable:
    """ReLU limited to 6, min(max(x, 0), 6)."""
    return m.clip(x, 0.0, 6.0)


@op
def prelu(x: Operand, slope: Operand) -> Variable:
    """Parametric ReLU: x where positive, slope x elsewhere (He et al. 2015).

    `slope` is one number, or [C] with a number for each channel of x [N, C, ...].

    Args:
        x: floats [N, C, ...].
        slope: a number, or [C].

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: the slopes do not fit the channels.
    """
    x = constant(x)
    slope = constant(slope, x.dtype)
    single = slope.dims in ((), (1,))
    if not single and (x.rank < 2 or slope.rank != 1 or slope.dims[0] != x.dims[1]):
        raise ShapeError(f"slopes {describe(slope)} for the channels of {describe(x)}")
    if not single:
        slope = reshape(slope, [-1, *[1] * (x.rank - 2)])
    return apply("PRelu", x, slope)


@op
def glu(x: Operand, axis: int = -1) -> Variable:
    """Gated linear unit, a sigmoid(b) of the halves a, b of an axis (Dauphin et al. 2017).

    Args:
        x: floats, an even number along the axis.

    Returns:
        X with half as many along the axis.

    Raises:
        DTypeError: x is no float.
        ShapeError: x has no such axis, or one of odd or unknown size.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    size = x.dims[axis]
    if not isinstance(size, int) or size % 2:
        raise ShapeError(f"splits an axis of known, even size, not axis {axis} of {describe(x)}")
    a, b = split(x, [size // 2, size // 2], axis)
    return a * sigmoid(b)


@op
def tanhshrink(x: Operand) -> Variable:
    """x - tanh(x).

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    return m.sub(x, tanh(x))
