"""A described step, run along packed sequences: only the true recurrence is a loop.

What depends on no state is computed for all tokens at once before the loop, and what no state
depends on after it, on the tokens that there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...graph.node import ancestors
from ...graph.rewrite import substitute
from ...graph.variable import Variable, constant
from ..control import counted, loop_counters, uncounted
from .segments import Segments
from .stretches import scan_bounded


@dataclass
class State:
    """A value carried from step to step: `formal` before a step, `new` after it."""

    formal: Variable
    init: Variable
    new: Variable | None = None


@dataclass
class Step:
    """One step of a recurrence, described on stand-ins whose rows are the sequences.

    `frames` maps the stand-in of a slice to the packed values, `states` are carried, `fixed` have
    a row for each sequence in every step. `row_wise` lists, in order, values whose row k depends
    on row k of other row-wise values, frames, states, fixed ones and those `by_step` only. These
    have a row for each sequence that is computed from more than such rows, step by step.
    `bounded` says that no state grows without limit, `apart` that of what the step reads only
    fixed values have to do with a certain sequence: then one that has ended need keep no state.
    """

    frames: dict = field(default_factory=dict)
    states: list = field(default_factory=list)
    fixed: list = field(default_factory=list)
    row_wise: list = field(default_factory=list)
    by_step: list = field(default_factory=list)
    bounded: bool = False
    apart: bool = False
    number: Variable = field(default_factory=lambda: Variable.of((), np.int64, "step"))

    def counted(self):
        """A context for the description: random draws in it are drawn anew in every step."""
        return counted(self.number)

    def uncounted(self):
        """A context, within the description, for what does not belong to the step."""
        return uncounted(self.number)

    def varies(self, value):
        """Whether a value depends on a frame, on a state or on the number of the step."""
        read = {value, *(x for node in ancestors([value]) for x in node.inputs)}
        own = {*self.frames, *(s.formal for s in self.states), self.number}
        return not own.isdisjoint(read)

    def at(self, targets, values):
        """The targets with these values in the place of the states, inside a loop."""
        given = dict(zip([s.formal for s in self.states], values, strict=True))
        given[self.number] = loop_counters()[-1]
        return substitute(targets, given, stop=set(given))


def unroll(step: Step, outputs: Sequence, sequences: Segments, reverse=False) -> list:
    """The packed values of some of the step's values, [T, ...] each."""
    return _Unrolled(step, sequences, reverse).packed(list(outputs))


class _Unrolled:
    def __init__(self, step, sequences, reverse):
        self.step, self.sequences, self.reverse = step, sequences, reverse
        self.states = [s.formal for s in step.states]
        self.reads = self._reads()
        self.moved = dict(step.frames)  # value of the step -> packed
        self.fixed = dict.fromkeys(step.fixed)  # value of the step -> repeated for each token
        self.recurrent = {*self.states, *step.by_step}

    def packed(self, outputs):
        """Before the loop, the loop, and after it."""
        before = self._sort()
        self._move(before)
        after = self._after(outputs)
        wanted = [v for v in outputs if v not in after]
        wanted += [x for v in after for x in self.reads[v] if x not in after]
        self._loop([v for v in dict.fromkeys(wanted) if v not in self.moved | self.fixed])
        self._move([v for v in outputs if v in after])
        return [self._whole(v) for v in outputs]

    def _reads(self):
        """The cut values that each row-wise value is computed from."""
        step = self.step
        cut = {*step.frames, *self.states, *step.fixed, *step.row_wise, *step.by_step}
        found = {}
        for v in self.step.row_wise:
            behind = ancestors([v], stop=cut - {v})
            read = dict.fromkeys(x for node in behind for x in node.inputs if x in cut)
            found[v] = [x for x in read if x is not v]
        return found

    def _sort(self):
        """What depends on tokens but on no state; what depends on neither is fixed."""
        before = []
        for v in self.step.row_wise:
            reads = self.reads[v]
            if not self.recurrent.isdisjoint(reads):
                self.recurrent.add(v)
            elif any(x in self.step.frames or x in before for x in reads):
                before.append(v)
            else:
                self.fixed[v] = None
        return before

    def _after(self, outputs):
        """Row-wise values that no state, and no output that is not row-wise, is computed from."""
        moving = set(self.step.row_wise)
        roots = [s.new for s in self.step.states] + [v for v in outputs if v not in moving]
        stop = {*self.moved, *self.states, *self.fixed} - set(roots)
        inside = {y for node in ancestors(roots, stop=stop) for y in node.outputs} | set(roots)
        after = [v for v in self.step.row_wise if v in self.recurrent and v not in inside]
        return dict.fromkeys(after)

    def _loop(self, wanted):
        """Run the recurrence; `wanted` are packed afterwards."""
        if not wanted:
            return
        targets = [s.new for s in self.step.states] + wanted
        stop = {*self.moved, *self.states, *self.fixed}
        read = {x for node in ancestors(targets, stop=stop) for x in node.inputs} | set(targets)
        xs = [v for v in self.moved if v in read]

        def body(states, slices):
            given = dict(zip([*self.states, *xs], [*states, *slices], strict=True))
            given[self.step.number] = loop_counters()[-1]
            rows = slices[0].dims[0] if slices else self.sequences.lengths.dims[0]
            out = self._replaced(targets, given, rows)
            return out[: len(states)], out[len(states) :]

        init, slices = [s.init for s in self.step.states], [self.moved[v] for v in xs]
        if self.step.bounded and self.step.apart and xs and read.isdisjoint(self.fixed):
            ys = scan_bounded(self.sequences, body, init, slices, self.reverse)
        else:
            _, ys = self.sequences.scan(body, init, slices, self.reverse, not self.step.bounded)
        self.moved.update(zip(wanted, ys, strict=True))

    def _move(self, values):
        """Compute row-wise values for all tokens at once."""
        values = [v for v in values if v not in self.moved]
        needed = self._fixed_behind(values)
        given = {**self.moved, **{v: self._whole(v) for v in needed}}
        given[self.step.number] = constant(np.int64(0))
        found = self._replaced(values, given, self.sequences.tokens)
        self.moved.update(zip(values, found, strict=True))

    def _replaced(self, values, given, rows):
        """The values with others in place of the given ones, which have `rows` rows where the
        step was described for as many as there are sequences."""
        sizes = {self.sequences.lengths.dims[0]: rows}
        return substitute(values, given, stop=set(given), sizes=sizes)

    def _fixed_behind(self, values):
        """The fixed values that some others are computed from outside the loop."""
        found, left, seen = {}, list(values), set()
        while left:
            v = left.pop()
            if v in seen or v in self.moved:
                continue
            seen.add(v)
            if v in self.fixed:
                found[v] = None
            else:
                left += self.reads.get(v, [])
        return found

    def _whole(self, v):
        """A value for each token; a fixed one is repeated."""
        if v in self.moved:
            return self.moved[v]
        if self.fixed[v] is None:
            self.fixed[v] = self.sequences.repeat(v)
        return self.fixed[v]
