"""Layers of sequences, recurrent layers and their single steps."""

from .. import layer
from ..pooling import Avg, Max
from .options import act, acted, bias, biased, built_by, first_input, learned, options, weight


def _aggregated(config):
    """Return the options of a layer that aggregates the steps of sequences."""
    levels = layer.AggregateLevel.TO_SEQUENCE, layer.AggregateLevel.TO_NO_SEQUENCE
    level = levels[config.trans_type != "seq"]
    return options(config, agg_level=level, stride=config.seq_pool_stride)


def _max(config):
    return Max(config.output_max_index) if config.HasField("output_max_index") else Max()


def _end(config, inputs):
    return (layer.first_seq if config.select_first else layer.last_seq)(
        *inputs, **_aggregated(config)
    )


def _slice(config, inputs):
    x, *bounds = inputs
    if len(bounds) == 1:
        bounds = [*bounds, None] if config.select_first else [None, *bounds]
    return layer.seq_slice(x, *bounds, **options(config))


def _row_conv(config):
    return acted(config, param_attr=weight(config.inputs[0]))


def _gates(config):
    return {"gate_act": act(config.active_gate_type)}


def _cell(config):
    return {**_gates(config), "state_act": act(config.active_state_type)}


def _recurrent(cell=lambda config: {}):
    return lambda config: learned(config, reverse=config.reversed, **cell(config))


LAYERS = {
    "average": built_by(
        layer.pooling,
        "input",
        base=_aggregated,
        pooling_type=lambda config: Avg(config.average_strategy),
        bias_attr=bias,
    ),
    "expand": built_by(
        layer.expand, "input", "expand_as", expand_level="trans_type", bias_attr=bias
    ),
    "gated_recurrent": built_by(layer.grumemory, "input", base=_recurrent(_gates)),
    "get_output": built_by(layer.get_output, "input", arg_name=first_input("input_layer_argument")),
    "gru_step": built_by(
        layer.gru_step,
        "input",
        "output_mem",
        base=lambda config: learned(config, **_gates(config)),
        size="size",
    ),
    "kmax_seq_score": built_by(layer.kmax_seq_score, "input", beam_size="beam_size"),
    "lstm_step": built_by(
        layer.lstm_step,
        "input",
        "state",
        base=lambda config: biased(config, **_cell(config)),
        size="size",
    ),
    "lstmemory": built_by(layer.lstmemory, "input", base=_recurrent(_cell)),
    "max": built_by(layer.pooling, "input", base=_aggregated, pooling_type=_max, bias_attr=bias),
    "recurrent": built_by(layer.recurrent, "input", base=_recurrent()),
    "row_conv": built_by(
        layer.row_conv,
        "input",
        base=_row_conv,
        context_len=first_input("row_conv_conf.context_length"),
    ),
    "seq_slice": _slice,
    "seqconcat": built_by(layer.seq_concat, "a", "b", base=biased),
    "seqlastins": _end,
    "seqreshape": built_by(layer.seq_reshape, "input", reshape_size="size", bias_attr=bias),
    "sub_nested_seq": built_by(layer.sub_nested_seq, "input", "selected_indices"),
    "subseq": built_by(layer.sub_seq, "input", "offsets", "sizes", base=biased),
}
