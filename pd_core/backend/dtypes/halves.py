"""Rounding of float16 where a result depends on it.

ONNX Runtime's CPU has few kernels for float16. It inserts casts to float32 around the others, and
removes those between two of them: what is in between keeps the digits of float32. Where a sum or a
product goes on from there, its result is only closer to the exact one. A comparison, an index of
the largest element or a rounding tells the difference: the largest element is none of the elements
then, and what has overflowed is finite. These read float16 numbers. ONNX Runtime keeps a cast to
float16 only where the casts on both sides of it are of the program, so that all operators from the
one that computes a number to the one that reads it are computed in float32 with casts.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from ...graph.inference import OPSET
from ...graph.node import Node, all_nodes
from ...graph.rewrite import rewrite
from ...graph.variable import Variable
from ..passes.context import Context
from .kernels import takes, types_of
from .wider import MOVING, in_wider

_HALF = np.dtype(np.float16)
_MOVING = MOVING - {"Equal", "Size", "OneHot"}
# Operators whose results change with the last digit of an operand
_EXACT = frozenset(
    {
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
        *("ArgMax", "ArgMin", "TopK", "Unique", "Hardmax", "NonZero"),
        *("Floor", "Ceil", "Round", "Sign", "Mod", "IsInf", "IsNaN", "Cast"),
    }
)
# What passes on to one of them whether a number was rounded
_PASSING = _MOVING | {"Cast", "Mul", "Div", "Neg", "Abs", "ReduceMax", "ReduceMin", "Max", "Min"}


def with_halves_rounded(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with float16 numbers that are rounded where operators tell it."""
    nodes = list(all_nodes(targets))
    chosen = _explicit(nodes, _read_exactly(nodes, targets))
    if not chosen:
        return list(targets)
    opset = max([node.opset for node in nodes], default=OPSET)

    def rule(node, inputs):
        if node not in chosen or node.op_type == "Cast":
            return None  # a cast of the program is kept as it is
        types = {name: dtype for name, dtype in types_of(node, opset).items() if dtype == _HALF}
        wide = types_of(node, opset) | dict.fromkeys(types, np.dtype(np.float32))
        return in_wider(node, inputs, opset, types) if takes(node.op_type, opset, wide) else None

    return rewrite(targets, rule, only={node.op_type for node in chosen})


def _read_exactly(nodes: Sequence[Node], targets: Iterable[Variable]) -> set[Variable]:
    """The results that are fetched, or which one of _EXACT reads, moved or scaled in between.

    Of a cast to a wider type that is none of them nobody tells whether its operand was rounded: it
    passes on to sums and products. Mixed precision consists of such casts. What a scaler asks of
    gradients, whether they are finite, is a comparison of a number that is a sum.
    """
    read = {*targets, *(y for node in nodes for b in node.blocks.values() for y in b.outputs)}
    for node in reversed(nodes):
        sums = node.op_type in ("Add", "ReduceSum") and not node.outputs[0].rank
        through = (node.op_type in _PASSING or sums) and not read.isdisjoint(node.outputs)
        if through or node.blocks or node.domain or _tells(node):
            read.update([x for x in node.inputs if x is not None])
    return read


def _tells(node: Node) -> bool:
    """Whether the result of an operator of _EXACT shows at once that an operand was not rounded.

    A cast to a wider type leaves that to what reads it. The sign, as of gradients of ReLU, is that
    of the rounded number, but for those below 2^-25, which are 0 in float16.
    """
    if node.op_type in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        values = [x.value for x in node.inputs if x is not None]
        return not any(value is not None and not value.any() for value in values)
    return node.op_type in _EXACT and not _widens(node)


def _widens(node: Node) -> bool:
    return node.op_type == "Cast" and node.outputs[0].dtype in (np.float32, np.float64)


def _explicit(nodes: Iterable[Node], read: set[Variable]) -> set[Node]:
    """The operators that compute a float16 number which one of _EXACT reads, up to that one.

    The nodes are in order, `read` is of `_read_exactly`. What only moves numbers that are stored in
    float16 is none of them.
    """
    computed: set[Variable] = set()
    chosen: set[Node] = set()
    waiting: list[Node] = []
    for node in nodes:
        if node.domain or node.blocks:
            continue
        reads = not computed.isdisjoint(node.inputs)
        if reads or node.op_type not in _MOVING:
            computed.update([y for y in node.outputs if y.dtype == _HALF and node.inputs])
        if reads and (_tells(node) or (_widens(node) and node.outputs[0] in read)):
            chosen.add(node)
            waiting.append(node)
    while waiting:
        for x in waiting.pop().inputs:
            if x in computed and x.node not in chosen:
                chosen.add(x.node)
                if x.node.op_type in _MOVING:
                    waiting.append(x.node)
    return chosen
