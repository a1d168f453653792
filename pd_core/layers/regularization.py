"""Layers that regularize in training only."""

from .. import ops
from ..graph.variable import Operand, Variable
from .layer import Layer
from .text import arguments


class Dropout(Layer):
    """Zero elements with probability `rate` in training, divide the others by 1 - rate."""

    def __init__(self, rate: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        if not 0 <= rate < 1:
            raise ValueError(f"Dropout: the rate is within [0, 1), not {rate}")
        self.rate = rate

    def forward(self, x: Operand) -> Variable:
        """Return x with elements dropped in training; x itself otherwise."""
        return ops.dropout(x, self.rate)

    def extra(self) -> str:
        """Return the rate."""
        return arguments(self.rate)
