"""Loops: Scan and Loop nodes, which also give what their gradients read.

Beside the outputs that were asked for, a loop has one for every value that its body computes, with
the values of all steps. A program that reads none of them is compiled without.
"""

from collections.abc import Sequence

from .node import Block, Node, ancestors
from .variable import OutputType, Variable


def scan_node(
    init: Sequence[Variable],
    xs: Sequence[Variable],
    captures: Sequence[Variable],
    block: Block,
    stacked: Sequence[Variable],
    reverse: bool,
    intermediates: bool = True,
) -> tuple[Variable, ...]:
    """Add a Scan: final states, then all steps of the `stacked` values of its body, in order."""
    count = len(init)
    steps = next((d for d in (x.dims[0] for x in xs) if isinstance(d, int)), xs[0].dims[0])
    types = [(s.dims, s.dtype) for s in init]
    types += [((steps, *y.dims), y.dtype) for y in stacked]
    visible = len(types)
    if intermediates:
        more = _intermediates(block, block.formals[:count], set(block.outputs[count:]))
        block = Block(block.formals, block.captured, (*block.outputs, *more))
        types += [((steps, *v.dims), v.dtype) for v in more]
    attributes = {
        "num_scan_inputs": len(xs),
        "scan_input_directions": [int(reverse)] * len(xs),
        "scan_output_directions": [int(reverse)] * (len(types) - count),
    }
    inputs = (*init, *xs, *captures)
    node = Node("Scan", inputs, attributes, types, blocks={"body": block}, visible=visible)
    return node.outputs[:visible]


def loop_node(
    limit: Variable | None,
    going: Variable,
    init: Sequence[Variable],
    captures: Sequence[Variable],
    block: Block,
    types: Sequence[OutputType],
    intermediates: bool = True,
) -> tuple[Variable, ...]:
    """Add a Loop: final states, then all steps of the other values of its body, typed."""
    visible, count = len(types), len(init)
    if intermediates:
        steps = next((dims[0] for dims, _ in types[count:]), None)
        more = _intermediates(
            block, (*block.formals[:2], *block.formals[2:]), set(block.outputs[1 + count :])
        )
        block = Block(block.formals, block.captured, (*block.outputs, *more))
        steps = f"loop_{id(block):x}_steps" if steps is None else steps
        types = [*types, *(((steps, *v.dims), v.dtype) for v in more)]
    inputs = (limit, going, *init, *captures)
    node = Node("Loop", inputs, {}, types, blocks={"body": block}, visible=visible)
    return node.outputs[:visible]


def _intermediates(block, formals, given):
    """The values of a body, without those of all steps of which the loop gives already."""
    inside = ancestors(block.outputs, stop=set(block.inputs))
    values = (*formals, *(y for node in inside for y in node.outputs))
    return [v for v in dict.fromkeys(values) if v not in given]
