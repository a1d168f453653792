"""Recurrent layers as functions, over batches [B, T, F] of sequences.

They return the outputs of the last layer, [B, T, D H], where D is 2 if bidirectional, and the final
states of all L layers, [L D, B, H], both directions of the first layer first, as in PyTorch.
`state` is the initial one, zeros by default. A sequence ends at its length, `lengths` int [B]:
later outputs are zero, the final states are those at the end, and the backward direction begins
there. `dropout` applies to the outputs of each layer but the last.

`W`, `R` and `B` choose the input weights [F, gates H], the recurrent weights [H, gates H] and the
biases. Each is what `W` and `B` of other layers are, for all layers and directions, or a list of
those in the order W_l0, W_l0_reverse, W_l1, …
"""

from collections.abc import Sequence
from typing import Any

from ..graph.errors import GraphError
from ..graph.op import op
from ..graph.variable import Operand, Variable
from ..graph.whole import whole
from .parameter import Bias, Parameter, dtype_for, layer_name, parameter
from .recurrence import GRU_CELL, LSTM_CELL, Create, rnn_cell, stacked

Parameters = Parameter | Sequence[Parameter]
Biases = Bias | Sequence[Bias]


@op
@whole
def simple_rnn(
    x: Operand,
    hidden: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    state: Operand | None = None,
    lengths: Operand | None = None,
    act: str = "tanh",
    W: Parameters = None,
    R: Parameters = None,
    B: Biases = None,
) -> tuple[Variable, Variable]:
    """Recurrent layers h := act(x W + h R + b) with tanh or relu (Elman 1990): (outputs, h).

    Args:
        x: floats [B, T, F] of a known F.
        hidden: the number H of units.
        state: floats [layers directions, B, H], zeros by default.
        lengths: integers [B].

    Returns:
        ([B, T, directions H], the last state).

    Raises:
        ShapeError: x is no batch of sequences.
    """
    create = _creator(x, "simple_rnn_", W, R, B, num_layers * (1 + bidirectional))
    sizes = (hidden, num_layers, bidirectional, dropout)
    y, (h,) = stacked(rnn_cell(act), create, x, *sizes, state, lengths, B is not False)
    return y, h


@op
@whole
def lstm(
    x: Operand,
    hidden: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    state: Sequence[Operand] | None = None,
    lengths: Operand | None = None,
    W: Parameters = None,
    R: Parameters = None,
    B: Biases = None,
    P: Parameters = None,
    proj_size: int = 0,
) -> tuple[Variable, tuple[Variable, Variable]]:
    """LSTM layers (Hochreiter & Schmidhuber 1997): (outputs, (h, c)).

    Columns of W, R and B [4 H] are candidate, input gate, forget gate and output gate. With
    `proj_size` h and the outputs are products with P [H, proj_size] (Sak et al. 2014): that many
    columns in the place of H, and rows of R.

    Args:
        x: floats [B, T, F] of a known F.
        hidden: the number H of units.
        state: (h, c), floats [layers directions, B, H] each, zeros by default.
        lengths: integers [B].
        proj_size: the width of h, below H; 0 for that of c.

    Returns:
        ([B, T, directions H], (h, c)).

    Raises:
        GraphError: there are more or fewer parameters than layers and directions, or the
            projection is not narrower than H.
        ShapeError: x is no batch of sequences.
    """
    check_projection("lstm", proj_size, hidden)
    create = _creator(x, "lstm_", W, R, B, num_layers * (1 + bidirectional), P)
    sizes = (hidden, num_layers, bidirectional, dropout)
    y, (h, c) = stacked(LSTM_CELL, create, x, *sizes, state, lengths, B is not False, proj_size)
    return y, (h, c)


@op
@whole
def gru(
    x: Operand,
    hidden: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    state: Operand | None = None,
    lengths: Operand | None = None,
    W: Parameters = None,
    R: Parameters = None,
    B: Biases = None,
) -> tuple[Variable, Variable]:
    """GRU layers (Cho et al. 2014) whose reset gate acts after the product: (outputs, h).

    Columns of W and R are update gate, reset gate and candidate. B [4 H] holds the biases of these
    and of the product with R in the candidate.

    Args:
        x: floats [B, T, F] of a known F.
        hidden: the number H of units.
        state: floats [layers directions, B, H], zeros by default.
        lengths: integers [B].

    Returns:
        ([B, T, directions H], the last state).

    Raises:
        GraphError: there are more or fewer parameters than layers and directions.
        ShapeError: x is no batch of sequences.
    """
    create = _creator(x, "gru_", W, R, B, num_layers * (1 + bidirectional))
    sizes = (hidden, num_layers, bidirectional, dropout)
    y, (h,) = stacked(GRU_CELL, create, x, *sizes, state, lengths, B is not False)
    return y, h


def check_projection(who: str, proj_size: int, hidden: int) -> None:
    """Raise a GraphError unless the projection is narrower than the state, or 0."""
    if not 0 <= proj_size < hidden:
        raise GraphError(f"{who}: proj_size is below hidden, {hidden}, not {proj_size}")


def _creator(x: Operand, prefix: str, W: Any, R: Any, B: Any, count: int, P: Any = None) -> Create:
    """Return a function that creates parameters in their order, as W, R, B and P say."""
    specs = {"W": W, "R": R, "B": B, "P": P}
    for key, spec in specs.items():
        if isinstance(spec, (list, tuple)) and len(spec) != count:
            raise GraphError(f"{key} has {len(spec)} parts for {count} layers and directions")
    parts = {k: iter(s if isinstance(s, (list, tuple)) else [s] * count) for k, s in specs.items()}
    layer = layer_name(prefix, W[0] if isinstance(W, (list, tuple)) else W)

    def create(name, shape):
        return parameter(next(parts[name[0]]), f"{layer}.{name}", shape, dtype_for(x))

    return create
