"""Unread outputs: values of all steps of a loop that only its gradient would read."""

from collections.abc import Mapping, Sequence

from ...graph.node import Block, Node, ancestors
from ...graph.rewrite import rewrite
from ...graph.variable import Inputs, Variable
from .context import Context


def without_unread_outputs(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Drop the outputs that nothing reads of those that only gradients ask for."""
    return list(_without_unread(targets))


def _without_unread(targets, stop=()):
    order = ancestors(targets, stop)
    if not any(node.blocks or node.visible < len(node.outputs) for node in order):
        return targets
    read = {*targets, *(x for node in order for x in node.inputs)}

    def rule(node, inputs):
        if not node.blocks and node.visible == len(node.outputs):
            return None
        kept = [k for k, y in enumerate(node.outputs) if k < node.visible or y in read]
        blocks = {key: _lighter(node, block, kept) for key, block in node.blocks.items()}
        unchanged = all(block is node.blocks[key] for key, block in blocks.items())
        if unchanged and len(kept) == len(node.outputs) and inputs == node.inputs:
            return node.outputs
        return with_outputs(node, inputs, blocks, kept)

    return rewrite(targets, rule, stop)


def _lighter(node, block, kept):
    """The body of a node that keeps only some of its outputs."""
    lead = len(block.outputs) - len(node.outputs)  # the condition of a Loop comes first
    outputs = (*block.outputs[:lead], *(block.outputs[lead + k] for k in kept))
    lighter = tuple(_without_unread(outputs, block.inputs))
    return block if lighter == block.outputs else Block(block.block_inputs, block.captured, lighter)


def with_outputs(
    node: Node,
    inputs: Inputs,
    blocks: Mapping[str, Block],
    kept: Sequence[int],
) -> list[Variable]:
    """Rebuild a node with some of its outputs; the others stay, since nothing reads them."""
    attributes = dict(node.attributes)
    if node.op_type == "Scan":
        states = len(node.outputs) - len(attributes["scan_output_directions"])
        count = len(kept) - states
        attributes["scan_output_directions"] = attributes["scan_output_directions"][:count]
    lighter = Node(
        node.op_type,
        inputs,
        attributes,
        [node.types[k] for k in kept],
        domain=node.domain,
        opset=node.opset,
        blocks=blocks,
        output_names=[node.outputs[k].name for k in kept],
    )
    made = dict(zip(kept, lighter.outputs, strict=True))
    return [made.get(k, y) for k, y in enumerate(node.outputs)]
