"""Activation functions, elementwise."""

from collections.abc import Callable

from ..graph.node import apply, composite
from ..graph.op import op
from ..graph.variable import Operand, Variable

Activation = Callable[[Variable], Variable]  # an activation function, ours or a user's


@op
def tanh(x: Operand) -> Variable:
    """Hyperbolic tangent."""
    return apply("Tanh", x)


@op
def sigmoid(x: Operand) -> Variable:
    """Logistic sigmoid, 1 / (1 + e^-x)."""
    return apply("Sigmoid", x)


@op
def relu(x: Operand) -> Variable:
    """Rectified linear unit, max(x, 0); the derivative at 0 is 0."""
    return apply("Relu", x)


@op
def relu_grad(y: Variable, dy: Variable) -> Variable:
    """Gradient of y = relu(x) in x: dy where y is positive, else 0."""
    return composite("ReluGrad", y, dy, types=[(dy.dims, dy.dtype)])


@op
def leaky_relu(x: Operand, alpha: float = 0.01) -> Variable:
    """Leaky ReLU: x where positive, alpha x elsewhere."""
    return apply("LeakyRelu", x, alpha=float(alpha))


@op
def softplus(x: Operand) -> Variable:
    """Smooth ReLU, log(1 + e^x)."""
    return apply("Softplus", x)


@op
def softsign(x: Operand) -> Variable:
    """x / (1 + |x|)."""
    return apply("Softsign", x)


@op
def gelu(x: Operand, approximate: bool = False) -> Variable:
    """x times the normal distribution function of x, 0.5 x (1 + erf(x / sqrt 2)).

    `approximate` is the tanh formula of Hendrycks & Gimpel (2016),
    0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """
    return apply("Gelu", x, approximate="tanh" if approximate else "none")
