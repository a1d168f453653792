"""Beam search: the most probable sequences of words, in one loop over all samples and beams.

`/` of integer Variables rounds toward zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph.node import apply, refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, fresh_dim
from . import math as m
from .control import while_loop
from .gather import gather, gather_elements
from .reduce import reduce_max, reduce_min
from .sequence.segments import Segments
from .shape import arange, concat, expand, reshape, size_of, slice, unsqueeze

_NO_PATH = np.float32(-np.inf)  # the score of an unused slot of the beam


@dataclass(frozen=True)
class Beams:
    """The best paths of each sample, the best first.

    `scores` float32 [B, K] are sums of ln p, -inf for no path; `lengths` int64 [B, K] include the
    end mark; `words` int64 and `log_p` float32 are [B, K, M], padded at the end.
    """

    scores: Variable
    lengths: Variable
    words: Variable
    log_p: Variable

    def rows(self, count: int) -> tuple[Variable, Segments]:
        """Pack the words of the best `count` paths of each sample: (words, Segments)."""
        samples, index = self._packed(count, 0)
        return gather(reshape(self.words, [-1]), index), samples

    def framed(self, count: int) -> tuple[Variable, Variable, Segments]:
        """Pack the best `count` paths of each sample in 2017's format.

        (int64 rows [length, words…, -1], float32 rows of the words' ln p and -1.0, Segments of the
        samples in the former).
        """
        padded = concat([self.words, _last_column(self.words, -1)], axis=2)
        ending = m.equal(arange(self._width + 1), unsqueeze(self.lengths, 2))
        padded = m.where(ending, np.int64(-1), padded)
        framed = concat([unsqueeze(self.lengths, 2), padded], axis=2)
        samples, index = self._packed(count, 2)
        log_p = concat([self.log_p, _last_column(self.log_p, -1)], axis=2)
        log_p = m.where(ending, np.float32(-1), log_p)
        _, log_p_index = self._packed(count, 1)
        framed, log_p = (reshape(x, [-1]) for x in (framed, log_p))
        return gather(framed, index), gather(log_p, log_p_index), samples

    def best_lengths(self, count: int) -> Variable:
        """Return the lengths of the best `count` paths of each sample, 0 for no path, [B, K]."""
        best = m.logical_and(self.scores > _NO_PATH, arange(self.scores.dims[1]) < count)
        return m.where(best, self.lengths, np.int64(0))

    @property
    def _width(self):
        return self.words.dims[2]

    def _packed(self, count, extra):
        """Pack the first length + `extra` entries of each of the best paths.

        Returns the Segments of the samples, and the flat index of every entry.
        """
        lengths = self.best_lengths(count)
        sizes = m.where(lengths > 0, lengths + extra, np.int64(0)) if extra else lengths
        paths = Segments(reshape(sizes, [-1]))
        index = paths.owner * (self._width + extra) + paths.position
        samples = Segments(apply("ReduceSum", sizes, np.array([1]), keepdims=0), paths.tokens)
        return samples, index


@op
def beam_search(
    step: Callable,
    states: Sequence[Operand],
    samples: Variable,
    bos: int,
    eos: int,
    beam_size: int,
    max_length: int,
) -> Beams:
    """Search for the most probable sequences of words, with K = `beam_size` beams per sample.

    step(words int64 [B K], states) -> (probabilities [B K, V], new states), where states are lists
    of [B K, ...], the first ones too: `pd.repeat(x, K)` of what is [B, ...]. `samples` is B, int64
    [1]. A path starts after the word `bos` and ends with `eos`
    or at `max_length` words; scores are not normalised by length. A sample is done when it has K
    ended paths and all of them are at least as good as its open ones.
    """
    search = _Search(step, samples, eos, beam_size, max_length)
    final = while_loop(search.going, search.advance, search.start(states, bos))
    return Beams(*final[5:9])


class _Search:
    """The loop of a search and its state.

    The state is [step; scores, words, log_p and last words of open paths; scores, lengths, words
    and log_p of ended paths; the worst score of any path that ended; the caller's states].
    """

    def __init__(self, step, samples, eos, beam_size, max_length):
        self.step, self.samples, self.eos = step, samples, eos
        self.k, self.length = beam_size, max_length
        self.batch = fresh_dim()

    def start(self, states, bos):
        """Start with one path of score 0 per sample."""
        k, length = self.k, self.length
        first = np.full((1, k), _NO_PATH)
        first[0, 0] = 0
        return [
            constant(np.int64(0)),
            self._filled(first),
            self._filled(np.zeros((1, k, length), np.int64)),
            self._filled(np.zeros((1, k, length), np.float32)),
            self._filled(np.full((1, k), bos, np.int64)),
            self._filled(np.full((1, k), _NO_PATH)),
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
        """Check if any path is open."""
        best = reduce_max(concat([reshape(scores, [-1]), constant(np.full(1, _NO_PATH))]), [0])
        return best > _NO_PATH

    def advance(self, number, scores, words, log_p, last, *rest):
        """Extend every open path by its K most probable next words, and keep the best."""
        ended_scores, ended_lengths, ended_words, ended_log_p, worst, *states = rest
        p, new_states = self.step(reshape(last, [-1]), states)
        extended = _Extended(number, words, log_p, *self._next_words(p))
        number = number + 1
        candidates = extended.repeated(scores) + extended.gain
        ends = m.logical_or(m.equal(extended.word, self.eos), m.equal(number, self.length))
        ending = m.where(ends, candidates, _NO_PATH)
        scores, selected = _top(m.where(ends, _NO_PATH, candidates), self.k)
        high = reduce_max(scores, [1], keep_dim=True)
        low = reduce_min(m.where(scores > _NO_PATH, scores, -_NO_PATH), [1], True)
        limit = m.where(high > _NO_PATH, low, _NO_PATH)
        kept, index = _top(concat([ended_scores, ending], axis=1), self.k)
        kept = m.where(kept >= limit, kept, _NO_PATH)
        counts = m.logical_and(ending >= limit, ending > _NO_PATH)
        worst = m.minimum(worst, reduce_min(m.where(counts, ending, np.float32(0)), [1], True))
        full = reduce_min(kept, [1], True) > _NO_PATH
        scores = m.where(m.logical_and(full, worst >= high), _NO_PATH, scores)
        old = index < self.k
        ended_lengths = m.where(old, _pick(ended_lengths, m.minimum(index, self.k - 1)), number)
        ended = extended.ended(index, old, ended_words, ended_log_p)
        open_paths, parent = extended.selected(selected)
        new_states = [gather(s, reshape(parent, [-1])) for s in new_states]
        last = _pick(extended.word, selected)
        return [number, scores, *open_paths, last, kept, ended_lengths, *ended, worst, *new_states]

    def _next_words(self, p):
        """Return the n most probable next words of each path, int64 [B, K, n], and their ln p."""
        best, index = _top(p, min(self.k, p.dims[1]))
        shape = [-1, self.k, best.dims[1]]
        return reshape(index, shape), reshape(m.log(best), shape)


class _Extended:
    """Open paths [B, K, M] and n next words of each, `word` and their ln p `gain`, [B, K n]."""

    def __init__(self, number, words, log_p, word, gain):
        self.words, self.log_p = words, log_p
        self.k, self.n = word.dims[1:]
        self.word, self.gain = (reshape(x, [-1, self.k * self.n]) for x in (word, gain))
        self.at_end = m.equal(arange(words.dims[2]), number)  # the next word's column, bool [M]

    def repeated(self, scores):
        """Repeat scores [B, K] for each of the next words, [B, K n]."""
        wide = expand(unsqueeze(scores, 2), [1, 1, self.n])
        return reshape(wide, [-1, self.k * self.n])

    def selected(self, index):
        """Return the paths extended by the next words at an index [B, K], and flat parents."""
        parent = m.quotient(index, self.n)
        return self._with_words(self.words, self.log_p, parent, index, None), _flat(parent, self.k)

    def ended(self, index, old, words, log_p):
        """Return the ended paths at an index [B, K] of K + K n candidates.

        These are the K paths that ended before, [B, K, M], which `old` marks in the index, then the
        extended ones.
        """
        extended = m.maximum(index - self.k, 0)
        row = m.where(old, index, m.quotient(extended, self.n) + self.k)
        words, log_p = concat([words, self.words], axis=1), concat([log_p, self.log_p], axis=1)
        return self._with_words(words, log_p, row, extended, old)

    def _with_words(self, words, log_p, row, index, old):
        """Gather paths at a row [B, K], and append next words at an index to those not `old`."""
        out = []
        for paths, following in ((words, self.word), (log_p, self.gain)):
            parents = gather(reshape(paths, [-1, paths.dims[2]]), _flat(row, paths.dims[1]))
            new = (
                self.at_end
                if old is None
                else m.logical_and(self.at_end, unsqueeze(m.logical_not(old), 2))
            )
            out.append(m.where(new, unsqueeze(_pick(following, index), 2), parents))
        return out


def _top(x, k):
    """Return the k largest of each row, the largest first, and their indices, [B, k] each."""
    known = [(x.dims[0], k)] * 2
    return apply("TopK", x, np.array([k]), outputs=2, axis=1, known=known)


def _pick(x, index):
    """Gather x [B, N] at an index [B, K] of each row."""
    return gather_elements(x, index, 1)


def _flat(index, size):
    """Turn an index [B, K] of the rows of a [B, size] into one of its flattened form."""
    rows = arange(size_of(index, 0))
    return unsqueeze(rows * size, 1) + index


def _last_column(x, value):
    """Return a column of one value for x [B, K, M], [B, K, 1]."""
    return slice(x, [0], [1], [2]) * np.zeros((), x.dtype) + np.array(value, x.dtype)
