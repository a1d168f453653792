"""Beam search: the most probable sequences of words, in one loop over all samples and beams."""

from dataclasses import dataclass

import numpy as np

from ..graph.node import apply, refined
from ..graph.variable import Variable, constant, fresh_dim
from . import math as m
from .control import while_loop
from .index import gather, gather_elements
from .reduce import reduce_max, reduce_min
from .sequence.segments import Segments
from .shape import arange, concat, expand, reshape, size_of, slice, unsqueeze

_NONE = np.float32(-np.inf)  # the score of a path that is not there


@dataclass(frozen=True)
class Beams:
    """The best paths of each sample, the best first.

    `scores` float32 [B, K] are sums of ln p, -inf for no path; `lengths` int64 [B, K] count the
    end mark; `words` int64 and `log_p` float32 are [B, K, M] with what counts in front.
    """

    scores: Variable
    lengths: Variable
    words: Variable
    log_p: Variable

    def rows(self, count):
        """The words of the best `count` paths of each sample back to back: (words, Segments)."""
        taken, where = self._taken(count, 0)
        return gather(reshape(self.words, [-1]), where), taken

    def framed(self, count):
        """The best `count` paths of each sample as [length, words…, -1], and the ln p of the words
        with -1.0 behind them: (int64 rows, float32 rows, Segments of the samples in the former)."""
        padded = concat([self.words, _last_column(self.words, -1)], axis=2)
        ending = m.equal(arange(self._width + 1), unsqueeze(self.lengths, 2))
        padded = m.where(ending, np.int64(-1), padded)
        framed = concat([unsqueeze(self.lengths, 2), padded], axis=2)
        taken, where = self._taken(count, 2)
        log_p = concat([self.log_p, _last_column(self.log_p, -1)], axis=2)
        log_p = m.where(ending, np.float32(-1), log_p)
        _, inner = self._taken(count, 1)
        flat = [reshape(x, [-1]) for x in (framed, log_p)]
        return gather(flat[0], where), gather(flat[1], inner), taken

    @property
    def _width(self):
        return self.words.dims[2]

    def _taken(self, count, extra):
        """Of the best paths, length + `extra` entries each: Segments of the samples, and the flat
        place of every entry."""
        there = m.logical_and(
            m.greater_than(self.scores, _NONE), m.less_than(arange(self.scores.dims[1]), count)
        )
        sizes = m.where(there, m.add(self.lengths, extra), np.int64(0))
        paths = Segments(reshape(sizes, [-1]))
        where = m.add(m.mul(paths.owner, self._width + extra), paths.position)
        samples = Segments(apply("ReduceSum", sizes, np.array([1]), keepdims=0), paths.tokens)
        return samples, where


def beam_search(step, states, samples, bos, eos, beam_size, max_length) -> Beams:
    """Search for probable sequences of words, K = `beam_size` open paths a sample.

    step(words int64 [B K], states) -> (probabilities [B K, V], new states), rows of states being
    [B K, ...] too; `samples` is B, int64 [1]. A path ends with the word `eos` or at `max_length`
    words; scores are not normalised by length. A sample is done when it has K ended paths and
    none of its open ones is better than all of them.
    """
    search = _Search(step, samples, eos, beam_size, max_length)
    final = while_loop(search.going, search.advance, search.start(states, bos))
    return Beams(*final[5:9])


class _Search:
    """The state is [step, scores, words, log_p of open paths, last words, the same of ended paths,
    the worst score among these, the caller's states]."""

    def __init__(self, step, samples, eos, beam_size, max_length):
        self.step, self.samples, self.eos = step, samples, eos
        self.k, self.length = beam_size, max_length
        self.batch = fresh_dim()

    def start(self, states, bos):
        """One path with the score 0 a sample."""
        k, length = self.k, self.length
        first = np.full((1, k), _NONE)
        first[0, 0] = 0
        return [
            constant(np.int64(0)),
            self._filled(first),
            self._filled(np.zeros((1, k, length), np.int64)),
            self._filled(np.zeros((1, k, length), np.float32)),
            self._filled(np.full((1, k), bos, np.int64)),
            self._filled(np.full((1, k), _NONE)),
            self._filled(np.zeros((1, k), np.int64)),
            self._filled(np.zeros((1, k, length), np.int64)),
            self._filled(np.zeros((1, k, length), np.float32)),
            self._filled(np.zeros((1, 1), np.float32)),
            *states,
        ]

    def _filled(self, row):
        out = expand(
            constant(row), concat([self.samples, constant(np.array(row.shape[1:], np.int64))])
        )
        out = refined(out, (self.batch, *row.shape[1:]))
        return out

    def going(self, number, scores, *_):
        """Whether any path is open."""
        best = reduce_max(concat([reshape(scores, [-1]), constant(np.full(1, _NONE))]), [0])
        return m.greater_than(best, _NONE)

    def advance(self, number, scores, words, log_p, last, *rest):
        """Every open path with its K most probable next words."""
        ended_scores, ended_lengths, ended_words, ended_log_p, worst, *states = rest
        p, new_states = self.step(reshape(last, [-1]), states)
        grown = _Grown(number, words, log_p, *self._next_words(p))
        number = m.add(number, 1)
        found = m.add(grown.repeated(scores), grown.gain)
        ends = m.logical_or(m.equal(grown.word, self.eos), m.equal(number, self.length))
        ending = m.where(ends, found, _NONE)
        scores, chosen = _top(m.where(ends, _NONE, found), self.k)
        high = reduce_max(scores, [1], keep_dim=True)
        low = reduce_min(m.where(m.greater_than(scores, _NONE), scores, -_NONE), [1], True)
        limit = m.where(m.greater_than(high, _NONE), low, _NONE)
        kept, place = _top(concat([ended_scores, ending], axis=1), self.k)
        kept = m.where(m.greater_equal(kept, limit), kept, _NONE)
        counts = m.logical_and(m.greater_equal(ending, limit), m.greater_than(ending, _NONE))
        worst = m.minimum(worst, reduce_min(m.where(counts, ending, np.float32(0)), [1], True))
        full = m.greater_than(reduce_min(kept, [1], True), _NONE)
        scores = m.where(m.logical_and(full, m.greater_equal(worst, high)), _NONE, scores)
        old = m.less_than(place, self.k)
        ended_lengths = m.where(old, _pick(ended_lengths, m.minimum(place, self.k - 1)), number)
        ended = grown.ended(place, old, ended_words, ended_log_p)
        open_paths, parent = grown.chosen(chosen)
        moved = [gather(s, reshape(parent, [-1])) for s in new_states]
        last = _pick(grown.word, chosen)
        return [number, scores, *open_paths, last, kept, ended_lengths, *ended, worst, *moved]

    def _next_words(self, p):
        """The most probable next words of each path, int64 [B, K, n], and their ln p."""
        best, index = _top(p, min(self.k, p.dims[1]))
        shape = [-1, self.k, best.dims[1]]
        return reshape(index, shape), reshape(m.log(best), shape)


class _Grown:
    """Open paths [B, K, M] and the n words that may follow each, [B, K, n]; places [B, K n]."""

    def __init__(self, number, words, log_p, word, gain):
        self.words, self.log_p = words, log_p
        self.k, self.n = word.dims[1:]
        self.word, self.gain = (reshape(x, [-1, self.k * self.n]) for x in (word, gain))
        self.here = m.equal(arange(words.dims[2]), number)  # the column of the next word, bool [M]

    def repeated(self, scores):
        """scores [B, K] for each of the following words, [B, K n]."""
        wide = expand(unsqueeze(scores, 2), [1, 1, self.n])
        return reshape(wide, [-1, self.k * self.n])

    def chosen(self, place):
        """The paths that end in the words at these places [B, K], and the flat numbers of the paths
        that they continue."""
        parent = m.div(place, self.n)
        return self._with_words(self.words, self.log_p, parent, place, None), _flat(parent, self.k)

    def ended(self, place, old, words, log_p):
        """Of ended paths [B, K, M] where `old`, and of those that end now, the ones at these places
        [B, K]: counted through the former, then the words that follow open paths."""
        behind = m.maximum(m.sub(place, self.k), 0)
        row = m.where(old, place, m.add(m.div(behind, self.n), self.k))
        both = [concat([a, b], axis=1) for a, b in ((words, self.words), (log_p, self.log_p))]
        return self._with_words(*both, row, behind, old)

    def _with_words(self, words, log_p, row, place, old):
        out = []
        for paths, following in ((words, self.word), (log_p, self.gain)):
            taken = gather(reshape(paths, [-1, paths.dims[2]]), _flat(row, paths.dims[1]))
            new = (
                self.here
                if old is None
                else m.logical_and(self.here, unsqueeze(m.logical_not(old), 2))
            )
            out.append(m.where(new, unsqueeze(_pick(following, place), 2), taken))
        return out


def _top(x, k):
    """The k greatest of each row, the greatest first, and where they stand, [B, k] each."""
    known = [(x.dims[0], k)] * 2
    return apply("TopK", x, np.array([k]), outputs=2, axis=1, known=known)


def _pick(x, places):
    """x [B, N] at places [B, K] of its rows."""
    return gather_elements(x, places, 1)


def _flat(places, size):
    """Places [B, K] in the rows of a [B, size] as places in its flattened form."""
    rows = arange(size_of(places, 0))
    return m.add(unsqueeze(m.mul(rows, size), 1), places)


def _last_column(x, value):
    """A column of [B, K, M] with one value, [B, K, 1]."""
    return m.add(m.mul(slice(x, [0], [1], [2]), np.zeros((), x.dtype)), np.array(value, x.dtype))
