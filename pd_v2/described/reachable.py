"""Which layers of a configuration its outputs depend on."""


def reachable(config):
    """Return the names of the layers behind the outputs of a ModelConfig.

    Print layers count if all their inputs do.
    """
    parents = {x.name: [i.input_layer_name for i in x.inputs] for x in config.layers}
    for group in config.sub_models:
        parents.setdefault(group.name, []).extend(_linked(group))
        for link in group.out_links:
            parents.setdefault(link.link_name, []).extend([link.layer_name, group.name])
    names, queue = set(), list(config.output_layer_names)
    while queue:
        name = queue.pop()
        if name not in names:
            names.add(name)
            queue += parents.get(name, ())
    printers = (x.name for x in config.layers if x.type == "print")
    return names.union(name for name in printers if names.issuperset(parents[name]))


def _linked(group):
    """Yield the layers that running a group takes, whichever of its outputs are used."""
    if not group.is_recurrent_layer_group:
        return
    yield group.generator.eos_layer_name
    for link in group.in_links:
        yield from (link.layer_name, link.link_name)
    for link in group.out_links:
        yield link.layer_name
    for each in group.memories:
        yield from (each.layer_name, each.link_name, each.boot_layer_name)
