"""Layers that regularize in training only."""

from typing import Literal

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


class StochasticDepth(Layer):
    """Zero whole rows of x [N, ...] with probability `rate` in training: `pd.stochastic_depth`.

    It stands at the end of a branch with a residual (Huang et al. 2016; DropPath).
    """

    def __init__(
        self, rate: float, mode: Literal["row", "batch"] = "row", name: str | None = None
    ) -> None:
        super().__init__(name)
        if not 0 <= rate < 1:
            raise ValueError(f"StochasticDepth: the rate is within [0, 1), not {rate}")
        if mode not in ("row", "batch"):
            raise ValueError(f'StochasticDepth: the mode is "row" or "batch", not {mode!r}')
        self.rate, self.mode = rate, mode

    def forward(self, x: Operand) -> Variable:
        """Return x with rows dropped in training; x itself otherwise."""
        return ops.stochastic_depth(x, self.rate, self.mode)

    def extra(self) -> str:
        """Return the rate, and what is not the default."""
        return arguments(self.rate, mode=(self.mode, "row"))
