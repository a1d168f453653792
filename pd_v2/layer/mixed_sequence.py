"""Projections of sequences."""

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined

from ..attr import ParameterAttribute
from ..config_base import Layer
from .image import whole
from .mixed import Projection


def context_projection(input, context_len, context_start=None, padding_attr=None):
    """`context_len` steps side by side, from `context_start` steps after each one on.

    None starts so that the step itself is in the middle, or right of it. The places outside the
    sequence are rows of their own, learned and zero at the start; with `padding_attr=False` they
    stay zero.
    """
    if not isinstance(input, Layer):
        raise TypeError(f"a projection is of a layer, not of {input!r}")
    count = whole("context_len", context_len)
    start = -(count // 2) if context_start is None else context_start
    if not isinstance(start, (int, np.integer)):
        raise pd.GraphError(f"context_projection: context_start is a whole number, not {start!r}")
    before, after = max(0, -start), max(0, start + count - 1)
    learned = padding_attr is not False and before + after > 0

    def compute(x, w, size):
        if not x.levels:
            raise pd.GraphError(f"{x.name!r} has no sequences")
        y = pd.sequence_context(x.sequences, x, start, count)
        if learned:
            y = pd.add(y, _padding(x.sequences, w, start, count, before))
        return refined(pd.reshape(y, [-1, size]), (x.sequences.tokens, size))

    return Projection(
        "context",
        input,
        input.size * count,
        compute,
        (lambda n, m: [before + after, n]) if learned else None,
        _attribute(padding_attr),
        {"context_start": start, "context_length": count, "trainable_padding": learned},
    )


def _padding(sequences, w, start, count, before):
    """The learned rows where `sequence_context` has none of its own, zeros elsewhere.

    w holds the rows for the places before the sequence, the nearest last, then those after it.
    """
    outside = pd.sequence_overrun(sequences, start, count)
    row = pd.add(outside, pd.where(pd.less_than(outside, 0), before, before - 1))
    row = pd.where(pd.equal(outside, 0), -1, row)
    return pd.matmul(pd.one_hot(row, w.dims[0]), w)


def _attribute(attr):
    if attr is None or isinstance(attr, bool):
        return ParameterAttribute(initial_mean=0.0, initial_std=0.0)
    return attr
