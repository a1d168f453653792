"""Recurrent layers."""

from collections.abc import Sequence
from typing import Any

from ..graph.errors import GraphError
from ..graph.initializers import Initial, initializer
from ..graph.variable import Operand, Variable
from . import functional_recurrent as functional
from .layer import Layer
from .recurrence import DIRECTIONS


class _Recurrent(Layer):
    """Base of the recurrent layers: `num_layers` of them, in one or both directions.

    The parameters of the first are W_l0, R_l0 and B_l0, backwards W_l0_reverse, …: see `pd.lstm`.
    They begin as `kernel_init`, `recurrent_init` and `bias_init` say, in all layers and directions;
    with `bias` False there are no B.
    """

    def __init__(
        self,
        hidden: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        kernel_init: Initial = None,
        recurrent_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if hidden < 1 or num_layers < 1:
            raise GraphError(
                f"{type(self).__name__}: hidden and num_layers are positive, "
                f"not {hidden} and {num_layers}"
            )
        self.hidden, self.num_layers = hidden, num_layers
        self.bidirectional, self.dropout = bidirectional, dropout
        self.kernel_init, self.recurrent_init = (
            initializer(kernel_init),
            initializer(recurrent_init),
        )
        self.bias_init, self.has_bias = initializer(bias_init), bias

    def _arguments(self) -> dict[str, Any]:
        """Return what the function of the layer takes besides x, state and lengths."""
        parts = [
            f"l{k}{direction}"
            for k in range(self.num_layers)
            for direction in DIRECTIONS[: 1 + self.bidirectional]
        ]
        inits = {"W": self.kernel_init, "R": self.recurrent_init, "B": self.bias_init}
        inits |= self._more_inits()
        owned: dict[str, Any] = {
            k: [self.owned(f"{k}_{part}", f) for part in parts] for k, f in inits.items()
        }
        if not self.has_bias:
            owned["B"] = False
        sizes = {"num_layers": self.num_layers, "bidirectional": self.bidirectional}
        return {"hidden": self.hidden, "dropout": self.dropout, **sizes, **owned}

    def _more_inits(self) -> dict[str, Any]:
        """Return the initial values of what only some of these layers have."""
        return {}

    def extra(self) -> str:
        """Return the sizes."""
        text = f"{self.hidden}, num_layers={self.num_layers}"
        text += ", bidirectional=True" if self.bidirectional else ""
        text += f", dropout={self.dropout}" if self.dropout else ""
        return text + ("" if self.has_bias else ", bias=False")


class RNN(_Recurrent):
    """Recurrent layers h := act(x W + h R + b), with tanh or relu (Elman 1990)."""

    def __init__(
        self,
        hidden: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        act: str = "tanh",
        kernel_init: Initial = None,
        recurrent_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(
            hidden,
            num_layers=num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            kernel_init=kernel_init,
            recurrent_init=recurrent_init,
            bias_init=bias_init,
            bias=bias,
            name=name,
        )
        self.act = act

    def forward(
        self, x: Operand, state: Operand | None = None, lengths: Operand | None = None
    ) -> tuple[Variable, Variable]:
        """Return outputs [B, T, D H] of x [B, T, F], and the final h [L D, B, H]."""
        options = {"act": self.act, **self._arguments()}
        return functional.simple_rnn(x, state=state, lengths=lengths, **options)


class LSTM(_Recurrent):
    """LSTM layers (Hochreiter & Schmidhuber 1997).

    With `proj_size` P h is a product with P_l0 [H, P], which begins as `kernel_init` says: outputs
    are [B, T, D P], and R_l0 has P rows (Sak et al. 2014).
    """

    def __init__(
        self,
        hidden: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        proj_size: int = 0,
        kernel_init: Initial = None,
        recurrent_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(
            hidden,
            num_layers=num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            kernel_init=kernel_init,
            recurrent_init=recurrent_init,
            bias_init=bias_init,
            bias=bias,
            name=name,
        )
        functional.check_projection("LSTM", proj_size, hidden)
        self.proj_size = proj_size

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "proj_size": self.proj_size}

    def _more_inits(self) -> dict[str, Any]:
        return {"P": self.kernel_init} if self.proj_size else {}

    def extra(self) -> str:
        """Return the sizes."""
        return super().extra() + (f", proj_size={self.proj_size}" if self.proj_size else "")

    def forward(
        self, x: Operand, state: Sequence[Operand] | None = None, lengths: Operand | None = None
    ) -> tuple[Variable, tuple[Variable, Variable]]:
        """Return outputs [B, T, D H] of x [B, T, F], and the final (h, c), [L D, B, H] each."""
        return functional.lstm(x, state=state, lengths=lengths, **self._arguments())


class GRU(_Recurrent):
    """GRU layers (Cho et al. 2014) whose reset gate acts after the product."""

    def forward(
        self, x: Operand, state: Operand | None = None, lengths: Operand | None = None
    ) -> tuple[Variable, Variable]:
        """Return outputs [B, T, D H] of x [B, T, F], and the final h [L D, B, H]."""
        return functional.gru(x, state=state, lengths=lengths, **self._arguments())
