"""The fields of a layer's output: its value, its ids, and the probabilities of these."""

import numpy as np

FIELDS = ("value", "id", "prob")


def fields_of(layer):
    """Return {field: its Variable, or None}: integer layers have ids, all others values."""
    value, ids = layer, layer.ids
    if layer.dtype.kind == "i":
        value, ids = layer.column, layer
    return {"value": value, "id": ids, "prob": layer.prob}


def variables_of(fields):
    """Return the Variables in the fields of several layers, without duplicates."""
    return list(dict.fromkeys(v for each in fields for v in each.values() if v is not None))


def as_result(fields, values):
    """Return one layer's {field: array or None}, from {Variable: value}.

    Ids are int32 [rows], the other fields float32 [rows, columns].
    """
    return {name: None if v is None else _as_field(name, values[v]) for name, v in fields.items()}


def _as_field(name, array):
    if name == "id":
        return array.astype(np.int32)
    return array.reshape(-1, 1) if array.ndim == 1 else array
