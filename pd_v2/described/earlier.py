"""What the first versions of 2017 wrote besides, and later ones saw from the values themselves.

It is taken out where it is so: that a link is of nested sequences, and a memory of sequences.
"""

from ..formats.proto import LayerConfig, SubModelConfig

_DEPTHS = {"sequence_agent": 1, "sequence_gather_agent": 2, "sequence_scatter_agent": 1}


def layer_as_later(config, layer):
    """The LayerConfig as later versions wrote it for a layer with these sequences."""
    if len(layer.levels) != _DEPTHS.get(config.type):
        return config
    later = LayerConfig()
    later.CopyFrom(config)
    later.type = config.type.removeprefix("sequence_")
    return later


def group_as_later(config, layers):
    """The SubModelConfig as later versions wrote it for these layers, without their names."""
    later = SubModelConfig()
    later.CopyFrom(config)
    later.ClearField("layer_names")
    for link, name in (
        *((link, link.layer_name) for link in later.in_links),
        *((link, link.link_name) for link in later.out_links),
    ):
        if link.has_subseq and len(layers[name].levels) == 2:
            link.ClearField("has_subseq")
    for memory in later.memories:
        if memory.is_sequence and layers[memory.link_name].levels:
            memory.ClearField("is_sequence")
    return later
