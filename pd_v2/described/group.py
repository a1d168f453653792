"""Recurrent groups and generators: what their SubModelConfigs say of them."""

from ..attr import ParameterAttribute
from ..layer.generate import Generator
from ..layer.group import Group, memory
from .earlier import group_as_later
from .errors import UnknownLayer
from .essence import differences
from .options import act, short_name

_LAST = "+delay1"


def group_of(config, layers):
    """The group of a SubModelConfig, whose step is still to be described."""
    name = short_name(config)
    if config.HasField("generator"):
        return Generator(name, config.generator.beam_size)
    levels = [layers[link.layer_name].levels for link in config.in_links]
    if not any(levels):
        raise ValueError("there is no sequence among its inputs")
    return Group(name, config.reversed, max(levels, key=len))


def agent_of(group, config, layer, layers):
    """The layer of a step that stands for one outside, or for one of the step before.

    `config` is that of the group, `layer` that of the agent.
    """
    for link in config.in_links:
        if link.link_name == layer.name:
            x = layers[link.layer_name]
            return group.frame(x) if x.levels else group.static(x)
    for record in config.memories:
        if record.link_name == layer.name:
            if record.layer_name == layer.name:
                return group.static(layers[record.boot_layer_name], short_name(layer))
            return _memory(record, layer, layers)
    raise ValueError(f"group {group.name!r} does not link it")


def _memory(record, layer, layers):
    own = short_name(layer)
    name = own.removesuffix(_LAST)
    named = {"name": None, "memory_name": own} if name == own else {"name": name}
    if record.HasField("boot_layer_name"):
        named["boot_layer"] = layers[record.boot_layer_name]
    if record.HasField("boot_bias_parameter_name"):
        named["boot_bias"] = ParameterAttribute(name=record.boot_bias_parameter_name)
        named["boot_bias_active_type"] = act(record.boot_bias_active_type)
    if record.HasField("boot_with_const_id"):
        named["boot_with_const_id"] = record.boot_with_const_id
    return memory(size=layer.size, **named)


def finish(group, config, layers):
    """Make the layers that stand outside for those of the step, now that all of these are made."""
    linked = {record.link_name: record.layer_name for record in config.memories}
    for each in group.memories:
        each.set_input(layers[linked[each.full_name]])
    results = [layers[link.layer_name] for link in config.out_links]
    if config.HasField("generator"):
        found = [_generated(group, config, layers, *results)]
    else:
        found = group.close(results)
    layers.update((x.full_name, x) for x in found)
    unknown = differences(group.config, group_as_later(config, layers))
    if unknown:
        raise UnknownLayer(
            f"group {group.name!r} is described with what is not known here: {', '.join(unknown)}"
        )


def _generated(group, config, layers, word):
    generator = config.generator
    end = layers[generator.eos_layer_name]
    (first,) = [m for m in config.memories if m.layer_name == word.full_name]
    return group.finish(
        *(word.parents[0], word, end),
        *(first.boot_with_const_id, end.config.eos_id),
        generator.max_num_frames,
        generator.num_results_per_sample,
    )
