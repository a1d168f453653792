"""Signatures of operators: type, domain, opset and attributes, interned as a small id."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np

_PLAIN = (int, float, str, bytes, bool)

AT_RUN_TIME = {("Uniform", "key")}  # attributes that a program is given when it runs

_LIMIT = 1 << 14
_kinds: dict[tuple, int] = {}
_ids = count()


def kind_of(
    op_type: str, domain: str, opset: int, attributes: Mapping[str, Any], outputs: int
) -> int:
    """The id of an operator with these attributes and so many outputs; equal for equal ones.

    Names, inputs and lines play no part.
    """
    key: tuple = (op_type, domain, opset, outputs)
    for name, value in attributes.items():
        if (op_type, name) not in AT_RUN_TIME:
            key += (_frozen(name, value),)
    kind = _kinds.get(key)
    if kind is None:
        if len(_kinds) >= _LIMIT:  # equal operators get another id from here on
            _kinds.clear()
        kind = _kinds.setdefault(key, next(_ids))  # another thread may add one: no len()
    return kind


def _frozen(name: str, value: Any) -> Any:
    """An attribute, hashable, with its types, since 1 equals 1.0."""
    if type(value) in _PLAIN:
        return name, value, type(value)
    if type(value) in (list, tuple):
        if all(type(v) in _PLAIN for v in value):
            return name, tuple(value), tuple(map(type, value))
        return name, tuple([_frozen("", v) for v in value])
    if isinstance(value, (np.ndarray, np.generic)):
        return name, value.dtype.str, value.shape, value.tobytes()
    return name, type(value), value.SerializeToString(deterministic=True)
