"""Which layers of a configuration its outputs need."""


def needed(config):
    """The names of the layers behind the outputs of a ModelConfig, and of those that print them."""
    parents = {x.name: [i.input_layer_name for i in x.inputs] for x in config.layers}
    for group in config.sub_models:
        parents.setdefault(group.name, []).extend(_linked(group))
        for link in group.out_links:
            parents.setdefault(link.link_name, []).extend([link.layer_name, group.name])
    found, left = set(), list(config.output_layer_names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += parents.get(name, ())
    printing = (x.name for x in config.layers if x.type == "print")
    return found.union(name for name in printing if found.issuperset(parents[name]))


def _linked(group):
    """The layers that a group runs with, whatever it gives."""
    if not group.is_recurrent_layer_group:
        return
    yield group.generator.eos_layer_name
    for link in group.in_links:
        yield from (link.layer_name, link.link_name)
    for link in group.out_links:
        yield link.layer_name
    for each in group.memories:
        yield from (each.layer_name, each.link_name, each.boot_layer_name)
