"""Configurations of the first versions of 2017 in the form of later ones.

The first versions also recorded that a link is nested and that a memory is a sequence. Later ones
did not, because the values themselves tell; so where the values agree, the record is dropped.
"""

from ..formats.proto import LayerConfig, SubModelConfig

_DEPTHS = {"sequence_agent": 1, "sequence_gather_agent": 2, "sequence_scatter_agent": 1}


def upgraded_layer(config, layer):
    """Return the LayerConfig as later versions wrote it for a layer with these sequences."""
    if len(layer.levels) != _DEPTHS.get(config.type):
        return config
    upgraded = LayerConfig()
    upgraded.CopyFrom(config)
    upgraded.type = config.type.removeprefix("sequence_")
    return upgraded


def upgraded_group(config, layers):
    """Return the SubModelConfig as later versions wrote it for these layers, less `layer_names`."""
    upgraded = SubModelConfig()
    upgraded.CopyFrom(config)
    upgraded.ClearField("layer_names")
    for link, name in (
        *((link, link.layer_name) for link in upgraded.in_links),
        *((link, link.link_name) for link in upgraded.out_links),
    ):
        if link.has_subseq and len(layers[name].levels) == 2:
            link.ClearField("has_subseq")
    for memory in upgraded.memories:
        if memory.is_sequence and layers[memory.link_name].levels:
            memory.ClearField("is_sequence")
    return upgraded
