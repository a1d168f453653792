"""One operator for all steps of a loop: the same operator over an added first axis.

plan(node, stacked) returns, for inputs of which some are stacked over steps, a function of the
outer inputs, or None where the operator has no such form.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from ... import ops
from ...graph.broadcast import BROADCASTING
from ...graph.node import Node, apply
from ...graph.rewrite import permutation
from ...graph.variable import Variable, constant

_UNARY = {
    *("Abs", "Cast", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "LeakyRelu", "Log"),
    *("Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Softplus"),
    *("Softsign", "Sqrt", "Tanh"),
}
_NORMALIZED = {"Softmax", "LogSoftmax"}
_REDUCED = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}


Outer = Sequence[tuple[Variable, bool]]  # each input of a node, and whether it is stacked


def plan(node: Node, stacked: list[bool]) -> Callable[[Outer], Sequence[Variable]] | None:
    """Return a function(outer inputs) -> outputs stacked over steps, or None."""
    rule = _RULES.get(node.op_type)
    return None if rule is None or node.blocks else rule(node, stacked)


def _same(node, inputs, **changes):
    """The node's operator on other inputs, its outputs one axis longer."""
    steps = next(x.dims[0] for x, s in inputs if s)
    inputs = tuple([x if x is None else constant(x) for x, _ in inputs])
    types = [((steps, *dims), dtype) for dims, dtype in node.types]
    attributes = {**node.attributes, **changes}
    return Node(node.op_type, inputs, attributes, types, opset=node.opset).outputs


def _elementwise(node, stacked):
    rank = node.outputs[0].rank

    def build(inputs):
        return _same(node, [(_ranked(x, rank), s) if s else (x, s) for x, s in inputs])

    return build


def _ranked(x, rank):
    """A stacked value with axes of size 1 after the steps, as a result of that rank needs them."""
    missing = rank + 1 - x.rank
    return ops.unsqueeze(x, np.arange(1, missing + 1)) if missing else x


def _matmul(node, stacked):
    ranks = [x.rank for x in node.inputs]
    rank = max(r for r, s in zip(ranks, stacked, strict=True) if s)
    fits = all(r == rank if s else 2 <= r <= rank for r, s in zip(ranks, stacked, strict=True))
    return (lambda inputs: _same(node, inputs)) if fits and rank >= 2 else None


def _transpose(node, stacked):
    order = permutation(node)
    return lambda inputs: _same(node, inputs, perm=[0, *(k + 1 for k in order)])


def _normalized(node, stacked):
    axis = node.attributes.get("axis", -1) % node.inputs[0].rank
    return lambda inputs: _same(node, inputs, axis=axis + 1)


def _on_axes(node, stacked):
    """Reductions and Squeeze: constant axes of the first input."""
    axes = node.inputs[1].value if len(node.inputs) > 1 else None
    if stacked != [True, False] or axes is None:
        return None
    moved = np.array([int(a) % node.inputs[0].rank + 1 for a in axes], np.int64)
    return lambda inputs: _same(node, [inputs[0], (moved, False)])


def _unsqueeze(node, stacked):
    axes = node.inputs[1].value
    if stacked != [True, False] or axes is None:
        return None
    moved = np.array([int(a) % node.outputs[0].rank + 1 for a in axes], np.int64)
    return lambda inputs: _same(node, [inputs[0], (moved, False)])


def _concat(node, stacked):
    if not all(stacked):
        return None
    axis = node.attributes["axis"] % node.inputs[0].rank
    return lambda inputs: _same(node, inputs, axis=axis + 1)


def _split(node, stacked):
    if stacked[1:] != [False] * (len(stacked) - 1):
        return None
    axis = node.attributes.get("axis", 0) % node.inputs[0].rank
    return lambda inputs: _same(node, inputs, axis=axis + 1)


def _slice(node, stacked):
    axes = node.inputs[3].value if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if stacked[1:] != [False] * (len(stacked) - 1) or axes is None:
        return None
    moved = np.array([int(a) % node.inputs[0].rank + 1 for a in axes], np.int64)
    return lambda inputs: _same(node, [*inputs[:3], (moved, False), *inputs[4:]])


def _gather(node, stacked):
    axis = node.attributes.get("axis", 0) % node.inputs[0].rank
    if stacked == [False, True] and axis == 0:
        return lambda inputs: _same(node, inputs)
    if stacked == [True, False]:
        return lambda inputs: _same(node, inputs, axis=axis + 1)
    return None


def _reshape(node, stacked):
    target = node.inputs[1].value
    literal = node.attributes.get("allowzero", 0)
    if stacked != [True, False] or target is None or (literal and 0 in target):
        return None
    sizes = node.outputs[0].dims
    if -1 not in target or all(isinstance(d, int) and d > 0 for d in sizes):
        moved = np.array([0, *(target if -1 not in target else sizes)], np.int64)
        return lambda inputs: _same(node, [inputs[0], (moved, False)], allowzero=0)
    if 0 in target:
        return None
    return lambda inputs: _reshaped(node, inputs[0][0], target.tolist())


def _reshaped(node, x, target):
    """Each step in the shape `target`; of no steps a Reshape does not tell the size of its -1."""
    elements = apply("ReduceProd", apply("Shape", x, start=1), keepdims=1)
    rest = apply("Div", elements, np.array([-math.prod(target)]))
    parts = [ops.size_of(x, 0), *(rest if d < 0 else np.array([d]) for d in target)]
    return _same(node, [(x, True), (ops.concat(parts), False)], allowzero=1)


_RULES = {
    **dict.fromkeys((*_UNARY, *BROADCASTING), _elementwise),
    **dict.fromkeys(_NORMALIZED, _normalized),
    **dict.fromkeys((*_REDUCED, "Squeeze"), _on_axes),
    "MatMul": _matmul,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Reshape": _reshape,
}
