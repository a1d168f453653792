"""Metrics of labelled sequences: chunking F1, and CTC edit distance."""

import numpy as np

import pd_core as pd

from . import base

# The tags of a chunk type in each scheme: begin, inside, end, single.
_SCHEMES = {"plain": "", "IOB": "BI", "IOE": "IE", "IOBES": "BIES"}


@base.evaluator
def chunk(input, label, chunk_scheme, num_chunk_types, name=None, excluded_chunk_types=None):
    """Chunking `precision`, `recall` and `F1-score` of sequences of ids, input against label.

    An id is type x (number of tags) + tag; a type has one tag in the scheme `plain`, B I in `IOB`,
    I E in `IOE` and B I E S in `IOBES`. The id after those of all types is outside any chunk. A
    chunk is right if begin, end and type agree. Excluded types are ignored.
    """
    if chunk_scheme not in _SCHEMES:
        names = ", ".join(_SCHEMES)
        raise ValueError(f"chunk: a chunk scheme is one of {names}, not {chunk_scheme!r}")
    input, label = base.by_role("chunk", ("input", "label"), input, label)
    predicted, true = (base.ids_of("chunk", x) for x in (input, label))
    base.sequences_of("chunk", input)
    lengths = base.sequences_of("chunk", label).lengths
    excluded = list(excluded_chunk_types or ())
    chunks = Chunks(_SCHEMES[chunk_scheme], num_chunk_types, excluded)
    base.declare(
        "chunk",
        "chunk",
        name,
        [input, label],
        (predicted, true, lengths),
        lambda: base.Sums(3, _chunk_scores, chunks.counts),
        chunk_scheme=chunk_scheme,
        num_chunk_types=num_chunk_types,
        excluded_chunk_types=excluded,
    )


def _chunk_scores(right, predicted, true):
    precision, recall = base.share(right, predicted), base.share(right, true)
    return {"precision": precision, "recall": recall, "F1-score": base.f1_score(precision, recall)}


class Chunks:
    """Finds the chunks in packed sequences of ids, by one scheme."""

    def __init__(self, tags, types, excluded):
        self._count, self._types, self._excluded = max(len(tags), 1), types, excluded
        self._tags = tags

    def counts(self, predicted, true, lengths):
        """Return the numbers of right, of predicted and of true chunks."""
        if len(predicted) != len(true):
            raise ValueError(f"chunk: {len(predicted)} ids are found, the labels have {len(true)}")
        ends, types = zip(*(self._chunks(ids, lengths) for ids in (predicted, true)), strict=True)
        right = (ends[0] >= 0) & (ends[0] == ends[1]) & (types[0] == types[1])
        return right.sum(), *((e >= 0).sum() for e in ends)

    def _chunks(self, ids, lengths):
        """Return for each token the last token of the chunk that it begins, or -1, and its type."""
        outside = self._types * self._count
        if ids.max(initial=0) > outside:
            raise ValueError(f"chunk: the id {ids.max()} is more than {outside}, which is no chunk")
        types, tags = np.divmod(ids, self._count)
        inside = types != self._types
        first = np.zeros(len(ids) + 1, bool)
        first[np.cumsum(lengths)] = first[:1] = True
        boundary = first.copy()  # before each token, and after the last
        boundary[1:-1] |= types[1:] != types[:-1]
        boundary[1:-1] |= self._breaks(tags[:-1], tags[1:])
        begins, ends = boundary[:-1] & inside, boundary[1:] & inside
        last = np.full(len(ids), -1)
        last[begins] = np.flatnonzero(ends)
        last[np.isin(types, self._excluded)] = -1
        return last, types

    def _breaks(self, before, after):
        """Return whether a new chunk begins between two tokens of one type."""
        return self._is(before, "ES") | self._is(after, "BS")

    def _is(self, tags, names):
        return np.isin(tags, [k for k, tag in enumerate(self._tags) if tag in names])


@base.evaluator
def ctc_error(input, label, name=None):
    """Edit distance of CTC's best paths to the labels, as means over sequences.

    A best path is the argmax of each row, without repeats and without blanks, the last class.
    `error` counts all edits, `deletion_error`, `insertion_error` and `substitution_error` one kind
    each, divided by the longer of path and label; `sequence_error` is the share of sequences with
    any edit.
    """
    input, label = base.by_role("ctc_error", ("input", "label"), input, label)
    base.check_rows("ctc_error", input)
    labels = base.ids_of("ctc_error", label)
    lengths = [base.sequences_of("ctc_error", x).lengths for x in (input, label)]
    blank = input.size - 1
    base.declare(
        "ctc_edit_distance",
        "ctc_error",
        name,
        [input, label],
        (pd.arg_max(input, 1), lengths[0], labels, lengths[1]),
        lambda: base.Sums(5, _ctc_scores, lambda *arrays: _ctc_sums(blank, *arrays)),
    )


def _ctc_scores(deleted, inserted, substituted, wrong, count):
    kinds = deleted, inserted, substituted
    return {
        "error": base.share(np.sum(kinds), count),
        "deletion_error": base.share(deleted, count),
        "insertion_error": base.share(inserted, count),
        "substitution_error": base.share(substituted, count),
        "sequence_error": base.share(wrong, count),
    }


def _ctc_sums(blank, best, steps, label, lengths):
    """Return sums over sequences: of each kind of edits over the length, of those with edits."""
    rates = np.zeros((len(lengths), 3))
    paths, labels = base.split(best, steps), base.split(label, lengths)
    for k, (path, true) in enumerate(zip(paths, labels, strict=True)):
        predicted = collapse(path, blank)
        rates[k] = np.array(edits(true, predicted)) / max(len(true), len(predicted), 1)
    return *rates.sum(axis=0), rates.any(axis=1).sum(), len(lengths)


def collapse(path, blank):
    """Return a path without repeats, then without blanks."""
    new = np.ones(len(path), bool)
    new[1:] = path[1:] != path[:-1]
    return path[new & (path != blank)]


def edits(true, predicted):
    """Return (deletions, insertions, substitutions), whose sum is the Levenshtein distance.

    As in 2017, the number of deletions or insertions is just the difference of the lengths.
    """
    longer = len(true) - len(predicted)
    return max(longer, 0), max(-longer, 0), _distance(true, predicted) - abs(longer)


def _distance(true, predicted):
    """Return the Levenshtein distance, computed row by row of the table of prefixes."""
    columns = np.arange(len(predicted) + 1)
    above = columns
    for i, item in enumerate(true, 1):
        best = np.minimum(above[1:] + 1, above[:-1] + (predicted != item))
        # an insertion costs 1 for each column that it goes to the right
        above = np.minimum.accumulate(np.concatenate([[i], best]) - columns) + columns
    return int(above[-1])
