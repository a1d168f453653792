"""The search for NaN and infinite values in a training step, and in its parameters."""

from itertools import chain

import numpy as np

import pd_core as pd

from .training.layer_outputs import fields_of


class NotFiniteWarning(UserWarning):
    """A cost, or a parameter, of a training that is NaN or infinite."""


class ParameterWatch:
    """Tells which parameters of a GradientMachine are not finite, with one program for all."""

    def __init__(self, machine):
        self._machine = machine
        with pd.fresh_names():  # automatic names of the user's graph stay as they are
            self._sums = [pd.reduce_sum(p.variable) for p in machine.parameters]

    def names(self):
        """Return the names of the parameters that hold a NaN or an infinity.

        A parameter with a finite sum is finite, so only others are read.
        """
        machine = self._machine
        with pd.fused(False):  # once in a pass: compiling takes longer than all of them
            sums = machine.session.eval(self._sums)
        pairs = zip(machine.parameters, sums, strict=True)
        suspects = [p for p, total in pairs if not np.isfinite(total)]
        return names_not_finite((p.config.name, machine.session.get(p.variable)) for p in suspects)


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


def quoted(names):
    """Return names as warnings show them; of many, the first few."""
    shown = ", ".join(map(repr, names[:8]))
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _data(topology, feeds):
    """Yield (description, array) of the feeds."""
    for name, layer in topology.data_layers().items():
        yield from ((f"data layer {name!r}", feeds[v]) for v in layer.inputs if v in feeds)


def _parameters(machine):
    """Yield (description, array) of parameters, without tables that are updated by rows."""
    for p in machine.parameters:
        if not p.variable.row_sparse:
            before = machine.session.store.before(p.variable)
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
