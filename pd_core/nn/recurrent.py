"""Recurrent layers."""

from collections.abc import Sequence

from ..graph.variable import Operand, Variable
from .layer import Layer
from .recurrence import GRU_CELL, LSTM_CELL, Cell, Result, rnn_cell, stacked


class _Recurrent(Layer):
    """Base of the recurrent layers: `num_layers` of them, in one or both directions.

    The parameters of the first are W_l0, R_l0 and B_l0, backwards W_l0_reverse, …: see `pd.lstm`.
    """

    _cell: Cell

    def __init__(
        self,
        hidden: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.hidden, self.num_layers = hidden, num_layers
        self.bidirectional, self.dropout = bidirectional, dropout

    def _run(self, x, state, lengths) -> Result:
        sizes = (self.hidden, self.num_layers, self.bidirectional, self.dropout)
        return stacked(self._cell, self.parameter, x, *sizes, state, lengths)

    def extra(self) -> str:
        """Return the sizes."""
        text = f"{self.hidden}, num_layers={self.num_layers}"
        text += ", bidirectional=True" if self.bidirectional else ""
        return text + (f", dropout={self.dropout}" if self.dropout else "")


class RNN(_Recurrent):
    """Recurrent layers h := act(x W + h R + b), with tanh or relu (Elman 1990)."""

    def __init__(
        self,
        hidden: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        act: str = "tanh",
        name: str | None = None,
    ) -> None:
        super().__init__(hidden, num_layers, bidirectional, dropout, name)
        self._cell = rnn_cell(act)

    def forward(
        self, x: Operand, state: Operand | None = None, lengths: Operand | None = None
    ) -> tuple[Variable, Variable]:
        """Return outputs [B, T, D H] of x [B, T, F], and the final h [L D, B, H]."""
        y, (h,) = self._run(x, state, lengths)
        return y, h


class LSTM(_Recurrent):
    """LSTM layers (Hochreiter & Schmidhuber 1997)."""

    _cell = LSTM_CELL

    def forward(
        self, x: Operand, state: Sequence[Operand] | None = None, lengths: Operand | None = None
    ) -> tuple[Variable, tuple[Variable, Variable]]:
        """Return outputs [B, T, D H] of x [B, T, F], and the final (h, c), [L D, B, H] each."""
        y, (h, c) = self._run(x, state, lengths)
        return y, (h, c)


class GRU(_Recurrent):
    """GRU layers (Cho et al. 2014) whose reset gate acts after the product."""

    _cell = GRU_CELL

    def forward(
        self, x: Operand, state: Operand | None = None, lengths: Operand | None = None
    ) -> tuple[Variable, Variable]:
        """Return outputs [B, T, D H] of x [B, T, F], and the final h [L D, B, H]."""
        y, (h,) = self._run(x, state, lengths)
        return y, h
