"""`scan` and `while_loop` as `with` blocks: rnn and while_op."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.node import refined
from ..graph.rewrite import substitute
from ..graph.variable import Operand, Variable, constant
from .assigned import assigning, carried
from .control import scan, while_loop
from .gather import gather
from .mode import building_body
from .shape import concat, expand, size_of


class Memory:
    """A state of a loop block: its value before a step, and the value that the step gives it."""

    def __init__(self, block: "rnn | while_op", block_input: Variable, init: Variable):
        self._block, self._block_input, self.init = block, block_input, init
        self.new: Variable | None = None

    def pre_state(self) -> Variable:
        """Return the value before the step; in the first step the initial one."""
        return self._block_input

    def update(self, value: Variable) -> None:
        """Set the value after the step; once per block."""
        self._block._check_open("update")
        block = type(self._block).__name__
        if self.new is not None:
            raise GraphError(f"{block}: a memory is updated twice in one step")
        if value.rank != self._block_input.rank:
            raise ShapeError(f"{block}: a memory of {self._block_input!r} cannot take {value!r}")
        self.new = value


class rnn:
    """A recurrent network over the first axis of its inputs, as a `with` block over `scan`.

    Inside `with r.step():` `add_input` returns one slice of a sequence, `add_memory` a state, and
    `add_outputs` declares the outputs of a step; afterwards `r()` returns the list of stacked
    outputs, or with output_all_steps=False those of the last step.
    """

    def __init__(self, reverse: bool = False):
        self.reverse = reverse
        self._inputs: list[tuple[Variable, Variable]] = []
        self._memories: list[Memory] = []
        self._outputs: list[Variable] = []
        self._open = False

    @contextmanager
    def step(self) -> Iterator["rnn"]:
        """Open the block that describes one step."""
        self._open = True
        try:
            with building_body():
                yield self
        finally:
            self._open = False

    def add_input(self, x: Operand) -> Variable:
        """Add a sequence; return its slice of this step, along the first axis."""
        self._check_open("add_input")
        x = constant(x)
        if x.rank == 0:
            raise ShapeError(f"rnn: {x!r} has no axis of steps")
        block_input = Variable.of(x.dims[1:], x.dtype, "x")
        self._inputs.append((x, block_input))
        return block_input

    def add_memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        value: float = 0.0,
    ) -> Memory:
        """Add a state that starts from `init`, or from `value` in [batch of batch_ref, *shape]."""
        self._check_open("add_memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise GraphError("rnn: a memory needs init, or shape and batch_ref")
            init = self._filled(shape, batch_ref, value)
        memory = Memory(self, Variable.of(init.dims, init.dtype, "memory"), init)
        self._memories.append(memory)
        return memory

    def add_outputs(self, *values: Variable) -> None:
        """Declare outputs of a step."""
        self._check_open("add_outputs")
        self._outputs += values

    def __call__(self, output_all_steps: bool = True) -> list[Variable]:
        if self._open or not self._inputs or not self._outputs:
            raise GraphError("rnn: describe inputs and outputs in `with r.step():` first")
        _check_updated("rnn", self._memories)
        xs, slices = zip(*self._inputs, strict=True)
        states = [m.init for m in self._memories]
        block_inputs = [m.pre_state() for m in self._memories]
        _, stacked = scan(_RecordedStep(self, block_inputs, slices), states, list(xs), self.reverse)
        if output_all_steps:
            return stacked
        last = 0 if self.reverse else -1
        return [gather(y, np.int64(last)) for y in stacked]

    def _filled(self, shape, batch_ref, value):
        """Fill an initial state outside the loop, where batch_ref has no value: its input has."""
        for x, block_input in self._inputs:
            if block_input is batch_ref:
                rows = size_of(x, 1)
                sizes = concat([rows, constant(np.array(shape, np.int64))])
                init = expand(constant(value, np.float32), sizes)
                init = refined(init, (batch_ref.dims[0], *shape))
                return init
        raise GraphError("rnn: batch_ref is a slice that add_input gave")

    def _check_open(self, what):
        if not self._open:
            raise GraphError(f"rnn: {what} belongs inside `with r.step():`")


class _RecordedStep:
    """The step function of a block: its recorded outputs, with the loop's state and slices."""

    def __init__(self, block, block_inputs, slices):
        self.block, self.block_inputs, self.slices = block, block_inputs, slices

    def __call__(self, states, xs):
        recorded = [*self.block_inputs, *self.slices]
        replacements = dict(zip(recorded, [*states, *xs], strict=True))
        new = [m.new for m in self.block._memories]
        out = _again([*new, *self.block._outputs], replacements)
        return [*out[: len(new)]], [*out[len(new) :]]


def _again(outputs, replacements):
    """The outputs of a body on other inputs, which assign what those assign."""
    moving, recorded = carried(outputs, replacements), set(replacements)
    results = [*outputs, *(value for _, value in moving.pairs)]
    out = substitute(results, replacements, stop=recorded)
    values = out[len(outputs) :]
    return assigning(tuple(out[: len(outputs)]), [v for v, _ in moving.pairs], values)


class while_op:
    """A while loop as a `with` block over `while_loop`.

    Inside `with w.stepnet():` `add_memory(init)` returns a state, `condition(c)` sets the
    condition, computed from the states before a step, and each memory's `update` sets its value
    after the step; afterwards `w()` returns the list of final states.
    """

    def __init__(self) -> None:
        self._memories: list[Memory] = []
        self._condition: Variable | None = None
        self._open = False

    @contextmanager
    def stepnet(self) -> Iterator["while_op"]:
        """Open the block that describes one step."""
        self._open = True
        try:
            with building_body():
                yield self
        finally:
            self._open = False

    def add_memory(self, init: Operand) -> Memory:
        """Add a state that starts from `init`."""
        self._check_open("add_memory")
        init = constant(init)
        memory = Memory(self, Variable.of(init.dims, init.dtype, "memory"), init)
        self._memories.append(memory)
        return memory

    def condition(self, value: Variable) -> None:
        """Set the condition for another step: a bool of one element."""
        self._check_open("condition")
        self._condition = value

    def __call__(self) -> list[Variable]:
        if self._open or self._condition is None:
            raise GraphError("while_op: describe a condition in `with w.stepnet():` first")
        _check_updated("while_op", self._memories)
        block_inputs, going = [m.pre_state() for m in self._memories], self._condition

        def condition(*states):
            replacements = dict(zip(block_inputs, states, strict=True))
            return substitute([going], replacements, stop=set(block_inputs))

        def body(*states):
            return _again(
                [m.new for m in self._memories], dict(zip(block_inputs, states, strict=True))
            )

        init = [m.init for m in self._memories]
        return list(while_loop(lambda *states: condition(*states)[0], body, init))

    def _check_open(self, what):
        if not self._open:
            raise GraphError(f"while_op: {what} belongs inside `with w.stepnet():`")


def _check_updated(who, memories):
    for m in memories:
        if m.new is None:
            raise GraphError(f"{who}: the memory {m.pre_state()!r} is never updated")
