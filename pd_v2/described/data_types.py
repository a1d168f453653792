"""The types of data layers, inferred from the layers of a ModelConfig that read them.

A configuration records how wide a data layer is, but not whether it holds ids, sequences or nested
sequences. That follows from the layers that require it, directly or through other layers.
"""

from ..data_type import DataType, InputType
from .errors import UnknownLayer

# Types whose inputs and result have the same sequences, of one level at least.
_SEQUENCES = {
    *("gated_recurrent", "lstmemory", "recurrent", "row_conv", "seq_slice", "seqconcat"),
    *("seqreshape", "subseq"),
}
_POOLED = {"average", "max", "seqlastins"}
# Types whose result has other sequences than the inputs, or none; the inputs that are sequences.
_RESHAPED = {
    "blockexpand": (),
    "detection_output": (),
    "kmax_seq_score": (0,),
    "multibox_loss": (1,),
    "crf": (0, 1),
    "ctc": (0, 1),
    "warp_ctc": (0, 1),
    "lambda_cost": (0, 1),
    "priorbox": (),
    "resize": (),
    "trans": (),
}
# Types whose further inputs have rows of their own, whatever the sequences of the first.
_FIRST_ONLY = {"seq_slice", "sub_nested_seq", "subseq"}
# The inputs that hold ids.
_IDS = {
    **dict.fromkeys(("crf", "crf_decoding", "ctc", "warp_ctc", "huber_classification"), (1,)),
    "eos_id": (0,),
    "multiplex": (0,),
    "subseq": (1, 2),
    "multi-class-cross-entropy": (1,),
    "multi_class_cross_entropy_with_selfnorm": (1,),
}


def data_types_of(config):
    """Return [(name, InputType)] of the data layers of a ModelConfig: ids or floats, never sparse.

    UnknownLayer for a layer without a size, or one that would have more than two levels.
    """
    generated = {link.link_name for group in config.sub_models for link in group.out_links}
    data = [x for x in config.layers if x.type == "data" and x.name not in generated]
    ids, depths = _ids(config), _depths(config)
    return [(x.name, _type(x, depths.get(x.name, 0), x.name in ids)) for x in data]


def _type(config, depth, ids):
    if not config.size or depth > 2:
        raise UnknownLayer(
            f"layer {config.name!r} (data) is {config.size} wide, in sequences of {depth} levels"
        )
    return InputType(config.size, depth, DataType.Index if ids else DataType.Dense)


# ---- ids


def _ids(config):
    """Return the names of the layers that some layer reads as ids."""
    names = {name for x in config.layers for name in _read_as_ids(x)}
    links = [link for group in config.sub_models for link in group.in_links]
    for _ in config.sub_models:  # a link may lead out of one group into another
        names.update(link.layer_name for link in links if link.link_name in names)
    return names


def _read_as_ids(config):
    names = [slot.input_layer_name for slot in config.inputs]
    places = [k for k in _IDS.get(config.type, ()) if k < len(names)]
    if config.type == "cross_entropy_over_beam":
        places = range(2, len(names), 3)
    if config.type in ("hsigmoid", "nce"):
        places = [k for k, slot in enumerate(config.inputs) if not slot.input_parameter_name][:1]
    tables = (s.input_layer_name for s in config.inputs if s.proj_conf.type == "table")
    return [*tables, *(names[k] for k in places)]


# ---- sequences


def _depths(config):
    """Return {layer: levels of its sequences}, the least that satisfy all constraints.

    The constraints are lower bounds and equalities between layers; each equality is applied until
    nothing changes. A contradiction would go on for ever, so depths are limited.
    """
    depths, equalities = {}, []
    for x in config.layers:
        try:
            _of_layer(x, depths, equalities)
        except (IndexError, ValueError) as error:
            count = len(x.inputs)
            raise UnknownLayer(f"layer {x.name!r} ({x.type}) has {count} inputs") from error
    for group in config.sub_models:
        _of_group(group, depths, equalities)
    changed = True
    while changed and max(depths.values(), default=0) <= len(config.layers):
        changed = False
        for a, b, more in equalities:  # a is deeper by `more` than b
            for name, depth in ((a, depths.get(b, 0) + more), (b, depths.get(a, 0) - more)):
                if depth > depths.get(name, 0):
                    depths[name], changed = depth, True
    return depths


def _of_layer(x, depths, equalities):
    """Add the constraints of a layer to {layer: depth} and [(layer a, layer b, a - b)]."""

    def at_least(depth, *names):
        depths.update({name: max(depth, depths.get(name, 0)) for name in names})

    names = [slot.input_layer_name for slot in x.inputs]
    nested = x.trans_type == "seq"
    if x.type in _POOLED:
        at_least(1 + nested, *names)
        at_least(int(nested or x.seq_pool_stride > 0), x.name)
    elif x.type == "expand":
        rows, steps = names
        at_least(1 + nested, steps)
        at_least(int(nested), rows)
        equalities.append((x.name, steps, 0))
    elif x.type == "cross_entropy_over_beam":
        at_least(1, *names[:1])
        at_least(2, *names[3::3])
    elif x.type in _RESHAPED:
        at_least(1, *(names[k] for k in _RESHAPED[x.type]))
        at_least(int(x.type == "blockexpand"), x.name)
    else:
        at_least(_own_depth(x), x.name)
        inputs = names[:1] if x.type in _FIRST_ONLY else names
        equalities.extend((x.name, name, 0) for name in inputs)


def _own_depth(x):
    if x.type == "sub_nested_seq":
        return 2
    context = any(slot.proj_conf.type == "context" for slot in x.inputs)
    return int(x.type in _SEQUENCES or context or x.active_type == "sequence_softmax")


def _of_group(group, depths, equalities):
    for link in group.in_links:
        equalities.append((link.layer_name, link.link_name, 1))
        depths[link.layer_name] = max(1, depths.get(link.layer_name, 0))
    for link in group.out_links:
        if not group.HasField("generator"):
            equalities.append((link.link_name, link.layer_name, 1))
    for each in group.memories:
        names = (each.layer_name, each.boot_layer_name)
        equalities.extend((each.link_name, name, 0) for name in names if name)
