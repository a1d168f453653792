"""Inference: the outputs of a network for a list of samples."""

from dataclasses import dataclass

import numpy as np

import pd_core as pd

from . import build
from .data_feeder import DataFeeder, feeds
from .evaluator import Accumulator, fetched
from .topology import Topology

__all__ = ["Inference", "infer"]

_FIELDS = ("value", "id", "prob")


@dataclass
class _Compiled:
    """The compiled program of some output layers, and whose values are in it."""

    session: pd.Session
    user: "Inference | None" = None

    def session_of(self, user):
        """The session with the values of one Inference."""
        if self.user is not user:
            self.session.load_values(user._values)
            self.user = user
        return self.session


class Inference:
    """The network behind some output layers, with a copy of the values of `parameters`."""

    def __init__(self, parameters, output_layer=None):
        if output_layer is None:
            raise ValueError("Inference: give an output_layer")
        self.topology = Topology(output_layer)
        known, key = build.current().inferences, tuple(self.topology.outputs)
        if key not in known:
            known[key] = _Compiled(pd.Session())
        self._shared = known[key]
        self._inputs = self.topology.data_layers()
        self._values = parameters.values_of(self.topology.parameters)

    def iter_infer(self, input, feeding=None):
        """For the whole input as one batch: a list of {'value', 'id', 'prob'}, one per output."""
        feeder = DataFeeder(self.topology.data_type(), feeding)
        given = feeds(self._inputs, feeder(list(input)))
        outputs = self.topology.outputs
        beside = [v for x in outputs for v in (x.prob, x.column, x.ids) if v is not None]
        wanted = [*outputs, *beside]
        printers = self.topology.printers
        session = self._shared.session_of(self)
        found, seen = session.eval([wanted, fetched(printers)], given, training=False)
        Accumulator(printers).update(seen)
        values = dict(zip(wanted, found, strict=True))
        yield [_fields(x, values) for x in outputs]

    def iter_infer_field(self, field, **kwargs):
        """For each output a list of the fields asked for."""
        names = _field_names(field)
        for results in self.iter_infer(**kwargs):
            for result in results:
                yield [result[name] for name in names]

    def infer(self, input, field="value", flatten_result=True, **kwargs):
        """The field of every output: rows of several outputs one below the other.

        `field` is a name or several; several give a list. flatten_result=False keeps a list with
        one array per output.
        """
        names = _field_names(field)
        columns = [[] for _ in names]
        for result in self.iter_infer_field(field=names, input=input, **kwargs):
            for column, value in zip(columns, result, strict=True):
                column.append(value)
        if flatten_result:
            columns = [_joined(name, c) for name, c in zip(names, columns, strict=True)]
        return columns[0] if len(columns) == 1 else columns


def infer(output_layer, parameters, input, feeding=None, field="value"):
    """The outputs of some layers for a list of samples, each a tuple; the list is one batch."""
    inference = Inference(output_layer=output_layer, parameters=parameters)
    return inference.infer(field=field, input=input, feeding=feeding)


def _fields(layer, values):
    """Ids of integer layers, values of all others, by the values of Variables."""
    value, ids = values[layer], values.get(layer.ids)
    if layer.dtype.kind == "i":
        value, ids = values.get(layer.column), value
    return {
        "value": value,
        "id": None if ids is None else ids.astype(np.int32),
        "prob": None if layer.prob is None else values[layer.prob],
    }


def _field_names(field):
    names = [field] if isinstance(field, str) else list(field)
    for name in names:
        if name not in _FIELDS:
            raise ValueError(f"infer: a field is one of {', '.join(_FIELDS)}, not {name!r}")
    return names


def _joined(name, values):
    if any(v is None for v in values):
        raise ValueError(f"infer: an output has no field {name!r}")
    return np.concatenate(values)
