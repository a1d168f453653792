"""Uniform draws as a counter-based hash, in products and sums of uint32 that every runtime has."""

import numpy as np

from ...graph.node import apply

_U = np.uint32


def uniform(node, inputs, sizes, seed):
    """float32 on [0, 1): the hash of (seed, step, key, steps of the loops around, element)."""
    (shape, *counters), key = inputs, node.attributes["key"]
    first, second = _keys(seed, key, counters)
    count = apply("ReduceProd", shape, keepdims=0)
    h = apply("Cast", apply("Range", np.int64(0), count, np.int64(1)), to=12)
    h = _mix(apply("Add", h, first))
    h = _mix(apply("Add", h, second))
    h = _mix(h)
    unit = apply("Mul", apply("Cast", apply("Div", h, _U([256])), to=1), np.float32([2.0**-24]))
    return (apply("Reshape", unit, shape, known=node.outputs[0].dims, allowzero=1),)


def _keys(seed, key, counters):
    """Two words, uint32[1] each, from seed, step, key and the counters of loops."""
    words = apply("Cast", seed, to=12)
    session, step = (apply("Slice", words, np.array([k]), np.array([k + 1])) for k in (0, 1))
    h = _mix(apply("Add", session, _U([key])))
    first = _mix(apply("Add", _mix(h), step))
    for number in counters:
        first = _mix(apply("Add", _mix(first), apply("Cast", number, to=12)))
    return first, _mix(apply("Add", first, _U([0x9E3779B9])))


def _mix(h):
    """x (2x + 1), a permutation of the words (Rivest et al. 1998, RC6), then half a rotation."""
    h = apply("Mul", h, apply("Add", apply("Mul", h, _U([2])), _U([1])))
    low = apply("Mul", h, _U([65536]))
    return apply("Add", apply("Div", h, _U([65536])), low)
