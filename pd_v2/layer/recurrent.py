"""Recurrent layers over whole sequences, and single steps for recurrent groups."""

import pd_core as pd

from .. import build
from ..activation import Base, Sigmoid, Tanh
from ..config_base import Layer
from .base import layer
from .mixed import dotmul_operator, full_matrix_projection, identity_projection, mixed

# Options that cells took until July 2017, and that have never had an effect on them.
_RECORDED = ("drop_rate", "error_clipping_threshold")


@layer("lstmemory", "lstmemory", Tanh, supports=("drop_rate",))
def lstmemory(
    scope,
    input,
    name=None,
    size=None,
    reverse=False,
    act=None,
    gate_act=None,
    state_act=None,
    bias_attr=None,
    param_attr=None,
    layer_attr=None,
):
    """LSTM with peepholes over sequences of rows [candidate, input, forget, output gate].

    The input is already multiplied by its weights and 4 `size` wide. The bias [1, 7 size] holds
    the biases of the four parts, then the peephole weights of the three gates. `act` applies to
    the candidate, `state_act` to the cell before the output gate. A `drop_rate` drops elements of
    the result, not of the state.
    """
    n = _share(input, size, 4)
    act, gate_act, state_act = _cell_activations(scope, act, gate_act, state_act)
    w = scope.weight(0, [n, 4 * n], param_attr, dims=[n, n, 4])
    bias, *peepholes = _parts(scope.bias([1, 7 * n], bias_attr), [4 * n, n, n, n])

    def step(state, x):
        h, c = state
        gates = pd.matmul(h, w) + x
        h, c = pd.lstm_cell(gates, c, _all_or_none(peepholes), act, gate_act, state_act)
        return [h, c], h

    bounded = gate_act.bounded and (act.bounded or state_act.bounded)
    return _scan(scope, step, 2, n, _plus(input, bias), reverse, bounded)


@layer("gated_recurrent", "gru", Tanh, supports=_RECORDED[:1])
def grumemory(
    scope,
    input,
    size=None,
    name=None,
    reverse=False,
    act=None,
    gate_act=None,
    bias_attr=None,
    param_attr=None,
    layer_attr=None,
):
    """GRU over sequences of rows [update gate, reset gate, candidate].

    The input is already multiplied by its weights and 3 `size` wide. As in 2017 a `drop_rate` is
    recorded and has no effect.
    """
    n = _share(input, size, 3)
    act, gate_act = _cell_activations(scope, act, gate_act)
    gates, candidate = _gru_weights(scope, n, param_attr)
    bias = scope.bias([1, 3 * n], bias_attr)

    def step(h, x):
        h = pd.gru_cell(x, h, gates, candidate, act, gate_act)
        return h, h

    bounded = gate_act.name == "sigmoid" and act.bounded
    return _scan(scope, step, 1, n, _plus(input, bias), reverse, bounded)


@layer("recurrent", "recurrent_layer", Tanh)
def recurrent(
    scope,
    input,
    act=None,
    bias_attr=None,
    param_attr=None,
    name=None,
    reverse=False,
    layer_attr=None,
):
    """Plain recurrent layer: h_t = act(x_t + h_(t-1) W + b) over each sequence."""
    w = scope.weight(0, [input.size, input.size], param_attr)
    bias = scope.bias([1, input.size], bias_attr)
    scope.acted = True

    def step(h, x):
        h = act(pd.matmul(h, w) + x)
        return h, h

    return _scan(scope, step, 1, input.size, _plus(input, bias), reverse, act.bounded)


@layer(
    "lstm_step",
    "lstm_step",
    Tanh,
    inputs=("input", "state"),
    supports=_RECORDED,
    rows=("input", "state"),
)
def lstm_step(
    scope,
    input,
    state,
    size=None,
    act=None,
    name=None,
    gate_act=None,
    state_act=None,
    bias_attr=None,
    layer_attr=None,
):
    """One step of `lstmemory`, for a recurrent group: `state` is the previous cell.

    The input also holds the previous output times its weights. The bias [1, 3 size] holds the
    peephole weights. The new cell is the output "state", see `get_output`.
    """
    n = _share(input, size or state.size, 4)
    _check_state(state, n)
    act, gate_act, state_act = _cell_activations(scope, act, gate_act, state_act)
    peepholes = _parts(scope.bias([1, 3 * n], bias_attr), [n, n, n])
    h, c = pd.lstm_cell(input, state, _all_or_none(peepholes), act, gate_act, state_act)
    scope.outputs["state"] = c
    return h


@layer("gru_step", "gru_step", Tanh, inputs=("input", "output_mem"), rows=("input", "output_mem"))
def gru_step(
    scope,
    input,
    output_mem,
    size=None,
    act=None,
    name=None,
    gate_act=None,
    bias_attr=None,
    param_attr=None,
    layer_attr=None,
):
    """One step of `grumemory`, for a recurrent group: `output_mem` is the previous output."""
    n = _share(input, size, 3)
    _check_state(output_mem, n)
    act, gate_act = _cell_activations(scope, act, gate_act)
    gates, candidate = _gru_weights(scope, n, param_attr)
    bias = scope.bias([1, 3 * n], bias_attr)
    return pd.gru_cell(_plus(input, bias), output_mem, gates, candidate, act, gate_act)


def gru_step_naive(
    input,
    output_mem,
    size=None,
    name=None,
    act=None,
    gate_act=None,
    bias_attr=None,
    param_attr=None,
    layer_attr=None,
):
    """`gru_step` composed of mixed layers, which have a weight and a bias each.

    They are `<name>_update`, `<name>_reset`, `<name>_reset_output`, `<name>_output_candidate` and
    the result, which takes `layer_attr`.
    """
    name = name or build.current().next_name("gru_step_naive")
    n = _share(input, size, 3)
    for attr in (param_attr, bias_attr):
        if attr not in (None, True, False) and "parameter_name" in attr.attr:
            raise pd.GraphError(f"gru_step_naive {name!r}: one named parameter cannot serve thrice")

    def part(suffix, block, state, act):
        return mixed(
            name=f"{name}_{suffix}",
            size=n,
            act=act,
            bias_attr=True if bias_attr is None else bias_attr,
            input=[
                identity_projection(input, offset=block * n),
                full_matrix_projection(state, param_attr=param_attr),
            ],
        )

    update = part("update", 0, output_mem, gate_act or Sigmoid())
    reset = part("reset", 1, output_mem, gate_act or Sigmoid())
    reset_state = mixed(name=f"{name}_reset_output", input=dotmul_operator(a=output_mem, b=reset))
    candidate = part("output_candidate", 2, reset_state, act or Tanh())
    return mixed(
        name=name,
        layer_attr=layer_attr,
        input=[
            identity_projection(output_mem),
            dotmul_operator(a=output_mem, b=update, scale=-1.0),
            dotmul_operator(a=candidate, b=update),
        ],
    )


@layer("get_output", "get_output_layer", rows=())
def get_output(scope, input, arg_name, name=None, layer_attr=None):
    """Return one of the outputs of a layer, by its name in `Layer.outputs`."""
    if arg_name not in input.outputs:
        names = ", ".join(map(repr, input.outputs))
        raise pd.GraphError(f"{input.name!r} has no output {arg_name!r}, only {names}")
    scope.config.inputs[0].input_layer_argument = arg_name
    return input if arg_name == "default" else input.results[arg_name]


def _scan(scope, step, states, size, rows, reverse, bounded):
    """Run step(states, row) along each sequence, from `states` zero states [B, size].

    With `bounded`, no state grows without limit, whatever the weights; then steps beyond the end of
    a sequence need not be masked.
    """
    sequences = scope.inputs[0].sequences
    if sequences is None:
        raise pd.GraphError(f"{scope.inputs[0].name!r} is no sequence")
    scope.reverse = scope.config.reversed = bool(reverse)
    init = sequences.zeros(size)
    init = init if states == 1 else [init] * states
    if bounded:
        return pd.scan_bounded(sequences, step, init, rows, reverse)
    return sequences.scan(step, init, rows, reverse)[1]


def _plus(x, bias):
    return x if bias is None else x + bias


def _share(input, size, parts):
    """Return the width of a layer whose input has `parts` columns for each of the layer's."""
    if not isinstance(input, Layer):
        raise TypeError(f"the input is a layer, not {input!r}")
    if input.size % parts or size not in (None, 0, input.size // parts):
        expected = f"{parts} times a size" if not size else f"{parts} x {size}"
        raise pd.ShapeError(f"{input.name!r} is {input.size} wide, not {expected}")
    return input.size // parts


def _check_state(state, size):
    if state.size != size:
        raise pd.ShapeError(f"the state {state.name!r} is {state.size} wide, the layer {size}")


def _cell_activations(scope, act, gate_act, *state_act):
    """Return the activations of a cell, with defaults, and record them."""
    activations = [act, gate_act or Sigmoid(), *(f or Tanh() for f in state_act)]
    for f in activations:
        if not isinstance(f, Base) or not f.support_hppl:
            raise pd.GraphError(f"a cell's activation is Tanh(), Sigmoid() or Relu(), not {f!r}")
    scope.acted = True
    scope.config.active_gate_type = activations[1].name
    if state_act:
        scope.config.active_state_type = activations[2].name
    return activations


def _all_or_none(peepholes):
    return peepholes if all(p is not None for p in peepholes) else None


def _parts(bias, sizes):
    """Split a bias; all parts are None without one."""
    return [None] * len(sizes) if bias is None else pd.split(bias, sizes, axis=1)


def _gru_weights(scope, n, attr):
    """Return the weights [n, 2n] of the gates and [n, n] of the candidate.

    As in 2017 they are stored one after the other in a parameter [n, 3n].
    """
    flat = pd.reshape(scope.weight(0, [n, 3 * n], attr), [-1])
    gates, candidate = pd.split(flat, [2 * n * n, n * n])
    return pd.reshape(gates, [n, 2 * n]), pd.reshape(candidate, [n, n])
