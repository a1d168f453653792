"""A recurrent step, given as a subgraph, unrolled along packed sequences.

Only the true recurrence becomes a loop. What does not depend on a state is computed for all tokens
at once before it, and what no state depends on is computed for all tokens at once after it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from warnings import warn

import numpy as np

from ...graph.node import ancestors
from ...graph.op import op
from ...graph.rewrite import substitute
from ...graph.variable import Variable, constant
from ..assigned import assigning
from ..control import inside_loop, loop_counters, outside_loop
from .chunked_scan import scan_bounded
from .segments import Segments


@dataclass
class State:
    """A value carried from step to step: `init` [B, ...] at first, `new` replaces `placeholder`."""

    placeholder: Variable
    init: Variable | None
    new: Variable | None = None

    @property
    def formal(self) -> Variable:
        """The former name of `placeholder`."""
        warn("State.formal is State.placeholder", DeprecationWarning, stacklevel=2)
        return self.placeholder


@dataclass
class Step:
    """One step of a recurrence: a subgraph on placeholders with a row for each sequence, [B, ...].

    `inputs` maps the placeholder of one step's input to the packed values [T, ...], `states` are
    carried, `fixed` values are the same in every step. `row_wise` lists, in topological order,
    values of which row k depends only on row k of inputs, states, fixed, `per_step` and other
    row-wise values; `per_step` values have a row for each sequence too, but mix rows, and are
    computed step by step.

    `bounded` promises that states stay finite on any input, and `independent` that besides fixed
    values the step captures nothing with a row for each sequence: with both, and nothing that mixes
    rows, `scan_bounded` runs the loop.
    """

    inputs: dict[Variable, Variable] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    fixed: list[Variable] = field(default_factory=list)
    row_wise: list[Variable] = field(default_factory=list)
    per_step: list[Variable] = field(default_factory=list)
    bounded: bool = False
    independent: bool = False
    number: Variable = field(default_factory=lambda: Variable.of((), np.int64, "step"))

    def counted(self) -> AbstractContextManager[None]:
        """Enter the construction of the step: random draws in it are fresh in every step."""
        return inside_loop(self.number)

    def uncounted(self) -> AbstractContextManager[None]:
        """Leave the construction of the step for a while, to build what does not belong to it."""
        return outside_loop(self.number)

    def varies(self, value: Variable) -> bool:
        """Check whether a value depends on a frame, on a state or on the number of the step."""
        read = {value, *(x for node in ancestors([value]) for x in node.inputs)}
        own = {*self.inputs, *(s.placeholder for s in self.states), self.number}
        return not own.isdisjoint(read)

    def at(self, targets: Sequence[Variable], values: Sequence[Variable]) -> list[Variable]:
        """Compute the targets for these values of the states, inside a loop."""
        replaced = dict(zip([s.placeholder for s in self.states], values, strict=True))
        replaced[self.number] = loop_counters()[-1]
        return substitute(targets, replaced, stop=set(replaced))


@op
def unroll(
    step: Step, outputs: Sequence[Variable], sequences: Segments, reverse: bool = False
) -> list[Variable]:
    """Run a step along packed sequences: the values [T, ...] of its `outputs`, for all tokens."""
    return _Unrolled(step, sequences, reverse).run(list(outputs))


class _Unrolled:
    """The values of a step for all tokens: `packed` those computed so far, `fixed` the repeated."""

    def __init__(self, step, sequences, reverse):
        self.step, self.sequences, self.reverse = step, sequences, reverse
        self.states = [s.placeholder for s in step.states]
        self.dependencies = self._dependencies()
        self.packed = dict(step.inputs)  # value of the step -> for all tokens
        self.fixed = dict.fromkeys(step.fixed)  # value of the step -> repeated for each token
        self.recurrent = {*self.states, *step.per_step}

    def run(self, outputs):
        """Build what comes before the loop, the loop, and what comes after it."""
        before = self._partition()
        self._vectorize(before)
        after = self._after(outputs)
        wanted = [v for v in outputs if v not in after]
        wanted += [x for v in after for x in self.dependencies[v] if x not in after]
        self._loop([v for v in dict.fromkeys(wanted) if v not in self.packed | self.fixed])
        self._vectorize([v for v in outputs if v in after])
        return [self._for_all_tokens(v) for v in outputs]

    def _dependencies(self):
        """The step's own values from which each row-wise value is computed directly."""
        step = self.step
        own = {*step.inputs, *self.states, *step.fixed, *step.row_wise, *step.per_step}
        dependencies = {}
        for v in self.step.row_wise:
            behind = ancestors([v], stop=own - {v})
            read = dict.fromkeys(x for node in behind for x in node.inputs if x in own)
            dependencies[v] = [x for x in read if x is not v]
        return dependencies

    def _partition(self):
        """Return the row-wise values that depend on tokens but on no state.

        Mark those that depend on a state as recurrent, those that depend on neither as fixed.
        """
        before = []
        for v in self.step.row_wise:
            reads = self.dependencies[v]
            if not self.recurrent.isdisjoint(reads):
                self.recurrent.add(v)
            elif any(x in self.step.inputs or x in before for x in reads):
                before.append(v)
            else:
                self.fixed[v] = None
        return before

    def _after(self, outputs):
        """Return the recurrent row-wise values on which neither a state depends nor an output that
        is not row-wise."""
        row_wise = set(self.step.row_wise)
        roots = [s.new for s in self.step.states] + [v for v in outputs if v not in row_wise]
        stop = {*self.packed, *self.states, *self.fixed} - set(roots)
        inside = {y for node in ancestors(roots, stop=stop) for y in node.outputs} | set(roots)
        after = [v for v in self.step.row_wise if v in self.recurrent and v not in inside]
        return dict.fromkeys(after)

    def _loop(self, wanted):
        """Build the loop; it computes the `wanted` values."""
        if not wanted:
            return
        targets = [s.new for s in self.step.states] + wanted
        stop = {*self.packed, *self.states, *self.fixed}
        read = {x for node in ancestors(targets, stop=stop) for x in node.inputs} | set(targets)
        xs = [v for v in self.packed if v in read]
        moving = [a for node in ancestors(targets, stop=stop) for a in node.effects]

        def body(states, slices):
            replaced = dict(zip([*self.states, *xs], [*states, *slices], strict=True))
            replaced[self.step.number] = loop_counters()[-1]
            rows = slices[0].dims[0] if slices else self.sequences.lengths.dims[0]
            found = self._replaced([*targets, *[a.value for a in moving]], replaced, rows)
            out, moved = tuple(found[: len(targets)]), found[len(targets) :]
            out = assigning(out, [a.variable for a in moving], moved)
            return list(out[: len(states)]), list(out[len(states) :])

        init, slices = [s.init for s in self.step.states], [self.packed[v] for v in xs]
        step = self.step
        may_reorder = step.bounded and step.independent and not step.per_step
        if may_reorder and xs and read.isdisjoint(self.fixed):
            ys = scan_bounded(self.sequences, body, init, slices, self.reverse)
        else:
            _, ys = self.sequences.scan(body, init, slices, self.reverse, not self.step.bounded)
        self.packed.update(zip(wanted, ys, strict=True))

    def _vectorize(self, values):
        """Compute row-wise values for all tokens at once."""
        values = [v for v in values if v not in self.packed]
        repeated = {v: self._for_all_tokens(v) for v in self._fixed_behind(values)}
        replaced = {**self.packed, **repeated}
        replaced[self.step.number] = constant(np.int64(0))
        computed = self._replaced(values, replaced, self.sequences.tokens)
        self.packed.update(zip(values, computed, strict=True))

    def _replaced(self, values, given, rows):
        """Compute the values of the step from others than its placeholders, `given` by these.

        The others have `rows` rows, where the placeholders have one for each sequence.
        """
        sizes = {self.sequences.lengths.dims[0]: rows}
        return substitute(values, given, stop=set(given), sizes=sizes)

    def _fixed_behind(self, values):
        """Return the fixed values from which these values are computed outside the loop."""
        fixed: dict[Variable, None] = {}
        stack, seen = list(values), set()
        while stack:
            v = stack.pop()
            if v in seen or v in self.packed:
                continue
            seen.add(v)
            if v in self.fixed:
                fixed[v] = None
            else:
                stack += self.dependencies.get(v, [])
        return fixed

    def _for_all_tokens(self, v):
        """Return a value for all tokens; a fixed one is repeated."""
        if v in self.packed:
            return self.packed[v]
        if self.fixed[v] is None:
            self.fixed[v] = self.sequences.repeat(v)
        return self.fixed[v]
