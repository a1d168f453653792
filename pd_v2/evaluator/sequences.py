"""Metrics of labelled sequences: chunks that are found, and edits from a best path to a label."""

import numpy as np

import pd_core as pd

from .base import (
    Sums,
    check_rows,
    declare,
    evaluator,
    f1_score,
    ids_of,
    pieces,
    sequences_of,
    share,
)

# The tags of a chunk type in each scheme: of its begin, inside and end, and of a whole chunk.
_SCHEMES = {"plain": "", "IOB": "BI", "IOE": "IE", "IOBES": "BIES"}


@evaluator
def chunk(input, label, chunk_scheme, num_chunk_types, name=None, excluded_chunk_types=None):
    """`precision`, `recall` and `F1-score` of the chunks in sequences of ids, input against label.

    An id is type x tags + tag; the tags of a type are one in the scheme `plain`, B I in `IOB`, I E
    in `IOE` and B I E S in `IOBES`. The id after those of all types stands outside any chunk.
    A chunk is right where begin, end and type agree. Excluded types do not count.
    """
    if chunk_scheme not in _SCHEMES:
        known = ", ".join(_SCHEMES)
        raise ValueError(f"chunk: a chunk scheme is one of {known}, not {chunk_scheme!r}")
    found, wanted = (ids_of("chunk", x) for x in (input, label))
    sequences_of("chunk", input)
    lengths = sequences_of("chunk", label).lengths
    excluded = list(excluded_chunk_types or ())
    chunks = Chunks(_SCHEMES[chunk_scheme], num_chunk_types, excluded)
    declare(
        "chunk",
        "chunk",
        name,
        [input, label],
        (found, wanted, lengths),
        lambda: Sums(3, _chunk_scores, chunks.counts),
        chunk_scheme=chunk_scheme,
        num_chunk_types=num_chunk_types,
        excluded_chunk_types=excluded,
    )


def _chunk_scores(right, found, wanted):
    precision, recall = share(right, found), share(right, wanted)
    return {"precision": precision, "recall": recall, "F1-score": f1_score(precision, recall)}


class Chunks:
    """The chunks that packed sequences of ids describe in one scheme."""

    def __init__(self, tags, types, excluded):
        self._count, self._types, self._excluded = max(len(tags), 1), types, excluded
        self._tags = tags

    def counts(self, found, wanted, lengths):
        """How many chunks are right, how many are found, how many there are."""
        if len(found) != len(wanted):
            raise ValueError(f"chunk: {len(found)} ids are found, the labels have {len(wanted)}")
        ends, types = zip(*(self._chunks(ids, lengths) for ids in (found, wanted)), strict=True)
        right = (ends[0] >= 0) & (ends[0] == ends[1]) & (types[0] == types[1])
        return right.sum(), *((e >= 0).sum() for e in ends)

    def _chunks(self, ids, lengths):
        """For each token the last token of the chunk that it begins, or -1; its type."""
        outside = self._types * self._count
        if ids.max(initial=0) > outside:
            raise ValueError(f"chunk: the id {ids.max()} is more than {outside}, which is no chunk")
        types, tags = np.divmod(ids, self._count)
        inside = types != self._types
        first = np.zeros(len(ids) + 1, bool)
        first[np.cumsum(lengths)] = first[:1] = True
        parted = first.copy()
        parted[1:-1] |= types[1:] != types[:-1]
        parted[1:-1] |= self._breaks(tags[:-1], tags[1:])
        begins, ends = parted[:-1] & inside, parted[1:] & inside
        last = np.full(len(ids), -1)
        last[begins] = np.flatnonzero(ends)
        last[np.isin(types, self._excluded)] = -1
        return last, types

    def _breaks(self, before, after):
        """Whether a new chunk begins between two tokens of one type."""
        return self._is(before, "ES") | self._is(after, "BS")

    def _is(self, tags, names):
        return np.isin(tags, [k for k, tag in enumerate(self._tags) if tag in names])


@evaluator
def ctc_error(input, label, name=None):
    """The distance of best paths to labels, by sequence: means over sequences.

    A best path is the largest column of each row, repeats joined and the last column, blank,
    dropped. `error` counts all edits, `deletion_error`, `insertion_error` and
    `substitution_error` each kind, over the longer of path and label; `sequence_error` is the
    share of sequences with any.
    """
    check_rows("ctc_error", input)
    wanted = ids_of("ctc_error", label)
    lengths = [sequences_of("ctc_error", x).lengths for x in (input, label)]
    blank = input.size - 1
    declare(
        "ctc_edit_distance",
        "ctc_error",
        name,
        [input, label],
        (pd.arg_max(input, 1), lengths[0], wanted, lengths[1]),
        lambda: Sums(5, _ctc_scores, lambda *arrays: _ctc_sums(blank, *arrays)),
    )


def _ctc_scores(deleted, inserted, substituted, wrong, count):
    kinds = deleted, inserted, substituted
    return {
        "error": share(np.sum(kinds), count),
        "deletion_error": share(deleted, count),
        "insertion_error": share(inserted, count),
        "substitution_error": share(substituted, count),
        "sequence_error": share(wrong, count),
    }


def _ctc_sums(blank, best, steps, label, lengths):
    """Sums over sequences of each kind of edits over the length, and of sequences with edits."""
    rates = np.zeros((len(lengths), 3))
    paths, labels = pieces(best, steps), pieces(label, lengths)
    for k, (path, wanted) in enumerate(zip(paths, labels, strict=True)):
        found = collapse(path, blank)
        rates[k] = np.array(edits(wanted, found)) / max(len(wanted), len(found), 1)
    return *rates.sum(axis=0), rates.any(axis=1).sum(), len(lengths)


def collapse(path, blank):
    """A path without repeats, then without blanks."""
    new = np.ones(len(path), bool)
    new[1:] = path[1:] != path[:-1]
    return path[new & (path != blank)]


def edits(wanted, found):
    """(deletions, insertions, substitutions) from one sequence to another, their distance in all.

    As in 2017, what counts as deleted or inserted is only by how much the lengths differ.
    """
    longer = len(wanted) - len(found)
    return max(longer, 0), max(-longer, 0), _distance(wanted, found) - abs(longer)


def _distance(wanted, found):
    """Levenshtein's distance, by the edits from each start of one sequence to each of the other."""
    columns = np.arange(len(found) + 1)
    above = columns
    for i, item in enumerate(wanted, 1):
        best = np.minimum(above[1:] + 1, above[:-1] + (found != item))
        # an insertion costs 1 for each column that it goes to the right
        above = np.minimum.accumulate(np.concatenate([[i], best]) - columns) + columns
    return int(above[-1])
