"""Recurrent groups and generators from their SubModelConfigs."""

from ..attr import ParameterAttribute
from ..layer.generate import Generator
from ..layer.group import Group, memory
from .comparison import differences
from .errors import UnknownLayer
from .options import act, short_name
from .upgrade import upgraded_group

_DELAYED = "+delay1"  # ends the name of the memory of a layer


def group_of(config, layers):
    """Return the group of a SubModelConfig, with its step still empty."""
    name = short_name(config)
    if config.HasField("generator"):
        return Generator(name, config.generator.beam_size)
    levels = [layers[link.layer_name].levels for link in config.in_links]
    if not any(levels):
        raise ValueError("there is no sequence among its inputs")
    return Group(name, config.reversed, max(levels, key=len))


def agent_of(group, config, layer, layers):
    """Return an agent: the layer by which a step reads a layer from outside, or a memory.

    `config` is the SubModelConfig of the group, `layer` the LayerConfig of the agent.
    """
    for link in config.in_links:
        if link.link_name == layer.name:
            x = layers[link.layer_name]
            return group.step_input(x) if x.levels else group.static(x)
    for record in config.memories:
        if record.link_name == layer.name:
            if record.layer_name == layer.name:
                return group.static(layers[record.boot_layer_name], short_name(layer))
            return _memory(record, layer, layers)
    raise ValueError(f"group {group.name!r} does not link it")


def _memory(record, layer, layers):
    own_name = short_name(layer)
    name = own_name.removesuffix(_DELAYED)
    arguments = {"name": None, "memory_name": own_name} if name == own_name else {"name": name}
    if record.HasField("boot_layer_name"):
        arguments["boot_layer"] = layers[record.boot_layer_name]
    if record.HasField("boot_bias_parameter_name"):
        arguments["boot_bias"] = ParameterAttribute(name=record.boot_bias_parameter_name)
        arguments["boot_bias_active_type"] = act(record.boot_bias_active_type)
    if record.HasField("boot_with_const_id"):
        arguments["boot_with_const_id"] = record.boot_with_const_id
    return memory(size=layer.size, **arguments)


def finish(group, config, layers):
    """Close a group whose step is complete: add its outputs to `layers`.

    UnknownLayer if the configuration of the group is not the one it is built from.
    """
    linked = {record.link_name: record.layer_name for record in config.memories}
    for each in group.memories:
        each.set_input(layers[linked[each.full_name]])
    results = [layers[link.layer_name] for link in config.out_links]
    if config.HasField("generator"):
        outputs = _generated(group, config, layers, *results)
    else:
        outputs = group.close(results)
    layers.update((x.full_name, x) for x in outputs)
    unknown = differences(group.config, upgraded_group(config, layers))
    if unknown:
        raise UnknownLayer(
            f"group {group.name!r} is described with what is not known here: {', '.join(unknown)}"
        )


def _generated(group, config, layers, word, *others):
    generator = config.generator
    end = layers[generator.eos_layer_name]
    (first,) = [m for m in config.memories if m.layer_name == word.full_name]
    return group.finish(
        *(word, end, others),
        *(first.boot_with_const_id, end.config.eos_id),
        generator.max_num_frames,
        generator.num_results_per_sample,
    )
