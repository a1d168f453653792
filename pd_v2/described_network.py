"""Layers from their configuration, as the topologies that were pickled in 2017 describe them.

A layer counts only if the configuration that it is given here equals the one it is made from.
"""

from google.protobuf.message import Message

from . import activation
from .attr import ExtraLayerAttribute, ParameterAttribute
from .config_base import Layer
from .layer import (
    addto,
    batch_norm,
    concat,
    context_projection,
    cos_sim,
    data,
    dotmul_projection,
    fc,
    first_seq,
    full_matrix_projection,
    grumemory,
    identity_projection,
    img_cmrnorm,
    img_conv,
    img_pool,
    last_seq,
    lstmemory,
    max_id,
    mixed,
    pooling,
    scaling,
    scaling_projection,
    slope_intercept,
    table_projection,
    trans_full_matrix_projection,
)
from .layer.sequence import AggregateLevel
from .pooling import Avg, Max, SquareRootN, Sum

_ACTIVATIONS = {
    kind().name: kind
    for kind in vars(activation).values()
    if isinstance(kind, type) and issubclass(kind, activation.Base) and kind is not activation.Base
}
_SEQUENCE_POOLING = {"average": Avg, "sum": Sum, "squarerootn": SquareRootN}
_PROJECTIONS = {
    "dot_mul": dotmul_projection,
    "fc": full_matrix_projection,
    "scaling": scaling_projection,
    "table": table_projection,
    "trans_fc": trans_full_matrix_projection,
}


class UnknownLayer(ValueError):
    """A configuration that no layer is made from here."""


def outputs_of(config, data_types):
    """The output layers of a ModelConfig, made anew."""
    if len(config.sub_models) > 1:
        raise UnknownLayer("the topology has recurrent groups, which are not made again here")
    layers = layers_of(config, data_types)
    wanted = set(config.output_layer_names)
    found = [layers[c.name] for c in config.layers if c.name in wanted]
    if not found or not all(isinstance(x, Layer) for x in found):
        raise UnknownLayer("the topology has no outputs")
    return found


def layers_of(config, data_types):
    """{name: Layer} for the layers of a ModelConfig, in the build in force.

    UnknownLayer for a kind of layer, or for a detail of one, that is not made again here.
    """
    layers = {}
    for each in config.layers:
        made = _made(each, layers, data_types)
        if _essence(made.config) != _essence(each):
            raise UnknownLayer(
                f"layer {each.name!r} ({each.type}) is described with what is not known here"
            )
        layers[each.name] = made
    return layers


def _made(config, layers, data_types):
    make = _LAYERS.get(config.type)
    if make is None and config.type != "data":
        raise UnknownLayer(f"layer {config.name!r}: there is no layer of type {config.type!r} here")
    try:
        if make is None:
            return _data(config, data_types[config.name])
        return make(config, [layers[i.input_layer_name] for i in config.inputs])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnknownLayer(f"layer {config.name!r} ({config.type}): {error}") from error


def _essence(message):
    """{field: value} of a message, without what is as the schema says anyway."""
    found = {}
    for field, value in message.ListFields():
        if isinstance(value, Message):
            found[field.name] = _essence(value)
        elif not isinstance(value, (bool, int, float, str, bytes)):
            found[field.name] = [_essence(v) if isinstance(v, Message) else v for v in value]
        elif value != field.default_value:
            found[field.name] = f"{value:.12g}" if isinstance(value, float) else value
    return found


# ---- what layers have in common


def _options(config, **own):
    """The name, and attributes of the output where there are some."""
    extra = {f: getattr(config, f) for f in ("drop_rate", "error_clipping_threshold")}
    extra = {f: v for f, v in extra.items() if v}
    attr = {"layer_attr": ExtraLayerAttribute(**extra)} if extra else {}
    return {"name": config.name, **attr, **own}


def _act(name):
    return _ACTIVATIONS[name]()


def _bias(config):
    name = config.bias_parameter_name
    return ParameterAttribute(name=name) if name else False


def _weight(slot):
    return ParameterAttribute(name=slot.input_parameter_name)


def _learned(config, **own):
    """The options of a layer with weights, a bias and an activation."""
    weights = [_weight(slot) for slot in config.inputs]
    attr = weights if len(weights) > 1 else weights[0]
    own = {"act": _act(config.active_type), "bias_attr": _bias(config), "param_attr": attr, **own}
    return _options(config, **own)


# ---- kinds of layers: (configuration, inputs) -> Layer


def _data(config, data_type):
    depth = config.depth if config.HasField("depth") else None
    return data(config.name, data_type, depth, config.height, config.width)


def _fc(config, inputs):
    return fc(inputs, config.size, **_learned(config))


def _mixed(config, inputs):
    items = [_projection(slot, x) for slot, x in zip(config.inputs, inputs, strict=True)]
    own = {"act": _act(config.active_type), "bias_attr": _bias(config)}
    return mixed(config.size, items, **_options(config, **own))


def _projection(slot, x):
    conf = slot.proj_conf
    if conf.type == "identity":
        return identity_projection(x)
    if conf.type == "identity_offset":
        return identity_projection(x, offset=conf.offset, size=conf.output_size)
    if conf.type == "context":
        attr = _weight(slot) if conf.trainable_padding else False
        return context_projection(x, conf.context_length, conf.context_start, attr)
    if conf.type in ("fc", "table", "trans_fc"):
        return _PROJECTIONS[conf.type](x, conf.output_size, _weight(slot))
    return _PROJECTIONS[conf.type](x, param_attr=_weight(slot))


def _conv(config, inputs):
    conf = config.inputs[0].conv_conf
    return img_conv(
        inputs[0],
        conf.filter_size,
        config.num_filters,
        num_channels=conf.channels,
        groups=conf.groups,
        stride=conf.stride,
        padding=conf.padding,
        dilation=conf.dilation,
        shared_biases=config.shared_biases,
        filter_size_y=conf.filter_size_y,
        stride_y=conf.stride_y,
        padding_y=conf.padding_y,
        dilation_y=conf.dilation_y,
        layer_type=config.type,
        **_learned(config),
    )


def _pool(config, inputs):
    conf = config.inputs[0].pool_conf
    axes = (
        (conf.img_size, conf.size_x, conf.stride, conf.padding, conf.output_x),
        (conf.img_size_y, conf.size_y, conf.stride_y, conf.padding_y, conf.output_y),
    )
    ceil = all(n == 1 - (window - size - 2 * pad) // step for size, window, step, pad, n in axes)
    own = {"exclude_mode": conf.exclude_mode} if conf.HasField("exclude_mode") else {}
    return img_pool(
        inputs[0],
        conf.size_x,
        num_channels=conf.channels,
        pool_type={"max-projection": Max, "avg-projection": Avg}[conf.pool_type](),
        stride=conf.stride,
        padding=conf.padding,
        pool_size_y=conf.size_y,
        stride_y=conf.stride_y,
        padding_y=conf.padding_y,
        ceil_mode=ceil,
        **_options(config, **own),
    )


def _batch_norm(config, inputs):
    own = {"param_attr": _weight(config.inputs[0]), "bias_attr": _bias(config)}
    if config.HasField("use_global_stats"):
        own["use_global_stats"] = config.use_global_stats
    return batch_norm(
        inputs[0],
        act=_act(config.active_type),
        num_channels=config.inputs[0].image_conf.channels,
        epsilon=config.epsilon,
        moving_average_fraction=config.moving_average_fraction,
        mean_var_names=[slot.input_parameter_name for slot in config.inputs[1:]],
        batch_norm_type=config.type if config.type == "cudnn_batch_norm" else None,
        **_options(config, **own),
    )


def _cmrnorm(config, inputs):
    conf = config.inputs[0].norm_conf
    scale = conf.scale * conf.size
    return img_cmrnorm(
        inputs[0], conf.size, scale, conf.pow, num_channels=conf.channels, **_options(config)
    )


def _addto(config, inputs):
    own = {"act": _act(config.active_type), "bias_attr": _bias(config)}
    return addto(inputs, **_options(config, **own))


def _concat(config, inputs):
    return concat(inputs, **_options(config, act=_act(config.active_type)))


def _along(config):
    """The options of what turns sequences into rows."""
    levels = AggregateLevel.TO_SEQUENCE, AggregateLevel.TO_NO_SEQUENCE
    level = levels[config.trans_type != "seq"]
    return _options(config, agg_level=level, stride=config.seq_pool_stride)


def _max_of_sequence(config, inputs):
    index = {"output_max_index": True} if config.output_max_index else {}
    return pooling(inputs[0], Max(**index), bias_attr=_bias(config), **_along(config))


def _mean_of_sequence(config, inputs):
    kind = _SEQUENCE_POOLING[config.average_strategy]()
    return pooling(inputs[0], kind, bias_attr=_bias(config), **_along(config))


def _end_of_sequence(config, inputs):
    return (first_seq if config.select_first else last_seq)(inputs[0], **_along(config))


def _lstm(config, inputs):
    acts = {"gate_act": _act(config.active_gate_type), "state_act": _act(config.active_state_type)}
    return lstmemory(inputs[0], reverse=config.reversed, **_learned(config, **acts))


def _gru(config, inputs):
    gate = _act(config.active_gate_type)
    return grumemory(inputs[0], reverse=config.reversed, **_learned(config, gate_act=gate))


def _cosine(config, inputs):
    return cos_sim(*inputs, scale=config.cos_scale, **_options(config))


def _scaling(config, inputs):
    weight, x = inputs
    return scaling(x, weight, **_options(config))


def _line(config, inputs):
    own = {"slope": config.slope, "intercept": config.intercept}
    return slope_intercept(inputs[0], **_options(config, **own))


def _best(config, inputs):
    return max_id(inputs[0], **_options(config))


_LAYERS = {
    "addto": _addto,
    "average": _mean_of_sequence,
    "batch_norm": _batch_norm,
    "concat": _concat,
    "cos": _cosine,
    "cudnn_batch_norm": _batch_norm,
    "cudnn_conv": _conv,
    "exconv": _conv,
    "fc": _fc,
    "gated_recurrent": _gru,
    "lstmemory": _lstm,
    "max": _max_of_sequence,
    "maxid": _best,
    "mixed": _mixed,
    "norm": _cmrnorm,
    "pool": _pool,
    "scaling": _scaling,
    "seqlastins": _end_of_sequence,
    "slope_intercept": _line,
}
