"""Recurrent networks: with a projected input, as groups of steps, and bidirectional ones."""

from .. import layer as layers
from ..activation import Linear
from ..build import current


def simple_lstm(
    input,
    size,
    name=None,
    reverse=False,
    mat_param_attr=None,
    bias_param_attr=None,
    inner_param_attr=None,
    act=None,
    gate_act=None,
    state_act=None,
    mixed_layer_attr=None,
    lstm_cell_attr=None,
):
    """LSTM with its input projection: `lstm_transform_<name>` to 4 size columns, `lstmemory`."""
    name = name or current().next_name("lstm")
    attrs = mat_param_attr, False, mixed_layer_attr
    return layers.lstmemory(
        name=name,
        input=_projection(f"lstm_transform_{name}", input, 4 * size, *attrs),
        reverse=reverse,
        act=act,
        gate_act=gate_act,
        state_act=state_act,
        bias_attr=bias_param_attr,
        param_attr=inner_param_attr,
        layer_attr=lstm_cell_attr,
    )


def simple_gru2(
    input,
    size,
    name=None,
    reverse=False,
    mixed_param_attr=None,
    mixed_bias_attr=None,
    gru_param_attr=None,
    gru_bias_attr=None,
    act=None,
    gate_act=None,
    mixed_layer_attr=None,
    gru_cell_attr=None,
):
    """GRU with its input projection: `<name>_transform` to 3 size columns, `grumemory`."""
    name = name or current().next_name("simple_gru2")
    attrs = mixed_param_attr, mixed_bias_attr, mixed_layer_attr
    return layers.grumemory(
        name=name,
        input=_projection(f"{name}_transform", input, 3 * size, *attrs),
        reverse=reverse,
        bias_attr=gru_bias_attr,
        param_attr=gru_param_attr,
        act=act,
        gate_act=gate_act,
        layer_attr=gru_cell_attr,
    )


def simple_gru(
    input,
    size,
    name=None,
    reverse=False,
    mixed_param_attr=None,
    mixed_bias_param_attr=None,
    mixed_layer_attr=None,
    gru_bias_attr=None,
    gru_param_attr=None,
    act=None,
    gate_act=None,
    gru_layer_attr=None,
    naive=False,
):
    """GRU with its input projection, like `simple_gru2`, but as a recurrent group of `gru_step`."""
    name = name or current().next_name("simple_gru")
    attrs = mixed_param_attr, mixed_bias_param_attr, mixed_layer_attr
    return gru_group(
        name=name,
        size=size,
        input=_projection(f"{name}_transform", input, 3 * size, *attrs),
        reverse=reverse,
        gru_bias_attr=gru_bias_attr,
        gru_param_attr=gru_param_attr,
        act=act,
        gate_act=gate_act,
        gru_layer_attr=gru_layer_attr,
        naive=naive,
    )


def _projection(name, input, size, param_attr, bias_attr, layer_attr):
    return layers.mixed(
        name=name,
        size=size,
        input=layers.full_matrix_projection(input, param_attr=param_attr),
        bias_attr=bias_attr,
        layer_attr=layer_attr,
    )


# ---- groups of steps


def lstmemory_unit(
    input,
    out_memory=None,
    name=None,
    size=None,
    param_attr=None,
    act=None,
    gate_act=None,
    state_act=None,
    input_proj_bias_attr=None,
    input_proj_layer_attr=None,
    lstm_bias_attr=None,
    lstm_layer_attr=None,
):
    """One LSTM step for a recurrent group: `input` is [candidate, input, forget, output gate].

    The previous output is a memory of the layer `name`, or `out_memory`. The gates have a bias only
    with `input_proj_bias_attr`.
    """
    name = name or current().next_name("lstm_unit")
    size = size or input.size // 4
    previous = layers.memory(name=name, size=size) if out_memory is None else out_memory
    cell = layers.memory(name=f"{name}_state", size=size)
    gates = layers.mixed(
        name=f"{name}_input_recurrent",
        size=4 * size,
        bias_attr=input_proj_bias_attr,
        layer_attr=input_proj_layer_attr,
        input=[
            layers.identity_projection(input),
            layers.full_matrix_projection(previous, param_attr=param_attr),
        ],
    )
    out = layers.lstm_step(
        name=name,
        input=gates,
        state=cell,
        size=size,
        bias_attr=lstm_bias_attr,
        act=act,
        gate_act=gate_act,
        state_act=state_act,
        layer_attr=lstm_layer_attr,
    )
    layers.get_output(name=f"{name}_state", input=out, arg_name="state")
    return out


def lstmemory_group(
    input,
    size=None,
    name=None,
    out_memory=None,
    reverse=False,
    param_attr=None,
    act=None,
    gate_act=None,
    state_act=None,
    input_proj_bias_attr=None,
    input_proj_layer_attr=None,
    lstm_bias_attr=None,
    lstm_layer_attr=None,
):
    """LSTM as a recurrent group, `<name>_recurrent_group`, whose step is `lstmemory_unit`."""
    return _group(lstmemory_unit, "lstm_group", dict(locals()))


def gru_unit(
    input,
    memory_boot=None,
    size=None,
    name=None,
    gru_bias_attr=None,
    gru_param_attr=None,
    act=None,
    gate_act=None,
    gru_layer_attr=None,
    naive=False,
):
    """One GRU step for a recurrent group: `input` is [update gate, reset gate, candidate].

    The initial state is the layer `memory_boot`, zeros if None. `naive` composes the step of mixed
    layers.
    """
    name = name or current().next_name("gru_unit")
    size = size or input.size // 3
    previous = layers.memory(name=name, size=size, boot_layer=memory_boot)
    step = layers.gru_step_naive if naive else layers.gru_step
    return step(
        name=name,
        input=input,
        output_mem=previous,
        size=size,
        bias_attr=gru_bias_attr,
        param_attr=gru_param_attr,
        act=act,
        gate_act=gate_act,
        layer_attr=gru_layer_attr,
    )


def gru_group(
    input,
    memory_boot=None,
    size=None,
    name=None,
    reverse=False,
    gru_bias_attr=None,
    gru_param_attr=None,
    act=None,
    gate_act=None,
    gru_layer_attr=None,
    naive=False,
):
    """GRU as a recurrent group, `<name>_recurrent_group`, whose step is `gru_unit`."""
    return _group(gru_unit, "gru_group", dict(locals()))


def _group(unit, prefix, arguments):
    """Return a recurrent group of steps: the arguments of one, and `reverse`."""
    name = arguments["name"] or current().next_name(prefix)
    x, reverse = arguments.pop("input"), arguments.pop("reverse")
    return layers.recurrent_group(
        name=f"{name}_recurrent_group",
        step=lambda step: unit(**{**arguments, "input": step, "name": name}),
        input=x,
        reverse=reverse,
    )


# ---- both directions


def bidirectional_lstm(
    input,
    size,
    name=None,
    return_seq=False,
    fwd_mat_param_attr=None,
    fwd_bias_param_attr=None,
    fwd_inner_param_attr=None,
    fwd_act=None,
    fwd_gate_act=None,
    fwd_state_act=None,
    fwd_mixed_layer_attr=None,
    fwd_lstm_cell_attr=None,
    bwd_mat_param_attr=None,
    bwd_bias_param_attr=None,
    bwd_inner_param_attr=None,
    bwd_act=None,
    bwd_gate_act=None,
    bwd_state_act=None,
    bwd_mixed_layer_attr=None,
    bwd_lstm_cell_attr=None,
    last_seq_attr=None,
    first_seq_attr=None,
    concat_attr=None,
    concat_act=None,
):
    """Bidirectional `simple_lstm`, `<name>_fw` and `<name>_bw`, concatenated.

    With `return_seq` the result has a row per step; otherwise one per sequence: the last step of
    the forward direction and the first of the backward one.
    """
    return _bidirectional(simple_lstm, "bidirectional_lstm", locals())


def bidirectional_gru(
    input,
    size,
    name=None,
    return_seq=False,
    fwd_mixed_param_attr=None,
    fwd_mixed_bias_attr=None,
    fwd_gru_param_attr=None,
    fwd_gru_bias_attr=None,
    fwd_act=None,
    fwd_gate_act=None,
    fwd_mixed_layer_attr=None,
    fwd_gru_cell_attr=None,
    bwd_mixed_param_attr=None,
    bwd_mixed_bias_attr=None,
    bwd_gru_param_attr=None,
    bwd_gru_bias_attr=None,
    bwd_act=None,
    bwd_gate_act=None,
    bwd_mixed_layer_attr=None,
    bwd_gru_cell_attr=None,
    last_seq_attr=None,
    first_seq_attr=None,
    concat_attr=None,
    concat_act=None,
):
    """Bidirectional `simple_gru2`, concatenated as in `bidirectional_lstm`."""
    return _bidirectional(simple_gru2, "bidirectional_gru", locals())


def _bidirectional(network, prefix, arguments):
    """Concatenate both directions, or their last and first steps; each has its own arguments."""
    name = arguments["name"] or current().next_name(prefix)

    def direction(short, reverse):
        start = f"{short}d_"
        own = {k.removeprefix(start): v for k, v in arguments.items() if k.startswith(start)}
        both = {"input": arguments["input"], "size": arguments["size"], "reverse": reverse}
        return network(name=f"{name}_{short}", **both, **own)

    parts = [direction("fw", False), direction("bw", True)]
    if not arguments["return_seq"]:
        last, first = arguments["last_seq_attr"], arguments["first_seq_attr"]
        parts = [
            layers.last_seq(name=f"{name}_fw_last", input=parts[0], layer_attr=last),
            layers.first_seq(name=f"{name}_bw_last", input=parts[1], layer_attr=first),
        ]
    act, attr = arguments["concat_act"] or Linear(), arguments["concat_attr"]
    return layers.concat(name=name, input=parts, act=act, layer_attr=attr)
