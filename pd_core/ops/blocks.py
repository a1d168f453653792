"""Loops described in a `with` block: recurrent networks, and while."""

from contextlib import contextmanager

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.node import refined
from ..graph.rewrite import substitute
from ..graph.variable import Variable, constant
from .control import scan, while_loop
from .index import gather
from .shape import concat, expand, size_of


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
        _check_updated("rnn", self._memories)
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
                init = refined(init, (batch_ref.dims[0], *shape))
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
        old = [*self.formals, *self.slices]
        given = dict(zip(old, [*states, *xs], strict=True))
        new = [m.new for m in self.block._memories]
        out = substitute([*new, *self.block._outputs], given, stop=set(old))
        return out[: len(new)], out[len(new) :]


class while_op:
    """A loop with a condition.

    Inside `with w.stepnet():` `add_memory(init)` gives a state, `condition(c)` says, from the
    states before a step, whether it is made, and each memory's `update` what it leaves; then `w()`
    is the list of final states. The same as `while_loop`, which takes functions.
    """

    def __init__(self):
        self._memories, self._condition, self._open = [], None, False

    @contextmanager
    def stepnet(self):
        """The block that describes one step."""
        self._open = True
        try:
            yield self
        finally:
            self._open = False

    def add_memory(self, init) -> Memory:
        """A state that starts from `init`."""
        self._check_open("add_memory")
        init = constant(init)
        memory = Memory(self, Variable.of(init.dims, init.dtype, "memory"), init)
        self._memories.append(memory)
        return memory

    def condition(self, value):
        """Whether a step is made: a bool of one element, from the states before it."""
        self._check_open("condition")
        self._condition = value

    def __call__(self) -> list:
        if self._open or self._condition is None:
            raise GraphError("while_op: describe a condition in `with w.stepnet():` first")
        _check_updated("while_op", self._memories)
        formals = [m.pre_state() for m in self._memories]

        def described(outputs):
            return lambda *states: substitute(
                outputs, dict(zip(formals, states, strict=True)), stop=set(formals)
            )

        condition, body = described([self._condition]), described([m.new for m in self._memories])
        init = [m.init for m in self._memories]
        return while_loop(lambda *states: condition(*states)[0], body, init)

    def _check_open(self, what):
        if not self._open:
            raise GraphError(f"while_op: {what} belongs inside `with w.stepnet():`")


def _check_updated(who, memories):
    for m in memories:
        if m.new is None:
            raise GraphError(f"{who}: the memory {m.pre_state()!r} is never updated")
