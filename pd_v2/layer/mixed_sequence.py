"""Projections of sequences."""

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined

from ..attr import ParameterAttribute
from ..config_base import Layer
from .image import whole
from .mixed import Projection


def context_projection(input, context_len, context_start=None, padding_attr=None):
    """Concatenate each step's context: `context_len` steps from `context_start` after it on.

    None centres the context on the step, with the extra step of an even length before it. Steps
    outside the sequence are learned rows, initially zero; with `padding_attr=False` zeros.
    """
    if not isinstance(input, Layer):
        raise TypeError(f"a projection is of a layer, not of {input!r}")
    count = whole("context_len", context_len)
    start = -(count // 2) if context_start is None else context_start
    if not isinstance(start, (int, np.integer)):
        raise pd.GraphError(f"context_projection: context_start is a whole number, not {start!r}")
    before, after = max(0, -start), max(0, start + count - 1)  # steps that may be outside
    learned = padding_attr is not False and before + after > 0

    def compute(x, w, size):
        if not x.levels:
            raise pd.GraphError(f"{x.name!r} has no sequences")
        y = pd.sequence_context(x.sequences, x, start, count)
        if learned:
            y = y + _padding(x.sequences, w, start, count, before)
        rows = pd.reshape(y, [-1, size])
        rows = refined(rows, (x.sequences.tokens, size))
        return rows

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
    """Return the learned rows for steps outside the sequence, zeros for steps inside.

    w holds the rows for the steps before the sequence, the nearest last, then those after it.
    """
    outside = pd.sequence_overhang(sequences, start, count)
    row = outside + pd.where(outside < 0, before, before - 1)
    row = pd.where(pd.equal(outside, 0), -1, row)
    return pd.matmul(pd.one_hot(row, w.dims[0]), w)


def _attribute(attr):
    if attr is None or isinstance(attr, bool):
        return ParameterAttribute(initial_mean=0.0, initial_std=0.0)
    return attr
