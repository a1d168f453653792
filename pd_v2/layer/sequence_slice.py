"""Layers that select steps of sequences, or sub-sequences of samples."""

import pd_core as pd
from pd_core.graph.node import refined

from ..activation import Linear
from ..config_base import Layer
from .base import layer
from .image import whole
from .sequence import needs_levels, needs_nested, needs_sequences, only_param, with_bias


def kmax_seq_score(input, name=None, beam_size=1):
    """Top-k: the steps of the `beam_size` largest scores of each sequence, largest first.

    The steps are numbers from 0; -1 pads the row of a sequence with fewer. Of nested sequences
    each sub-sequence has a row. There is no gradient.
    """
    out = _kmax_seq_score(input=input, name=name, beam_size=beam_size)
    out.config.ClearField("size")  # 2017 left it open
    return out


@layer("kmax_seq_score", "kmax_seq_score_layer")
def _kmax_seq_score(scope, input, name, beam_size):
    sequences = needs_levels(input)[-1]
    if input.size != 1:
        raise pd.ShapeError(f"a score is 1 number, {input.name!r} is {input.size} wide")
    scope.config.beam_size = whole("beam_size", beam_size)
    scope.levels, scope.size = (), 1
    scores = pd.reshape(pd.stop_gradient(input), [-1])
    scores = refined(scores, input.dims[:1])
    return pd.cast(pd.sequence_top_k(sequences, scores, beam_size), input.dtype)


@layer("subseq", "sub_seq", Linear, inputs=("input", "offsets", "sizes"))
def sub_seq(scope, input, offsets, sizes, act=None, bias_attr=None, name=None):
    """Slice each sample: `sizes` steps from step `offsets` on; then act.

    Both are ids, one per sample, from 0. Steps beyond the end of a sample are left out, and
    sub-sequences lose their borders. Only a Param makes a bias.
    """
    sequences = needs_sequences(input)
    for x in (offsets, sizes):
        if x.dtype.kind != "i":
            raise pd.DTypeError(f"{x.name!r} holds rows of numbers, no ids")
    start = pd.minimum(offsets, sequences.lengths)
    count = pd.minimum(sizes, sequences.lengths - start)
    columns = (pd.unsqueeze(v, 1) for v in (start, count))
    _, steps, y = pd.sequence_slice(sequences, input, *columns)
    scope.levels = (pd.Segments(count, steps.tokens),)
    return with_bias(scope, y, only_param(bias_attr))


def seq_slice(input, starts, ends, name=None):
    """Cut slices out of each sequence, from the steps `starts` to the steps `ends`, inclusive.

    A row of either lists up to K steps of one sequence of the innermost level, from 0; -1 ends the
    list. None is the first step of each sequence, or the last. An end beyond the sequence is its
    last step. Each slice becomes a sequence; slices of nested sequences belong to the samples.
    """
    for x in [x for x in (starts, ends) if x is not None]:
        if not isinstance(x, Layer):
            raise TypeError(f"seq_slice: starts and ends are layers or None, not {x!r}")
    return _seq_slice(input=input, starts=starts, ends=ends, name=name)


@layer("seq_slice", "seq_slice_layer", inputs=("input", "starts", "ends"))
def _seq_slice(scope, input, starts=None, ends=None, name=None):
    sequences = needs_levels(input)[-1]
    bounds = [_numbers(x) for x in (starts, ends) if x is not None]
    if not bounds:
        raise pd.GraphError("starts and ends cannot both be None")
    if len({b.dims[1] for b in bounds}) > 1:
        raise pd.ShapeError(
            f"{starts.name!r} has {starts.dims[1]} steps in a row, {ends.name!r} {ends.dims[1]}"
        )
    if len(bounds) == 1:
        scope.config.select_first = starts is not None
    valid = _before_end(*bounds)
    last = pd.unsqueeze(sequences.lengths - 1, 1)
    start = pd.zeros_like(bounds[0]) if starts is None else bounds[0]
    end = last if ends is None else pd.minimum(bounds[-1], last)
    count = pd.maximum(end - start + 1, 0)
    slices, steps, y = pd.sequence_slice(sequences, input, start, pd.where(valid, count, -1))
    if len(input.levels) > 1:
        outer = input.levels[0].sum(slices.lengths)
        scope.levels = (pd.Segments(outer, slices.tokens), steps)
    else:
        scope.levels = (steps,)
    return y


@layer("sub_nested_seq", "sub_nested_seq_layer", inputs=("input", "selected_indices"))
def sub_nested_seq(scope, input, selected_indices, name=None):
    """Select sub-sequences of each sample by its row of `selected_indices`, in that order.

    Indices count from 0; -1 ends the list, and those beyond the last sub-sequence are left out.
    """
    outer, inner = needs_nested(input)
    indices = _numbers(selected_indices)
    valid = pd.logical_and(_before_end(indices), indices < pd.unsqueeze(outer.lengths, 1))
    # An empty sub-sequence is appended, which all invalid indices read.
    place = pd.where(valid, pd.unsqueeze(outer.starts, 1) + indices, outer.total)
    starts, counts = (pd.gather(pd.concat([v, [0]]), place) for v in (inner.starts, inner.lengths))
    samples = input.sequences
    starts = starts - pd.unsqueeze(samples.starts, 1)
    parts, steps, y = pd.sequence_slice(samples, input, starts, pd.where(valid, counts, -1))
    scope.levels = (parts, steps)
    return y


def _numbers(x):
    """Return rows of numbers as int64 [rows, K]."""
    if x.rank != 2:
        raise pd.ShapeError(f"{x.name!r} has rows of numbers, not {x!r}")
    return pd.cast(x, "int64")


def _before_end(*lists):
    """Return a mask of the columns before the first negative one of any of the lists."""
    ended = None
    for x in lists:
        negative = x < 0
        ended = negative if ended is None else pd.logical_or(ended, negative)
    return pd.equal(pd.cum_sum(pd.cast(ended, "int64"), axis=1), 0)
