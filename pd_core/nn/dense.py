"""Fully connected layers and tables of embeddings."""

from ..graph.errors import ShapeError
from ..graph.initializers import Initializer, initializer
from ..graph.variable import Operand, Variable
from . import functional
from .layer import Layer
from .parameter import Activation, activation


class FC(Layer):
    """Fully connected layer, act(x W + b), over the last axis of x [..., n]: [..., size].

    Parameters W [n, size] and B [size].
    """

    W: Variable
    B: Variable

    def __init__(
        self,
        size: int,
        act: Activation = None,
        kernel_init: str | Initializer | None = None,
        bias_init: str | Initializer | None = None,
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if size < 1:
            raise ShapeError(f"FC: the size is positive, not {size}")
        self.size = size
        self.act = activation(act)
        self.kernel_init, self.bias_init = initializer(kernel_init), initializer(bias_init)
        self.has_bias = bias

    def forward(self, x: Operand) -> Variable:
        """Return act(x W + b)."""
        W = self.owned("W", self.kernel_init)
        B = self.owned("B", self.bias_init) if self.has_bias else False
        return functional.fc(x, self.size, self.act, W, B)

    def extra(self) -> str:
        """Return the size, and what is not the default."""
        return f"{self.size}"
