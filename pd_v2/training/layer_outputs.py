"""What a layer gives to the outside: its value, its ids, and the probabilities of these."""

import numpy as np

FIELDS = ("value", "id", "prob")


def fields_of(layer):
    """{field: the Variable that holds it, or None}: ids of integer layers, values of all others."""
    value, ids = layer, layer.ids
    if layer.dtype.kind == "i":
        value, ids = layer.column, layer
    return {"value": value, "id": ids, "prob": layer.prob}


def variables_of(fields):
    """The Variables of several layers' fields, each once."""
    return list(dict.fromkeys(v for each in fields for v in each.values() if v is not None))


def as_result(fields, values):
    """One layer's {field: array or None}, by the values of Variables.

    Ids are int32 [rows], all else is float32 [rows, columns].
    """
    return {name: None if v is None else _as_field(name, values[v]) for name, v in fields.items()}


def _as_field(name, array):
    if name == "id":
        return array.astype(np.int32)
    return array.reshape(-1, 1) if array.ndim == 1 else array
