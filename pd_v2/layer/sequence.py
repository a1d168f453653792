"""Layers that pool, expand, concatenate and reshape sequences."""

import logging

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined

from ..activation import Linear
from ..attr import ParameterAttribute
from ..pooling import Avg, Max
from .base import layer
from .image import whole

_EXTRA = ("drop_rate", "error_clipping_threshold")


class AggregateLevel:
    """The unit that is aggregated to one row: a whole sample, or each sub-sequence of it."""

    TO_NO_SEQUENCE = EACH_TIMESTEP = "non-seq"
    TO_SEQUENCE = EACH_SEQUENCE = "seq"


class ExpandLevel:
    """The unit of one input row of `expand`: a whole sample, or each sub-sequence of it."""

    FROM_NO_SEQUENCE = FROM_TIMESTEP = "non-seq"
    FROM_SEQUENCE = "seq"


@layer("max", "seq_pooling")
def pooling(
    scope,
    input,
    pooling_type=None,
    name=None,
    bias_attr=None,
    agg_level=AggregateLevel.TO_NO_SEQUENCE,
    stride=-1,
    layer_attr=None,
):
    """Pool the steps of each sequence to one row: `Max` (the default), `Avg`, `Sum`, `SquareRootN`.

    Of nested sequences a sample becomes a row, with `TO_SEQUENCE` each sub-sequence. A stride cuts
    sequences into windows of that many steps, the last one shorter, and gives a sequence with a
    row per window. `Max(output_max_index=True)` gives the index in the batch of the row with the
    maximum, without the bias. An empty sequence gives 0, or the index -1.
    """
    kind = Max() if pooling_type is None else pooling_type
    if not isinstance(kind, (Max, Avg)):
        raise TypeError(
            f"layer {scope.short_name!r}: pooling_type is one of Max, Avg, Sum, SquareRootN, "
            f"not {kind!r}"
        )
    sequences = _aggregated(scope, input, agg_level, stride)
    if isinstance(kind, Avg):
        scope.config.type = scope.layer_type = kind.name
        scope.config.average_strategy = kind.strategy
    elif kind.output_max_index is not None:
        scope.config.output_max_index = kind.output_max_index
    y = _pooled(sequences, input, kind)
    biased = with_bias(scope, y, bias_attr or None)
    return y if isinstance(kind, Max) and kind.output_max_index else biased


def _pooled(sequences, x, kind):
    if isinstance(kind, Max):
        return _index_of_max(sequences, x) if kind.output_max_index else sequences.max(x)
    if kind.strategy == Avg.STRATEGY_AVG:
        return sequences.mean(x)
    total = _sum(sequences, x)
    if kind.strategy == Avg.STRATEGY_SUM:
        return total
    return total / pd.sqrt(sequences.counts(x))


def _sum(sequences, x):
    """Sum steps; scaled steps, as in attention, by one product without computing each of them."""
    if x.config.type != "scaling":
        return sequences.sum(x)
    weight, rows = x.parents
    return sequences.weighted_sum(weight, rows)


def _index_of_max(sequences, x):
    """Return the index of the row that holds the first maximum, as a number of x's dtype."""
    x = pd.stop_gradient(x)
    is_max = pd.logical_or(pd.equal(x, sequences.repeat(sequences.max(x))), pd.is_nan(x))
    # the first index is the one with the most rows from it to the end of the batch
    rows_left = pd.unsqueeze(pd.cast(sequences.total - sequences.numbers, x.dtype), 1)
    most = sequences.max(pd.where(is_max, rows_left, float("-inf")))
    not_empty = pd.unsqueeze(sequences.lengths > 0, 1)
    return pd.where(not_empty, pd.cast(sequences.total, x.dtype) - most, -1.0)


@layer("seqlastins", "last_seq")
def last_seq(
    scope, input, name=None, agg_level=AggregateLevel.TO_NO_SEQUENCE, stride=-1, layer_attr=None
):
    """Last step of each sequence, zeros for an empty one; levels and stride as in `pooling`."""
    if input.reverse:
        _warn_of_direction(scope, input, "runs backwards: first_seq has seen all steps")
    return _aggregated(scope, input, agg_level, stride).last(input)


@layer("seqlastins", "first_seq", label="seqfirstins")
def first_seq(
    scope, input, name=None, agg_level=AggregateLevel.TO_NO_SEQUENCE, stride=-1, layer_attr=None
):
    """First step of each sequence, zeros for an empty one; levels and stride as in `pooling`.

    But the windows of a stride are counted from the end: the first one may be shorter.
    """
    if input.reverse is False:
        _warn_of_direction(scope, input, "runs forwards: last_seq has seen all steps")
    scope.config.select_first = True
    return _aggregated(scope, input, agg_level, stride, from_end=True).first(input)


def _warn_of_direction(scope, input, why):
    """Log that the selected step is the one a recurrent layer computed first."""
    log = logging.getLogger("paddle")
    log.warning("layer %r: %r %s", scope.short_name, input.name, why)


def _aggregated(scope, input, agg_level, stride, from_end=False):
    """Return Segments with one sequence per row of the result; set its levels and record."""
    levels = needs_levels(input)
    if agg_level not in (AggregateLevel.TO_NO_SEQUENCE, AggregateLevel.TO_SEQUENCE):
        raise pd.GraphError(f"agg_level is one of AggregateLevel, not {agg_level!r}")
    if stride != -1:
        whole("stride", stride)
    scope.config.trans_type, scope.config.seq_pool_stride = agg_level, stride
    if agg_level == AggregateLevel.TO_SEQUENCE:
        outer, inner = needs_nested(input)
        if stride != -1:
            raise pd.GraphError("a stride is for TO_NO_SEQUENCE only")
        scope.levels = (outer,)
        return inner
    if stride == -1:
        scope.levels = ()
        return input.sequences
    if len(levels) > 1:
        raise pd.GraphError(f"a stride is for sequences of rows, {input.name!r} is nested")
    windows, steps = pd.sequence_windows(levels[0], stride, from_end)
    scope.levels = (windows,)
    return steps


@layer("expand", "expand_layer", inputs=("input", "expand_as"))
def expand(
    scope,
    input,
    expand_as,
    name=None,
    bias_attr=False,
    expand_level=ExpandLevel.FROM_NO_SEQUENCE,
    layer_attr=None,
):
    """Repeat each row for all steps of its sequence in `expand_as`; only a Param makes a bias.

    `input` has a row per sample, in sequences of one step or without, with `FROM_SEQUENCE` one
    per sub-sequence.
    """
    if expand_level == ExpandLevel.FROM_SEQUENCE:
        _, sequences = needs_nested(expand_as)
        if len(input.levels) != 1:
            raise pd.GraphError(f"{input.name!r} is no sequence with a row for each sub-sequence")
        rows = input
    elif expand_level == ExpandLevel.FROM_NO_SEQUENCE:
        needs_levels(expand_as)
        sequences = expand_as.sequences
        rows = _rows_of_samples(input, sequences) if input.levels else input
    else:
        raise pd.GraphError(f"expand_level is one of ExpandLevel, not {expand_level!r}")
    scope.config.trans_type = expand_level
    scope.levels = expand_as.levels
    return with_bias(scope, sequences.repeat(rows), only_param(bias_attr))


def _rows_of_samples(x, sequences):
    """Return the steps of x as a row for each of the sequences; an error if there are not as many.

    The number of rows is stated by `where`, because ONNX Runtime would turn a concat with one
    unknown size into -1.
    """
    width = np.array([0, *x.dims[1:]])
    shape = pd.where(np.arange(len(width)) == 0, sequences.count, width)
    return refined(pd.reshape(x, shape), (sequences.lengths.dims[0], *x.dims[1:]))


@layer("seqconcat", "seqconcat", Linear, inputs=("a", "b"), supports=_EXTRA, rows=("a", "b"))
def seq_concat(scope, a, b, act=None, name=None, layer_attr=None, bias_attr=None):
    """act of the steps of a followed by those of b, in each sample; no bias by default.

    The result has sequences of rows; sub-sequences lose their borders.
    """
    if a.size != b.size:
        raise pd.ShapeError(f"{a.name!r} is {a.size} wide, {b.name!r} {b.size}")
    joined, y = pd.sequence_concat(needs_sequences(a), needs_sequences(b), a, b)
    scope.levels = (joined,)
    return with_bias(scope, y, bias_attr or None)


def seq_reshape(input, reshape_size, act=None, name=None, layer_attr=None, bias_attr=None):
    """Reshape each sample to rows of `reshape_size`; each plain row becomes a sequence.

    Sub-sequences lose their borders. As in 2017, `act` is accepted and never applied.
    """
    return _seq_reshape(
        input=input, size=reshape_size, name=name, layer_attr=layer_attr, bias_attr=bias_attr
    )


@layer("seqreshape", "seqreshape", supports=_EXTRA)
def _seq_reshape(scope, input, size, name, layer_attr, bias_attr):
    whole("reshape_size", size)
    if not input.levels and input.size % size:
        raise pd.ShapeError(f"{input.name!r} is {input.size} wide, which is not rows of {size}")
    if input.levels:
        segments = needs_sequences(input)
        if type(segments) is not pd.Segments:
            raise pd.GraphError("the sub-sequences that a step sees cannot get other lengths")
        elements = segments.lengths * input.size
    else:
        elements = pd.expand(pd.constant([input.size]), pd.size_of(input, 0))
        elements = refined(elements, input.dims[:1])
    sequences = pd.Segments(elements // size)
    # The number of rows is stated, not -1, so that a sequence that does not divide is an error.
    # By `where`, because ONNX Runtime would turn a concat with one unknown size into -1.
    shape = pd.where(np.array([True, False]), sequences.total, np.array([0, size]))
    rows = refined(pd.reshape(input, shape), (sequences.tokens, size))
    scope.levels = (sequences,)
    return with_bias(scope, rows, bias_attr or None)


@layer("row_conv", "row_conv_layer", Linear, supports=("drop_rate",))
def row_conv(scope, input, context_len, act=None, name=None, param_attr=None, layer_attr=None):
    """Row convolution: act(sum over k < context_len of x[t + k] w[k]), elementwise.

    Steps beyond the end of the sequence count as zeros (Amodei et al. 2016).
    """
    needs_levels(input)
    whole("context_len", context_len)
    w = scope.weight(0, [context_len, input.size], param_attr)
    scope.config.inputs[0].row_conv_conf.context_length = context_len
    steps = pd.sequence_context(input.sequences, input, 0, context_len)
    return pd.reduce_sum(steps * w, [1])


def needs_levels(x):
    """Return the levels of a layer; GraphError without sequences."""
    if not x.levels:
        raise pd.GraphError(f"{x.name!r} has no sequences")
    return x.levels


def needs_sequences(x):
    """Return the rows of each sample, across sub-sequences; GraphError without sequences."""
    needs_levels(x)
    return x.sequences


def needs_nested(x):
    """Return the two levels of a layer; GraphError unless its sequences are nested."""
    if len(needs_levels(x)) < 2:
        raise pd.GraphError(f"{x.name!r} has sequences of rows, none in sequences")
    return x.levels


def only_param(attr):
    """Return a bias attribute if it is a Param, else None."""
    return attr if isinstance(attr, ParameterAttribute) else None


def with_bias(scope, y, attr):
    """Add a bias to y, or none for None."""
    return y if attr is None else y + scope.bias([1, y.dims[1]], attr)
