"""Cells of recurrent networks: one step each, for the `scan` over a sequence.

The caller computes the input's part of the gates, bias included: one product over all tokens
instead of one a step. Gates are split before their activations: an activation of all of them takes
a bit less time, but its gradient joins those of the gates before it multiplies, in every step.
"""

from ..graph.errors import ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, static
from .activation import Activation, sigmoid, tanh
from .matrix import matmul
from .shape import split


@op
def lstm_cell(
    gates: Operand,
    c: Operand,
    peepholes: tuple[Operand, Operand, Operand] | None = None,
    act: Activation = tanh,
    gate_act: Activation = sigmoid,
    state_act: Activation = tanh,
) -> tuple[Variable, Variable]:
    """Compute a step of an LSTM (Hochreiter & Schmidhuber 1997): (h, new c), each [B, n].

    `gates` [B, 4n] are the pre-activations of candidate, input gate, forget gate and output gate,
    side by side, the recurrent part included. `peepholes` are the weights, each [n] or [1, n],
    from the cell state to input, forget and output gate (Gers et al. 2002).

    Args:
        gates: floats [B, 4n].
        c: floats [B, n].

    Returns:
        (h, c), each [B, n].

    Raises:
        ShapeError: the gates have not four times the columns of c.
    """
    gates, c = constant(gates), constant(c)
    n = _units(c, gates, 4, "gates")
    g, i, f, o = split(gates, [n] * 4, axis=1)
    if peepholes is None:
        c = act(g) * gate_act(i) + c * gate_act(f)
        return gate_act(o) * state_act(c), c
    weight_i, weight_f, weight_o = peepholes
    i, f = gate_act(i + c * weight_i), gate_act(f + c * weight_f)
    c = act(g) * i + c * f
    o = gate_act(o + c * weight_o)
    return o * state_act(c), c


@op
def gru_cell(
    x: Operand,
    h: Operand,
    gates: Operand,
    candidate: Operand,
    act: Activation = tanh,
    gate_act: Activation = sigmoid,
) -> Variable:
    """Compute a step of a GRU (Cho et al. 2014): the new h, [B, n].

    x [B, 3n] is the input's part of update gate z, reset gate r and candidate, side by side;
    `gates` [n, 2n] and `candidate` [n, n] are the recurrent weights. The new h is
    (1 - z) h + z candidate; papers differ in which of the two z multiplies.

    Args:
        x: floats [B, 3n].
        h: floats [B, n].
        gates: floats [n, 2n].
        candidate: floats [n, n].

    Returns:
        [B, n].

    Raises:
        ShapeError: x has not three times the columns of h.
    """
    x, h = constant(x), constant(h)
    n = _units(h, x, 3, "x")
    x, x_candidate = split(x, [2 * n, n], axis=1)
    z, r = split(matmul(h, gates) + x, [n, n], axis=1)
    new = act(matmul(gate_act(r) * h, candidate) + x_candidate)
    return h + gate_act(z) * (new - h)


@op
def gru_cell_reset_after(x: Operand, recurrent: Operand, h: Operand) -> Variable:
    """Compute a step of a GRU whose reset gate multiplies a product: the new h, [B, n].

    x and `recurrent`, each [B, 3n], are the parts of the input and of h in update gate z, reset
    gate r and candidate, side by side, with their biases; cuDNN's and PyTorch's variant, which
    needs one product a step. The new h is (1 - z) tanh(x + r recurrent) + z h.

    Args:
        x: floats [B, 3n].
        recurrent: floats [B, 3n].
        h: floats [B, n].

    Returns:
        [B, n].

    Raises:
        ShapeError: x or recurrent has not three times the columns of h.
    """
    x, recurrent, h = constant(x), constant(recurrent), constant(h)
    n = _units(h, x, 3, "x")
    x, x_candidate = split(x, [2 * n, n], axis=1)
    recurrent, h_candidate = split(recurrent, [2 * n, n], axis=1)
    z, r = split(x + recurrent, [n, n], axis=1)
    new = tanh(x_candidate + sigmoid(r) * h_candidate)
    return new + sigmoid(z) * (h - new)


def _units(state, x, parts, what):
    """Return the n of a state [B, n] whose input is [B, parts * n]."""
    if state.rank != 2 or x.rank != 2:
        raise ShapeError(f"takes a state [B, n] and {what} [B, {parts}n], not {state!r} and {x!r}")
    n = static(state.dims)[-1]
    if isinstance(x.dims[1], int) and x.dims[1] != parts * n:
        raise ShapeError(f"a state of {n} takes {what} of {parts * n} columns, not {x!r}")
    return n
