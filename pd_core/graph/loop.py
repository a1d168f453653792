"""Loops: Scan and Loop nodes, which also output what their gradients read.

Beside the visible outputs, a loop has one for every value that its body computes, stacked over all
steps. Programs that do not read them are compiled without them.
"""

from collections.abc import Sequence
from typing import Any

from .node import Block, ancestors, new_node
from .variable import OutputType, Variable, fresh_dim


def scan_node(
    init: Sequence[Variable],
    xs: Sequence[Variable],
    captures: Sequence[Variable],
    block: Block,
    stacked: Sequence[Variable],
    reverse: bool,
    intermediates: bool = True,
) -> tuple[Variable, ...]:
    """Add a Scan and return the final states, then the `stacked` values of all steps."""
    count = len(init)
    steps = next((d for d in (x.dims[0] for x in xs) if isinstance(d, int)), xs[0].dims[0])
    types = [(s.dims, s.dtype) for s in init]
    types += [((steps, *y.dims), y.dtype) for y in stacked]
    visible = len(types)
    if intermediates:
        extra = _intermediates(block, block.block_inputs[:count], set(block.outputs[count:]))
        block = Block(block.block_inputs, block.captured, (*block.outputs, *extra))
        types += [((steps, *v.dims), v.dtype) for v in extra]
    attributes = {
        "num_scan_inputs": len(xs),
        "scan_input_directions": [int(reverse)] * len(xs),
        "scan_output_directions": [int(reverse)] * (len(types) - count),
    }
    inputs = (*init, *xs, *captures)
    node = new_node("Scan", inputs, attributes, types, blocks={"body": block}, visible=visible)
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
    """Add a Loop and return the final states, then its body's other values of all steps.

    `types` are dims and dtype of each of these outputs.
    """
    visible, count = len(types), len(init)
    if intermediates:
        steps = types[count][0][0] if visible > count else fresh_dim()
        extra = _intermediates(block, block.block_inputs, set(block.outputs[1 + count :]))
        block = Block(block.block_inputs, block.captured, (*block.outputs, *extra))
        types = [*types, *(((steps, *v.dims), v.dtype) for v in extra)]
    inputs = (limit, going, *init, *captures)
    node = new_node("Loop", inputs, {}, types, blocks={"body": block}, visible=visible)
    return node.outputs[:visible]


def _intermediates(block: Block, block_inputs: Any, stacked: Any) -> Any:
    """The values that a body reads or computes, without those that the loop stacks already."""
    inside = ancestors(block.outputs, stop=set(block.inputs))
    values = (*block_inputs, *(y for node in inside for y in node.outputs))
    return [v for v in dict.fromkeys(values) if v not in stacked]
