"""The search for NaN and infinite values in a training step."""

from itertools import chain

import numpy as np

from .training.layer_outputs import fields_of


def first_not_finite(machine, feeds):
    """Describe the first value that is not finite in the last step of a GradientMachine, or None.

    Data are searched first, then parameters before the update, then layers in their order.
    """
    topology = machine.topology
    for who, array in chain(_data(topology, feeds), _parameters(machine), _layers(machine)):
        indices = np.argwhere(~np.isfinite(array))
        if len(indices):
            index = indices[0].tolist()
            return f"{array[tuple(index)]} at {index} of {who}"
    return None


def names_not_finite(values):
    """Return the names of the arrays with values that are not finite, from (name, array) pairs."""
    return [name for name, array in values if not np.isfinite(array).all()]


def _data(topology, feeds):
    """Yield (description, array) of the feeds."""
    for name, layer in topology.data_layers().items():
        yield from ((f"data layer {name!r}", feeds[v]) for v in layer.inputs if v in feeds)


def _parameters(machine):
    """Yield (description, array) of parameters, without tables that are updated by rows."""
    for p in machine.parameters:
        if not p.variable.row_sparse:
            before = machine.session.before(p.variable)
            value = machine.session.get(p.variable) if before is None else before
            yield f"parameter {p.config.name!r}", value


def _layers(machine):
    """Return (description, array) of layers outside of groups; empty if they cannot be computed."""
    topology = machine.topology
    descriptions = {}
    for config in topology.proto().layers:
        layer = topology.member(config.name)
        value = None if layer.within is not None else fields_of(layer)["value"]
        if value is not None and value.node is not None:
            descriptions[value] = f"layer {config.name!r} ({config.type})"
    values = machine.step_values(list(descriptions))
    return [] if values is None else zip(descriptions.values(), values, strict=True)
