"""A recurrent network as a `with` block, and row-wise branches."""

from contextlib import contextmanager

import numpy as np

from ..errors import GraphError, ShapeError
from ..node import apply
from ..variable import Variable, constant, fresh_dim
from .control import scan
from .index import gather
from .math import cast, logical_not
from .shape import concat, expand, reshape, size_of


class Memory:
    """A state of a recurrent block: `pre_state()` is its value before the step."""

    def __init__(self, rnn, formal, init):
        self._rnn, self._formal, self.init, self.new = rnn, formal, init, None

    def pre_state(self) -> Variable:
        """The value that the last step left, at first the initial one."""
        return self._formal

    def update(self, value):
        """Say what the step leaves; once a step."""
        self._rnn._check_open("update")
        if self.new is not None:
            raise GraphError("rnn: a memory is updated twice in one step")
        if value.rank != self._formal.rank:
            raise ShapeError(f"rnn: a memory of {self._formal!r} cannot take {value!r}")
        self.new = value


class rnn:
    """A network repeated along the first axis of its inputs.

    Inside `with r.step():` `add_input` gives one slice of a sequence, `add_memory` a state,
    `add_outputs` says what each step gives; then `r()` is the list of stacked outputs, or with
    output_all_steps=False those of the last step.
    """

    def __init__(self, reverse=False):
        self.reverse = reverse
        self._inputs, self._memories, self._outputs = [], [], []
        self._open = False

    @contextmanager
    def step(self):
        """The block that describes one step."""
        self._open = True
        try:
            yield self
        finally:
            self._open = False

    def add_input(self, x) -> Variable:
        """One slice of x along its first axis."""
        self._check_open("add_input")
        x = constant(x)
        if x.rank == 0:
            raise ShapeError(f"rnn: {x!r} has no axis of steps")
        formal = Variable.of(x.dims[1:], x.dtype, "x")
        self._inputs.append((x, formal))
        return formal

    def add_memory(self, init=None, shape=None, batch_ref=None, value=0.0) -> Memory:
        """A state that starts from `init`, or from `value` in [batch of batch_ref, *shape]."""
        self._check_open("add_memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise GraphError("rnn: a memory needs init, or shape and batch_ref")
            init = self._filled(shape, batch_ref, value)
        memory = Memory(self, Variable.of(init.dims, init.dtype, "memory"), init)
        self._memories.append(memory)
        return memory

    def add_outputs(self, *values):
        """What each step gives."""
        self._check_open("add_outputs")
        self._outputs += values

    def __call__(self, output_all_steps=True) -> list:
        if self._open or not self._inputs or not self._outputs:
            raise GraphError("rnn: describe inputs and outputs in `with r.step():` first")
        for m in self._memories:
            if m.new is None:
                raise GraphError(f"rnn: the memory {m.pre_state()!r} is never updated")
        xs, slices = zip(*self._inputs, strict=True)
        states = [m.init for m in self._memories]
        formals = [m.pre_state() for m in self._memories]
        _, stacked = scan(_Described(self, formals, slices), states, list(xs), self.reverse)
        if output_all_steps:
            return stacked
        last = 0 if self.reverse else -1
        return [gather(y, np.int64(last)) for y in stacked]

    def _filled(self, shape, batch_ref, value):
        """The initial state, outside the loop: the batch is an axis of the whole input."""
        for x, formal in self._inputs:
            if formal is batch_ref:
                rows = size_of(x, 1)
                sizes = concat([rows, constant(np.array(shape, np.int64))])
                init = expand(constant(value, np.float32), sizes)
                init.dims = (batch_ref.dims[0], *shape)
                return init
        raise GraphError("rnn: batch_ref is a slice that add_input gave")

    def _check_open(self, what):
        if not self._open:
            raise GraphError(f"rnn: {what} belongs inside `with r.step():`")


class _Described:
    """A step that was described already, with its own formals in the place of the loop's."""

    def __init__(self, block, formals, slices):
        self.block, self.formals, self.slices = block, formals, slices

    def __call__(self, states, xs):
        from ..rewrite import substitute

        old = [*self.formals, *self.slices]
        given = dict(zip(old, [*states, *xs], strict=True))
        new = [m.new for m in self.block._memories]
        out = substitute([*new, *self.block._outputs], given, stop=set(old))
        return out[: len(new)], out[len(new) :]


class ifelse:
    """Branches by row: each sees only its rows, and the results stand in the original order.

    `condition` is bool [N] or [N, 1]. In `with i.true_block():` and `with i.false_block():`,
    `i.input(x)` gives the rows of x of that branch and `i.output(...)` its results; then `i()` is
    the list of merged results. A branch without rows is run with none.
    """

    def __init__(self, condition):
        condition = constant(condition)
        if condition.dtype != np.bool_ or condition.rank not in (1, 2):
            raise GraphError(f"ifelse: the condition is bool [N] or [N, 1], not {condition!r}")
        flat = reshape(condition, [-1])
        self._rows = {True: _where(flat), False: _where(logical_not(flat))}
        self._outputs = {}
        self._side = None

    def true_block(self):
        """The block of the rows where the condition holds."""
        return self._block(True)

    def false_block(self):
        """The block of the other rows."""
        return self._block(False)

    @contextmanager
    def _block(self, side):
        self._side = side
        try:
            yield self
        finally:
            self._side = None

    def input(self, x) -> Variable:
        """The rows of x that belong to this branch."""
        if self._side is None:
            raise GraphError("ifelse: input belongs inside a block")
        return gather(x, self._rows[self._side])

    def output(self, *values):
        """What this branch gives for its rows."""
        if self._side is None:
            raise GraphError("ifelse: output belongs inside a block")
        self._outputs[self._side] = values

    def __call__(self) -> list:
        if len(self._outputs) != 2:
            raise GraphError("ifelse: both blocks must give an output")
        yes, no = self._outputs[True], self._outputs[False]
        if len(yes) != len(no):
            raise GraphError(f"ifelse: {len(yes)} outputs of one block, {len(no)} of the other")
        order = concat([self._rows[True], self._rows[False]])
        back = _inverse(order)
        return [gather(concat([a, b]), back) for a, b in zip(yes, no, strict=True)]


def _where(flags):
    """Indices where flags hold, int64[k]."""
    found = apply("NonZero", flags, known=(1, fresh_dim()))
    return reshape(found, [-1])


def _inverse(order):
    """The permutation that undoes another: where each index stands in it."""
    _, places = apply(
        "TopK", order, size_of(order, 0), outputs=2, axis=0, largest=0, sorted=1, known=order.dims
    )
    return cast(places, np.int64)
