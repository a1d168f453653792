"""Stacked recurrent layers, in one or both directions, over padded batches [B, T, F].

A layer is a loop over time; the products with the input are computed before it for all steps. With
lengths it runs on the tokens alone, by `scan_bounded` where that is possible. Not ONNX's LSTM and
GRU: their gradients compute the forward pass again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import ops
from ..graph.checks import whole
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.node import refined
from ..graph.recording import as_number
from ..graph.variable import Operand, Variable, constant, describe, static
from ..ops.onnx_form import onnx_form

Create = Callable[[str, list[int]], Variable]  # the parameter of this name, in this shape
Step = Callable[[list[Variable], Variable], list[Variable]]  # (states, row of gates) -> states
Result = tuple[Variable, tuple[Variable, ...]]  # outputs [B, T, D H]; final states [L D, B, H]


@dataclass(frozen=True)
class Cell:
    """What distinguishes recurrent layers.

    Input and recurrent weights have `gates` H columns, the bias `biases` H elements.
    `form` is ONNX's operator, `act` its activation where that can be chosen.
    `step(R, b)` returns the bias of the input's products and a step; `bounded` says that states
    stay finite on any input.
    """

    form: str
    gates: int
    biases: int
    states: int
    bounded: bool
    step: Callable[[Variable, Variable | None], tuple[Variable | None, Step]]
    act: str | None = None


def rnn_cell(act: str = "tanh") -> Cell:
    """Return the cell h := act(x W + h R + b), with the activation tanh or relu (Elman 1990)."""
    functions = {"tanh": ops.tanh, "relu": ops.relu}
    if act not in functions:
        raise GraphError(f"the activation is tanh or relu, not {act!r}")

    def step(r, bias):
        return bias, lambda states, x: [functions[act](x + states[0] @ r)]

    return Cell("RNN", 1, 1, 1, act == "tanh", step, act)


def _lstm_step(r, bias):
    return bias, lambda states, x: list(ops.lstm_cell(x + states[0] @ r, states[1]))


def _gru_step(r, bias):
    if bias is None:
        return None, lambda states, x: [ops.gru_cell_reset_after(x, states[0] @ r, states[0])]
    n = r.dims[0]
    bias, candidate = ops.split(bias, [3 * n, n])
    inner = ops.concat([constant(np.zeros(2 * n), r.dtype), candidate])
    return bias, lambda states, x: [ops.gru_cell_reset_after(x, states[0] @ r + inner, states[0])]


DIRECTIONS = ("", "_reverse")  # in the names of parameters
LSTM_CELL = Cell("LSTM", 4, 4, 2, True, _lstm_step)
GRU_CELL = Cell("GRU", 3, 4, 1, True, _gru_step)


def stacked(
    cell: Cell,
    create: Create,
    x: Operand,
    hidden: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    state: Operand | Sequence[Operand] | None = None,
    lengths: Operand | None = None,
    bias: bool = True,
    projected: int = 0,
) -> Result:
    """Run L = `num_layers` layers in D directions over x: outputs [B, T, D H], final states.

    Each state is [L D, B, H], in the order of PyTorch: both directions of the first layer first;
    zeros if none is given. A sequence ends at its length, int [B], 0 … T: outputs beyond are zero,
    the final states are those at the end, and the backward direction begins there. On a CPU other
    lengths are errors. The outputs of a layer go through `dropout` before the next one.

    `create(name, shape)` makes W_l0 [F, gates H], R_l0 [H, gates H] and B_l0; those of the
    backward direction are called W_l0_reverse, and so on. With `projected` P the first state, which
    is the output, is a product with P_l0 [H, P] (Sak et al. 2014): R_l0 is [P, gates H].
    """
    x = constant(x)
    if x.rank != 3 or not isinstance(x.dims[2], int):
        raise ShapeError(f"takes sequences [B, T, F] with known F, not {describe(x)}")
    directions = DIRECTIONS[: 1 + bidirectional]
    width = projected or hidden  # of the output
    widths = [width] + [hidden] * (cell.states - 1)
    given = _initial(state, num_layers * len(directions), widths)
    time = _Steps(x) if lengths is None else _Tokens(x, constant(lengths))
    rows = time.rows
    finals: list[list[Variable]] = []
    weights: list[Variable | None] = []
    for layer in range(num_layers):
        outputs = []
        for reverse, direction in enumerate(directions):
            name = f"l{layer}{direction}"
            w = create(f"W_{name}", [static(rows.dims[-1:])[0], cell.gates * hidden])
            r = create(f"R_{name}", [width, cell.gates * hidden])
            b = create(f"B_{name}", [cell.biases * hidden]) if bias else None
            weights += [w, r, b]
            b, step = cell.step(r, b)
            if projected:
                step = _projecting(step, create(f"P_{name}", [hidden, projected]))
            gates = rows @ w if b is None else rows @ w + b
            init = given[len(finals)] if given else [time.zeros(n) for n in widths]
            y, final = time.run(step, init, gates, bool(reverse), cell.bounded)
            outputs.append(y)
            finals.append(final)
        rows = outputs[0] if len(outputs) == 1 else ops.concat(outputs, rows.rank - 1)
        rows = ops.dropout(rows, dropout) if layer + 1 < num_layers else rows
    joined = [
        ops.concat([ops.unsqueeze(s, 0) for s in states]) for states in zip(*finals, strict=True)
    ]
    results = [time.padded(rows), *joined]
    if x.dtype == np.float32 and not projected:  # what ONNX Runtime's operators have
        states = [None] * cell.states if state is None else _as_list(state)
        form = {"layers": num_layers, "directions": len(directions), "act": cell.act}
        inputs = [x, lengths, *states, *weights]
        results = onnx_form(cell.form, results, *inputs, hidden=hidden, **form)
    return results[0], tuple(results[1:])


def _projecting(step: Step, p: Variable) -> Step:
    """A step whose first state is multiplied by p."""

    def projecting(states, x):
        first, *others = step(states, x)
        return [first @ p, *others]

    return projecting


def _as_list(state):
    return list(state) if isinstance(state, (list, tuple)) else [state]


def _initial(state, count, widths):
    """Return the initial states of each layer and direction, [B, width] each; None for zeros."""
    if state is None:
        return None
    states = [constant(s) for s in _as_list(state)]
    if len(states) != len(widths):
        raise GraphError(f"there are {len(widths)} initial states, not {len(states)}")
    for s, width in zip(states, widths, strict=True):
        if s.rank != 3 or (s.dims[0], s.dims[2]) != (count, width):
            raise ShapeError(f"an initial state is [{count}, B, {width}], not {describe(s)}")
    parts = [ops.split(s, [1] * count) for s in states]
    rows = [[ops.squeeze(p, [0]) for p in part] for part in parts]
    return [list(each) for each in zip(*rows, strict=True)]


class _Steps:
    """Sequences of one length: rows are [T, B, F]."""

    def __init__(self, x):
        self.rows, self.batch = ops.transpose(x, [1, 0, 2]), x.dims[0]

    def zeros(self, width):
        sizes = ops.concat([ops.size_of(self.rows, 1), whole([width])])
        return refined(ops.expand(constant(0, self.rows.dtype), sizes), (self.batch, width))

    def run(self, step, init, gates, reverse, bounded):
        def body(states, row):
            new = step(states, row)
            return new, new[0]

        final, y = ops.scan(body, init, gates, reverse)
        return y, final

    def padded(self, y):
        return ops.transpose(y, [1, 0, 2])


class _Tokens:
    """Sequences of different lengths: rows are the tokens of all of them back to back, [N, F]."""

    def __init__(self, x, lengths):
        if lengths.rank != 1 or lengths.dtype.kind not in "iu":
            raise DTypeError(f"lengths are integers [B], not {describe(lengths)}")
        sequences, count = as_number(x.dims[0]), as_number(lengths.dims[0])
        if sequences is not None and count is not None and sequences != count:
            raise ShapeError(f"{sequences} sequences, but {count} lengths")
        lengths, limit = ops.cast(lengths, np.int64), ops.size_of(x, 1) + 1
        # a length that is not 0 … T is an index where CPUs refuse to read
        index = ops.where(lengths < 0, limit, lengths)
        self.sequences = ops.Segments(ops.gather(ops.arange(limit), index))
        self.sequences.longest = ops.size_of(x, 1)
        self.dims, self.dtype = x.dims[:2], x.dtype
        self.rows = self.sequences.pack(x, whole=True)

    def zeros(self, width):
        return self.sequences.zeros(width, dtype=self.dtype)

    def run(self, step, init, gates, reverse, bounded):
        def body(states, row):
            new = step(states, row)
            return new, new

        if not bounded:
            final, every = self.sequences.scan(body, init, gates, reverse)
            return every[0], final
        every = ops.scan_bounded(self.sequences, body, init, gates, reverse)
        end = self.sequences.first if reverse else self.sequences.last
        ran = ops.unsqueeze(self.sequences.lengths > 0, 1)
        return every[0], [ops.where(ran, end(y), s) for y, s in zip(every, init, strict=True)]

    def padded(self, y):
        return refined(self.sequences.pad(y), (*self.dims, *y.dims[1:]))
