"""Stacked recurrent layers (`nn/recurrence.py`) as ONNX's RNN, GRU and LSTM."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.variable import Variable, constant

# The order of our blocks of columns in ONNX's rows: input, output, forget gate and candidate of an
# LSTM, whose order here is candidate, input, forget, output; update, reset gate and candidate of a
# GRU in both.
_ORDERS = {"RNN": (0,), "GRU": (0, 1, 2), "LSTM": (1, 3, 2, 0)}
_STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}


def recurrent(node: Node, inputs: Sequence[Any]) -> Sequence[Variable]:
    """Return the outputs [B, T, D H] and final states [L D, B, H] of L layers in D directions.

    The inputs are x [B, T, F], lengths [B] or None, the initial states or Nones, and W, R, B of
    each layer and direction.
    """
    a = node.attributes
    layers, directions, states = a["layers"], a["directions"], _STATES[a["form"]]
    x, lengths, *rest = inputs
    initial, weights = rest[:states], rest[states:]
    lengths = None if lengths is None else ops.cast(lengths, np.int32)
    given = [_split(s, layers, directions) for s in initial]
    rows, finals = ops.transpose(x, [1, 0, 2]), []
    for layer in range(layers):
        first = 3 * layer * directions
        parts = weights[first : first + 3 * directions]
        y, *ends = _layer(a, rows, lengths, [g[layer] for g in given], parts)
        finals.append(_kept_without_steps(ends, [g[layer] for g in given], lengths))
        y = ops.transpose(y, [0, 2, 1, 3]) if directions > 1 else y
        rows = (
            apply("Reshape", y, np.array([0, 0, directions * a["hidden"]], np.int64))
            if directions > 1
            else ops.squeeze(y, [1])
        )
    outputs = [ops.transpose(rows, [1, 0, 2])]
    outputs += [
        ops.concat(each, 0) if layers > 1 else each[0] for each in zip(*finals, strict=True)
    ]
    return [refined(y, old.dims) for y, old in zip(outputs, node.outputs, strict=True)]


def _kept_without_steps(ends, initial, lengths):
    """The final states, where a sequence without steps has its initial one.

    ONNX Runtime gives zeros for it.
    """
    if lengths is None or initial[0] is None:
        return ends
    ran = ops.unsqueeze(lengths > 0, [0, 2])
    return [ops.where(ran, end, first) for end, first in zip(ends, initial, strict=True)]


def _split(state, layers, directions):
    """The initial state of each layer, [D, B, H]."""
    if state is None or layers == 1:
        return [state] * layers
    return ops.split(state, [directions] * layers)


def _layer(a, rows, lengths, initial, parts):
    """The outputs of one operator: Y [T, D, B, H], Y_h and Y_c [D, B, H]."""
    form, hidden, directions = a["form"], a["hidden"], a["directions"]
    order = _ORDERS[form]
    w, r = (_stacked([_rows(p, order, hidden) for p in parts[k::3]]) for k in (0, 1))
    biases = [_bias(p, form, order, hidden) for p in parts[2::3]]
    b = None if biases[0] is None else _stacked(biases)
    options: dict[str, Any] = {"hidden_size": hidden}
    if directions > 1:
        options["direction"] = "bidirectional"
    if form == "GRU":
        options["linear_before_reset"] = 1
    if a.get("act", "tanh") != "tanh":
        options["activations"] = [a["act"].capitalize()] * directions
    inputs = [rows, w, r, b, lengths, *initial]
    while inputs[-1] is None:
        inputs.pop()
    return apply(form, *inputs, outputs=1 + _STATES[form], **options)


def _stacked(parts):
    """[D, ...] of the parts of the directions."""
    return ops.concat([ops.unsqueeze(p, 0) for p in parts], 0)


def _blocks(x, count, hidden, axis):
    return [x] if count == 1 else list(ops.split(x, [hidden] * count, axis=axis))


def _rows(weight, order, hidden):
    """The weight [F, gates H] as [gates H, F], in ONNX's order of gates."""
    blocks = _blocks(weight, len(order), hidden, 1)
    ordered = [blocks[k] for k in order]
    return ops.transpose(ordered[0] if len(order) == 1 else ops.concat(ordered, 1), [1, 0])


def _bias(b, form, order, hidden):
    """The biases of the products with the input, then of those with the state: [2 gates H].

    Only a GRU has one of the second kind here, that of its candidate.
    """
    if b is None:
        return None
    blocks = _blocks(b, len(order) + (form == "GRU"), hidden, 0)
    ours = [blocks[k] for k in order]
    zeros = constant(np.zeros(hidden), b.dtype)
    inner = [zeros, zeros, blocks[3]] if form == "GRU" else [zeros] * len(order)
    return ops.concat([*ours, *inner], 0)
