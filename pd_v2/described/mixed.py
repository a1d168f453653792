"""Mixed layers and concatenations, with their projections and operators."""

from .. import layer
from .options import acted, biased, built_by, weight

_SIZED = {
    "fc": layer.full_matrix_projection,
    "table": layer.table_projection,
    "trans_fc": layer.trans_full_matrix_projection,
}
_ELEMENTWISE = {"dot_mul": layer.dotmul_projection, "scaling": layer.scaling_projection}


def _mixed(config, inputs):
    return layer.mixed(config.size, _items(config, inputs), **biased(config))


def _concat(config, inputs):
    return layer.concat(_items(config, inputs), **biased(config))


def _items(config, inputs):
    """Return projections and operators in the order of their first input.

    The further inputs of operators come last in the configuration.
    """
    operators = {conf.input_indices[0]: conf for conf in config.operator_confs}
    rest = sum(len(conf.input_indices) - 1 for conf in operators.values())
    items = []
    for slot in range(len(inputs) - rest):
        conf = operators.get(slot)
        if conf is None:
            items.append(_projection(config.inputs[slot], inputs[slot]))
        else:
            items.append(_operator(conf, [inputs[i] for i in conf.input_indices]))
    return items


def _projection(slot, x):
    conf = slot.proj_conf
    if conf.type in _SIZED:
        return _SIZED[conf.type](x, conf.output_size, weight(slot))
    if conf.type in _ELEMENTWISE:
        return _ELEMENTWISE[conf.type](x, weight(slot))
    if conf.type not in _OTHERS:
        raise ValueError(f"there is no projection {conf.type!r} here")
    return _OTHERS[conf.type](slot, conf, x)


def _columns(slot, conf, x):
    return layer.identity_projection(x, offset=conf.offset, size=conf.output_size)


def _context(slot, conf, x):
    attr = weight(slot) if conf.trainable_padding else False
    return layer.context_projection(x, conf.context_length, conf.context_start, attr)


def _slices(slot, conf, x):
    pixels = x.size // x.num_filters
    return layer.slice_projection(x, [(s.start // pixels, s.end // pixels) for s in conf.slices])


def _convolved(slot, conf, x):
    return layer.conv_projection(
        x, param_attr=weight(slot), groups=conf.conv_conf.groups, **_conv(conf)
    )


_OTHERS = {
    "context": _context,
    "conv": _convolved,
    "convt": _convolved,
    "identity": lambda slot, conf, x: layer.identity_projection(x),
    "identity_offset": _columns,
    "slice": _slices,
}


def _operator(conf, inputs):
    if conf.type == "dot_mul":
        return layer.dotmul_operator(*inputs, scale=conf.dotmul_scale)
    if conf.type in ("conv", "convt"):
        return layer.conv_operator(*inputs, **_conv(conf))
    raise ValueError(f"there is no operator {conf.type!r} here")


def _conv(conf):
    """Return the geometry of a convolution."""
    fields = ("filter_size", "stride", "padding")
    sizes = {f: getattr(conf.conv_conf, f) for f in (*fields, *(f"{f}_y" for f in fields))}
    channels = conf.conv_conf.channels
    trans = conf.type == "convt"
    return {**sizes, "num_filters": conf.num_filters, "num_channels": channels, "trans": trans}


LAYERS = {
    "concat": built_by(layer.concat, as_list="input", base=acted),
    "concat2": _concat,
    "mixed": _mixed,
}
