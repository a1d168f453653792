"""The single runs of the body of a loop or branch, with what it reads in each of them."""

from collections.abc import Callable, Collection, Iterator

import numpy as np

from ...graph.node import Node
from ...graph.site import site_text
from ...graph.variable import Variable

Arrays = dict[Variable, np.ndarray]
Compute = Callable[[list[Variable]], list[np.ndarray]]


class Body:
    """The body of a Scan or Loop, or the branch of an If that runs, as a graph of its own.

    `compute` evaluates Variables around the node. `targets` are the values that leave the body:
    states, and the outputs that are `read`.
    """

    def __init__(self, node: Node, read: Collection[Variable], compute: Compute):
        self.node, self.read, self.compute = node, read, compute
        key = self._branch() if node.op_type == "If" else "body"
        self.key, self.block = key, node.blocks[key]
        self.lead = len(self.block.outputs) - len(node.outputs)  # the condition of a Loop
        self.targets = [
            v
            for v, y in zip(self.block.outputs[self.lead :], node.outputs, strict=True)
            if y in read
        ]

    def _branch(self) -> str:
        (predicate,) = self.compute([self.node.inputs[0]])
        return "then_branch" if predicate.all() else "else_branch"

    def runs(self) -> Iterator[tuple[str, Arrays]]:
        """Yield a description of each run, in their order, and what to feed to the body."""
        captures: list[Variable] = list(self.node.captures)
        captured = self.compute(captures) if captures else []
        fixed = dict(zip(self.block.captured, captured, strict=True))
        where = f"{self.node.op_type}, built at {site_text(self.node.site)}"
        if self.node.op_type == "If":
            yield f"{self.key} of {where}", fixed
            return
        block_inputs, reverse = self._stacked()
        arrays = dict(zip(block_inputs, self.compute(list(block_inputs.values())), strict=True))
        steps = range(min(map(len, arrays.values()), default=0))
        for number, k in enumerate(reversed(steps) if reverse else steps):
            yield (
                f"step {number} of {where}",
                {**fixed, **{v: np.asarray(a[k]) for v, a in arrays.items()}},
            )

    def _stacked(self) -> tuple[dict[Variable, Variable], bool]:
        """{formal: the Variable with its values of all steps}, and whether the last comes first."""
        node, block_inputs = self.node, self.block.block_inputs
        emitted = dict(zip(self.block.outputs[self.lead :], node.outputs, strict=True))
        if node.op_type == "Loop":
            return {v: emitted[v] for v in block_inputs}, False
        explicit = len(node.inputs) - len(node.captures)
        count = explicit - node.attributes["num_scan_inputs"]
        stacked = {v: emitted[v] for v in block_inputs[:count]}
        stacked |= zip(block_inputs[count:], node.inputs[count:explicit], strict=True)
        return stacked, bool(node.attributes["scan_input_directions"][0])
