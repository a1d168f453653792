"""Derivatives of loops and branches.

The body of a loop is differentiated as a graph of its own. The backward loop is a Scan, from the
last step to the first, over those intermediate values of the forward body that it reads. What a
captured matrix gets from each step is not added up step by step: its two factors are stacked, and
multiplied once after the loop.
"""

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...graph.arrays import is_float
from ...graph.loop import scan_node
from ...graph.node import (
    Block,
    Location,
    Node,
    ancestors,
    apply,
    control,
    current_location,
    located_at,
)
from ...graph.rewrite import close, is_matrix_transposed, substitute
from ...graph.variable import Variable, fresh_dim
from ..engine import gradients
from ..registry import Gradients, gradient

# Operators whose results have sizes that depend on the values that they read.
_SIZED_BY_DATA = {"Compress", "Loop", "NonMaxSuppression", "NonZero", "Unique"}


@gradient("Scan")
def scan(node: Node, *dys: Variable | None) -> Gradients:
    """Scan in the reverse direction: the gradients of states are carried, of inputs stacked."""
    count = len(node.blocks["body"].captured)
    explicit = len(node.inputs) - count
    xs = node.attributes["num_scan_inputs"]
    reverse = bool(node.attributes["scan_input_directions"][0])
    loop = Loop(node, states=explicit - xs, first=0, reverse=reverse)
    return loop.backward(dys, node.inputs[explicit - xs : explicit])


@gradient("Loop")
def loop(node: Node, *dys: Variable | None) -> Gradients:
    """Scan back over the steps that the Loop made; trip count and condition have no gradient."""
    states = len(node.outputs) - _stacked_outputs(node)
    return [None, None, *Loop(node, states, first=2, reverse=False).backward(dys, ())]


def _stacked_outputs(node):
    """The number of outputs of a Loop that hold a value for every step."""
    return len(node.blocks["body"].outputs) - 1 - (len(node.blocks["body"].block_inputs) - 2)


class Loop:
    """A Scan or Loop node, with its body's parts by what they are.

    `first` is the number of block inputs before the states, `lead` that of outputs: a Loop has two
    of the former (step number, condition) and one of the latter (condition).
    """

    def __init__(self, node: Node, states: int, first: int, reverse: bool):
        self.node, self.block, self.reverse = node, node.blocks["body"], reverse
        self.count, self.lead = states, 1 if first else 0
        block_inputs = self.block.block_inputs
        self.states = block_inputs[first : first + states]
        self.slices = block_inputs[first + states :]
        self.counter = block_inputs[0] if first else self.slices[0]
        self.outer = dict(zip(self.block.captured, node.captures, strict=True))
        inside = ancestors(self.block.outputs, stop=set(self.block.inputs))
        varying = _varying_sizes(self.block.inputs, inside)
        # the values of the body that may be stacked: those of one size in all steps
        values = {*block_inputs, *(y for inner in inside for y in inner.outputs)}
        self.values = {v for v in values if varying.isdisjoint(v.dims)}
        self.varying = varying
        self.stacked: dict[
            Variable, Variable
        ] = {}  # variable of the body -> the outer Variable with all its steps

    def backward(
        self, dys: Sequence[Variable | None], xs: Sequence[Variable]
    ) -> list[Variable | None]:
        """Gradients for the initial states, the scanned inputs and the captured values."""
        block = self.block
        for block_input, x in zip(self.slices, xs, strict=True):
            self.stacked[block_input] = x
        floats = [k for k in range(self.count) if is_float(self.states[k].dtype)]
        adjoints = [_block_input(self.states[k], "adjoint") for k in floats]
        outputs = [block.outputs[self.lead + k] for k in floats]
        given = [(k, dy) for k, dy in enumerate(dys[self.count :]) if dy is not None]
        seeds = [_block_input(block.outputs[self.lead + self.count + k], "dy") for k, _ in given]
        outputs += [block.outputs[self.lead + self.count + k] for k, _ in given]
        wanted = [self.states[k] for k in floats]
        inputs = [v for v in (*self.slices, *block.captured) if is_float(v.dtype)]
        found = gradients(outputs, [*wanted, *inputs], [*adjoints, *seeds])
        step = _Step(self, adjoints, seeds, [dy for _, dy in given])
        step.carry(found[: len(floats)], [self._initial(dys[k], k) for k in floats])
        parts = dict(zip(inputs, found[len(floats) :], strict=True))
        slots = {v: step.stack(parts.get(v)) for v in self.slices}
        sums = {v: step.total(parts.get(v), v) for v in block.captured}
        step.run()
        initial = dict(zip(floats, step.result, strict=False))  # sums come after the states
        return [
            *(initial.get(k) for k in range(self.count)),
            *(slots[v]() for v in self.slices),
            *(_built(sums[v], parts.get(v)) for v in block.captured),
        ]

    def _initial(self, dy, k):
        return ops.zeros_like(self.node.outputs[k]) if dy is None else dy

    def steps_of(self, v: Variable) -> Variable:
        """All steps of a value of the forward body, as one outer Variable."""
        if v not in self.stacked:
            self.stacked[v] = self._emitted(v)
        return self.stacked[v]

    def _emitted(self, v):
        """The output of the loop that has this value of every step."""
        index = self.block.outputs.index(v, self.lead + self.count)
        return self.node.outputs[index - self.lead]


class _Step:
    """The body of the backward loop as it grows, and the loop."""

    def __init__(self, loop, adjoints, seeds, dys):
        self.loop, self.adjoints = loop, list(adjoints)
        self.seeds, self.dys = list(seeds), list(dys)
        self.new, self.initial, self.outputs = [], [], []
        self.result: Any = None  # Variables, once the loop is built

    def carry(self, found, initial):
        """The adjoints of the states after each step, and those that the loop begins with."""
        zero = [ops.zeros_like(a) for a in self.adjoints]
        self.new += [z if g is None else g for g, z in zip(found, zero, strict=True)]
        self.initial += initial

    def stack(self, g):
        """A function that gives all steps of a value of the backward body, after `run`."""
        if g is None:
            return lambda: None
        self.outputs.append(g)
        k = len(self.outputs) - 1
        return lambda: self.result[len(self.new) + k]

    def total(self, g, like):
        """A function that gives the sum over all steps, after `run`."""
        if g is None:
            return lambda: None
        node = g.node
        if self.loop.node.op_type == "Loop" or (node is not None and self._varies(node)):
            return self._accumulated(g, like)
        if node is not None and node.op_type == "Add" and _all_shaped(node.inputs, g):
            a, b = (self.total(x, like) for x in node.inputs)
            return lambda: a() + b()
        if node is not None and node.op_type == "MatMul" and _transposed_matrix(node):
            a, b = self._steps(node.inputs[0].node.inputs[0]), self._steps(node.inputs[1])
            return lambda: _product_of_steps(a(), b())
        if node is not None and node.op_type == "ReduceSum" and node.inputs[1].value is not None:
            x = self._steps(node.inputs[0])
            return lambda: _sum_of_steps(x(), node)
        return self._accumulated(g, like)

    def _varies(self, node):
        """Whether what an operator reads has another size in each step."""
        read = [x for x in node.inputs if x is not None]
        read += [x for v in read if v.node is not None for x in v.node.inputs if x is not None]
        return any(not self.loop.varying.isdisjoint(x.dims) for x in read)

    def _steps(self, v):
        """All steps of a value that either body computes."""
        if v in self.loop.values:
            outer = self.loop.steps_of(v)
            return lambda: outer
        return self.stack(v)

    def _accumulated(self, g, like):
        """A state of the backward loop that adds up."""
        total = _block_input(like, "sum")
        self.adjoints.append(total)
        self.new.append(total + g)
        self.initial.append(ops.zeros_like(self.loop.outer[like]))
        k = len(self.new) - 1
        return lambda: self.result[k]

    def run(self):
        """Close the body over what it reads, and add the loop."""
        loop = self.loop
        own = [*self.adjoints, *self.seeds]
        needed = _read(self.new + self.outputs, own, loop.values)
        if not self.dys and not needed:
            needed = [loop.counter]
        # to a derivative of this loop they are inputs, however the other body computes them
        slices = [_block_input(v, v.name) for v in needed]
        given = dict(zip(needed, slices, strict=True))
        body = substitute([*self.new, *self.outputs], given, stop={*own, *needed})
        blocks, captures = close({"body": body}, {"body": [*own, *slices]})
        captures = substitute(captures, loop.outer, stop=set(loop.outer))
        xs = [*self.dys, *(loop.steps_of(v) for v in needed)]

        def scan_back():
            return scan_node(
                self.initial, xs, captures, blocks["body"], self.outputs, not loop.reverse
            )

        if loop.node.op_type == "Scan":
            self.result = scan_back()
            return
        # A Loop may have made no step, and ONNX Runtime refuses a Scan over none.
        made = ops.greater_than(ops.size_of(xs[0], 0), 0)
        self.result = ops.cond(made, scan_back, lambda: tuple(map(ops.identity, self.initial)))


def _built(function, g):
    """Call a function whose result belongs to the operator that g differentiates in the body."""
    if g is None or g.node is None:
        return function()
    with located_at(Location(current_location()[0], g.node.site)):
        return function()


def _varying_sizes(known, nodes):
    """The names of sizes that may differ from step to step: those of what data determine.

    A loop inside stacks a value for each of its steps, and may make another number of them each
    time. Such values are not stacked, but computed again by the backward loop.
    """
    fixed = {d for v in known for d in v.dims}
    varying: set = set()
    for node in nodes:
        read = {d for x in node.inputs if x is not None for d in x.dims}
        by_data = node.op_type in _SIZED_BY_DATA and not _is_counted(node)
        if by_data or not varying.isdisjoint(read):
            sizes = {d for y in node.outputs for d in y.dims if not isinstance(d, int)}
            varying |= sizes - (read - varying) - fixed
    return varying


def _is_counted(node):
    """Whether a Loop makes a number of steps that is known."""
    limit, body = node.inputs[0], node.blocks.get("body")
    return (
        body is not None
        and limit is not None
        and limit.value is not None
        and (body.outputs[0] is body.block_inputs[1])
    )


def _read(outputs, own, forward):
    """The values of the forward body that the backward body reads, in order."""
    found: dict[Variable, None] = {}
    for node in ancestors(outputs, stop={*own, *forward}):
        found.update((x, None) for x in node.inputs if x in forward)
    found.update((v, None) for v in outputs if v in forward)
    return list(found)


def _block_input(like, name):
    return Variable.of(like.dims, like.dtype, name)


def _all_shaped(inputs, g):
    return all(x.dims == g.dims for x in inputs)


def _transposed_matrix(node):
    """Whether a product is aᵀ b of two matrices, or of as many matrices in one axis."""
    a, b = node.inputs
    if a.rank != b.rank or a.rank not in (2, 3):
        return False
    if a.rank == 3 and a.dims[0] != b.dims[0]:
        return False
    return is_matrix_transposed(a)


def _product_of_steps(a, b):
    """The sum over steps of a_tᵀ b_t for a [T, B, n] and b [T, B, m], [n, m], as one product; or
    that of each matrix of a [T, N, B, n] and b [T, N, B, m], [N, n, m]."""
    a, b = map(_steps_as_rows, (a, b))
    return ops.matmul(ops.matrix_transpose(a), b)


def _steps_as_rows(x):
    """[T, B, n] as [T B, n]; [T, N, B, n] as [N, T B, n]."""
    if x.rank == 3 and isinstance(x.dims[2], int):
        return ops.reshape(x, [-1, x.dims[2]])
    sizes = [ops.size_of(x, k) for k in range(x.rank)]
    if x.rank == 3:
        rows = ops.concat([sizes[0] * sizes[1], sizes[2]])
        return apply("Reshape", x, rows, known=(fresh_dim(), x.dims[2]), allowzero=1)
    rows = ops.concat([sizes[1], sizes[0] * sizes[2], sizes[3]])
    known = (x.dims[1], fresh_dim(), x.dims[3])
    return apply("Reshape", ops.transpose(x, [1, 0, 2, 3]), rows, known=known, allowzero=1)


def _sum_of_steps(x, node):
    """The sum over steps of a reduction over other axes."""
    axes = [int(a) % node.inputs[0].rank + 1 for a in node.inputs[1].value]
    if not node.attributes.get("keepdims", 1):
        return ops.reduce_sum(x, [0, *axes])
    return ops.squeeze(ops.reduce_sum(x, [0, *axes], keep_dim=True), [0])


# ---- branches


@gradient("If")
def branch(node: Node, *dys: Variable | None) -> Gradients:
    """An If whose branches differentiate the old ones; they compute what they need again."""
    wanted = [v for v in node.captures if is_float(v.dtype)]
    indices = [k for k, v in enumerate(node.captures) if is_float(v.dtype)]
    given = [k for k, dy in enumerate(dys) if dy is not None]
    bodies, block_inputs = {}, {}
    for key, block in node.blocks.items():
        seeds = [_block_input(block.outputs[k], "dy") for k in given]
        inputs = [block.captured[k] for k in indices]
        found = gradients([block.outputs[k] for k in given], inputs, seeds)
        grads = [ops.zeros_like(v) if g is None else g for v, g in zip(inputs, found, strict=True)]
        bodies[key], block_inputs[key] = grads, [*block.captured, *seeds]
    blocks, captures = close(bodies, block_inputs, inside=lambda _: True)
    outer = [*node.captures, *(dys[k] for k in given)]
    blocks = {key: Block((), block.inputs, block.outputs) for key, block in blocks.items()}
    types = [(v.dims, v.dtype) for v in wanted]
    outputs = control("If", [node.inputs[0], *outer, *captures], blocks, types)
    by_index = dict(zip(indices, outputs, strict=True))
    return [None, *(by_index.get(k) for k in range(len(node.captures)))]
