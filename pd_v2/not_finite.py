"""Where NaN and infinite values of a training step come from."""

from itertools import chain

import numpy as np

from .training.layer_outputs import fields_of


def first_not_finite(machine, feeds):
    """The first such value of the step that a GradientMachine has just made, as a text, or None.

    Data come first, then parameters as they were before the update, then layers in their order.
    """
    topology = machine.topology
    for who, array in chain(_data(topology, feeds), _parameters(machine), _layers(machine)):
        wrong = np.argwhere(~np.isfinite(array))
        if len(wrong):
            place = wrong[0].tolist()
            return f"{array[tuple(place)]} at {place} of {who}"
    return None


def names_not_finite(values):
    """The names of the arrays that hold such values, of pairs (name, array)."""
    return [name for name, array in values if not np.isfinite(array).all()]


def _data(topology, feeds):
    """(what to call it, array) of what is fed."""
    for name, layer in topology.data_layers().items():
        yield from ((f"data layer {name!r}", feeds[v]) for v in layer.inputs if v in feeds)


def _parameters(machine):
    """The same of parameters, but for those of which a step writes rows."""
    for p in machine.parameters:
        if not p.variable.row_sparse:
            before = machine.session.before(p.variable)
            value = machine.session.get(p.variable) if before is None else before
            yield f"parameter {p.config.name!r}", value


def _layers(machine):
    """The same of layers outside of groups, all computed at once; none where they cannot be."""
    topology = machine.topology
    named = {}
    for config in topology.proto().layers:
        layer = topology.member(config.name)
        value = None if layer.within is not None else fields_of(layer)["value"]
        if value is not None and value.node is not None:
            named[value] = f"layer {config.name!r} ({config.type})"
    values = machine.step_values(list(named))
    return [] if values is None else zip(named.values(), values, strict=True)
