"""The types of data layers that a ModelConfig leaves open, from what its layers ask of them.

A configuration says how wide the rows of a data layer are. That they are ids, in sequences or in
sequences of sequences follows if some layer needs them so, directly or through others.
"""

from ..data_type import DataType, InputType
from .errors import UnknownLayer

# What takes or gives sequences, and leaves them as they are.
_SEQUENCES = {
    *("gated_recurrent", "lstmemory", "recurrent", "row_conv", "seq_slice", "seqconcat"),
    *("seqreshape", "subseq"),
}
_POOLED = {"average", "max", "seqlastins"}
# Whose result has other sequences than the inputs, if any; and inputs that hold sequences there.
_APART = {
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
# Inputs besides the first that have rows of their own, whatever the sequences of that.
_BESIDE = {"seq_slice", "sub_nested_seq", "subseq"}
_IDS = {
    **dict.fromkeys(("crf", "crf_decoding", "ctc", "warp_ctc", "huber_classification"), (1,)),
    "eos_id": (0,),
    "multiplex": (0,),
    "subseq": (1, 2),
    "multi-class-cross-entropy": (1,),
    "multi_class_cross_entropy_with_selfnorm": (1,),
}


def data_types_of(config):
    """[(name, InputType)] of the data layers of a ModelConfig: ids or floats, never sparse."""
    made = {link.link_name for group in config.sub_models for link in group.out_links}
    data = [x for x in config.layers if x.type == "data" and x.name not in made]
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
    """The layers that some layer reads as ids."""
    found = {name for x in config.layers for name in _read_as_ids(x)}
    links = [link for group in config.sub_models for link in group.in_links]
    for _ in config.sub_models:  # a link may lead out of one group into another
        found.update(link.layer_name for link in links if link.link_name in found)
    return found


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
    """{layer: how deep its sequences are at least}, as the relations between layers ask for."""
    found, same = {}, []
    for x in config.layers:
        try:
            _of_layer(x, found, same)
        except (IndexError, ValueError) as error:
            count = len(x.inputs)
            raise UnknownLayer(f"layer {x.name!r} ({x.type}) has {count} inputs") from error
    for group in config.sub_models:
        _of_group(group, found, same)
    changed = True
    while changed and max(found.values(), default=0) <= len(config.layers):
        changed = False
        for a, b, more in same:  # a is deeper by `more` than b
            for name, depth in ((a, found.get(b, 0) + more), (b, found.get(a, 0) - more)):
                if depth > found.get(name, 0):
                    found[name], changed = depth, True
    return found


def _of_layer(x, found, same):
    """Put what a layer asks for into {layer: depth} and [(layer, layer, how much deeper)]."""

    def at_least(depth, *names):
        found.update({name: max(depth, found.get(name, 0)) for name in names})

    names = [slot.input_layer_name for slot in x.inputs]
    nested = x.trans_type == "seq"
    if x.type in _POOLED:
        at_least(1 + nested, *names)
        at_least(int(nested or x.seq_pool_stride > 0), x.name)
    elif x.type == "expand":
        rows, steps = names
        at_least(1 + nested, steps)
        at_least(int(nested), rows)
        same.append((x.name, steps, 0))
    elif x.type == "cross_entropy_over_beam":
        at_least(1, *names[:1])
        at_least(2, *names[3::3])
    elif x.type in _APART:
        at_least(1, *(names[k] for k in _APART[x.type]))
        at_least(int(x.type == "blockexpand"), x.name)
    else:
        at_least(_own_depth(x), x.name)
        same.extend((x.name, name, 0) for name in (names[:1] if x.type in _BESIDE else names))


def _own_depth(x):
    if x.type == "sub_nested_seq":
        return 2
    context = any(slot.proj_conf.type == "context" for slot in x.inputs)
    return int(x.type in _SEQUENCES or context or x.active_type == "sequence_softmax")


def _of_group(group, found, same):
    for link in group.in_links:
        same.append((link.layer_name, link.link_name, 1))
        found[link.layer_name] = max(1, found.get(link.layer_name, 0))
    for link in group.out_links:
        if not group.HasField("generator"):
            same.append((link.link_name, link.layer_name, 1))
    for each in group.memories:
        names = (each.layer_name, each.boot_layer_name)
        same.extend((each.link_name, name, 0) for name in names if name)
