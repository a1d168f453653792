"""Uniform random numbers by a counter-based hash, in uint32 arithmetic that every runtime has."""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs
from ...ops.math import quotient
from .context import Context, Outputs

_U = np.uint32


def uniform(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to float32 on [0, 1): the hash of (seed, step, key, loop counters, element)."""
    (shape, *counters), key = inputs, node.attributes["key"]
    stream = key[0] if isinstance(key, tuple) else key  # recorded draws know their offset too
    first, second = _keys(ops.cast(context.seed_row(key), np.uint32), stream, counters)
    count = apply("ReduceProd", shape, keepdims=0)
    h = ops.cast(ops.arange(count), np.uint32)
    h = _mix(_mix(_mix(h + first) + second))
    unit = ops.cast(quotient(h, np.array([256], _U)), np.float32) * np.array(
        [2.0**-24], np.float32
    )  # the upper 24 bits
    return (apply("Reshape", unit, shape, known=node.outputs[0].dims, allowzero=1),)


def _keys(words, key, counters):
    """Two words, uint32[1] each, from those of the seed, the key and the counters of loops."""
    session, step, *own = (
        apply("Slice", words, np.array([k]), np.array([k + 1])) for k in range(words.dims[0])
    )
    first = _mix(_mix(_mix(session + (own[0] if own else _U([key])))) + step)
    for counter in counters:
        first = _mix(_mix(first) + ops.cast(counter, np.uint32))
    return first, _mix(first + _U([0x9E3779B9]))  # 2^32 over the golden ratio


def _mix(h):
    """x (2x + 1), a permutation of the words (Rivest et al. 1998, RC6), rotated by half a word."""
    h = h * (h * _U([2]) + _U([1]))
    return quotient(h, _U([65536])) + h * _U([65536])
