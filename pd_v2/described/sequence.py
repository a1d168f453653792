"""Layers of sequences, and recurrent layers with their single steps."""

from ..layer import (
    AggregateLevel,
    expand,
    first_seq,
    get_output,
    gru_step,
    grumemory,
    kmax_seq_score,
    last_seq,
    lstm_step,
    lstmemory,
    pooling,
    recurrent,
    row_conv,
    seq_concat,
    seq_reshape,
    seq_slice,
    sub_nested_seq,
    sub_seq,
)
from ..pooling import Avg, Max
from .options import act, acted, bias, biased, learned, made_by, of_first, options, weight


def _along(config):
    """The options of what turns sequences into rows."""
    levels = AggregateLevel.TO_SEQUENCE, AggregateLevel.TO_NO_SEQUENCE
    level = levels[config.trans_type != "seq"]
    return options(config, agg_level=level, stride=config.seq_pool_stride)


def _max(config):
    return Max(config.output_max_index) if config.HasField("output_max_index") else Max()


def _end(config, inputs):
    return (first_seq if config.select_first else last_seq)(*inputs, **_along(config))


def _slice(config, inputs):
    x, *bounds = inputs
    if len(bounds) == 1:
        bounds = [*bounds, None] if config.select_first else [None, *bounds]
    return seq_slice(x, *bounds, **options(config))


def _row_conv(config):
    return acted(config, param_attr=weight(config.inputs[0]))


def _gates(config):
    return {"gate_act": act(config.active_gate_type)}


def _cell(config):
    return {**_gates(config), "state_act": act(config.active_state_type)}


def _recurrent(cell=lambda config: {}):
    return lambda config: learned(config, reverse=config.reversed, **cell(config))


LAYERS = {
    "average": made_by(
        pooling,
        "input",
        base=_along,
        pooling_type=lambda config: Avg(config.average_strategy),
        bias_attr=bias,
    ),
    "expand": made_by(expand, "input", "expand_as", expand_level="trans_type", bias_attr=bias),
    "gated_recurrent": made_by(grumemory, "input", base=_recurrent(_gates)),
    "get_output": made_by(get_output, "input", arg_name=of_first("input_layer_argument")),
    "gru_step": made_by(
        gru_step,
        "input",
        "output_mem",
        base=lambda config: learned(config, **_gates(config)),
        size="size",
    ),
    "kmax_seq_score": made_by(kmax_seq_score, "input", beam_size="beam_size"),
    "lstm_step": made_by(
        lstm_step,
        "input",
        "state",
        base=lambda config: biased(config, **_cell(config)),
        size="size",
    ),
    "lstmemory": made_by(lstmemory, "input", base=_recurrent(_cell)),
    "max": made_by(pooling, "input", base=_along, pooling_type=_max, bias_attr=bias),
    "recurrent": made_by(recurrent, "input", base=_recurrent()),
    "row_conv": made_by(
        row_conv, "input", base=_row_conv, context_len=of_first("row_conv_conf.context_length")
    ),
    "seq_slice": _slice,
    "seqconcat": made_by(seq_concat, "a", "b", base=biased),
    "seqlastins": _end,
    "seqreshape": made_by(seq_reshape, "input", reshape_size="size", bias_attr=bias),
    "sub_nested_seq": made_by(sub_nested_seq, "input", "selected_indices"),
    "subseq": made_by(sub_seq, "input", "offsets", "sizes", base=biased),
}
