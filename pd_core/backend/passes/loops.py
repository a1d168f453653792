"""Loop-invariant code motion and more: a compiled Scan holds only the true recurrence.

What depends on no state is computed for all steps before the loop, what no state depends on after
it, each as one operator over all steps. Unread outputs are dropped.
"""

from collections.abc import Sequence

from ...graph.loop import scan_node
from ...graph.node import Block, ancestors, located_at, rebuilt
from ...graph.rewrite import close, rewrite, substitute
from ...graph.variable import Variable
from .context import Context
from .regroup import regroup
from .unread import with_outputs
from .vectorize import plan


def lighten_loops(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with as little as possible inside their loops."""
    if context.before(targets).op_types.isdisjoint(("Scan", "Loop")):
        return list(targets)
    used = _read_in_loops(targets)

    def rule(node, inputs):
        if node.op_type == "Scan":
            return _Motion(node, inputs, used).outputs()
        if node.op_type == "Loop":
            return _pruned(node, inputs, used)
        return None

    return rewrite(targets, rule) if used else list(targets)


def _read_in_loops(targets):
    """All variables that are read, in bodies too; empty if there is no loop."""
    used, loops, pending = set(), False, [(targets, ())]
    while pending:
        outputs, stop = pending.pop()
        used.update(outputs)
        for node in ancestors(outputs, stop=set(stop)):
            used.update(x for x in node.inputs if x is not None)
            loops = loops or node.op_type in ("Scan", "Loop")
            pending += [(block.outputs, block.inputs) for block in node.blocks.values()]
    return used if loops else set()


def _pruned(node, inputs, used):
    """A Loop without its unread stacked outputs; None if all are read."""
    block = node.blocks["body"]
    states = len(block.block_inputs) - 2
    read = [k for k, y in enumerate(node.outputs) if k < states or y in used]
    if len(read) == len(node.outputs):
        return None
    outputs = (block.outputs[0], *(block.outputs[k + 1] for k in read))
    blocks = {"body": Block(block.block_inputs, block.captured, outputs)}
    return with_outputs(node, inputs, blocks, read)


class _Motion:
    """The parts of a Scan, and the place of each of its nodes: before, inside or after the loop."""

    def __init__(self, node, inputs, used):
        self.node, self.block = node, node.blocks["body"]
        explicit = len(inputs) - len(self.block.captured)
        self.count = explicit - node.attributes["num_scan_inputs"]
        self.init, xs = inputs[: self.count], inputs[self.count : explicit]
        block_inputs = self.block.block_inputs
        self.states, slices = block_inputs[: self.count], block_inputs[self.count :]
        self.stacked = dict(zip(slices, xs, strict=True))  # body value -> all its steps
        self.outer = dict(zip(self.block.captured, inputs[explicit:], strict=True))
        self.body = regroup(self.block.outputs, self.states, self.block.inputs)
        self.new = self.body[: self.count]
        self.read = [k for k, y in enumerate(node.outputs) if k >= self.count and y in used]
        self.direction = node.attributes["scan_input_directions"][0]
        self.order = ancestors(self.body, stop=set(self.block.inputs))

    def outputs(self):
        """The outputs in the place of the node's own; None if nothing moves."""
        ys = {k: self.body[k] for k in self.read}
        counts = len(self.stacked), len(self.outer)
        self._move_before()
        after = self._movable_after(ys.values())
        moved = after or (len(self.stacked), len(self.outer)) != counts
        if not moved and len(ys) == len(self.node.outputs) - self.count:
            return None
        final, emitted = self._loop(self._emitted(after, ys.values()))
        self.stacked.update(emitted)
        for node, build in after:
            self._build(node, build)
        replaced = {**dict(enumerate(final)), **{k: self.stacked[y] for k, y in ys.items()}}
        return [replaced.get(k, y) for k, y in enumerate(self.node.outputs)]

    def _move_before(self):
        """Compute what depends on no state for all steps, or once if it is the same in each."""
        inside = set(self.states)
        for node in self.order:
            stacked = [x in self.stacked for x in node.inputs]
            free = inside.isdisjoint(node.inputs)
            build = plan(node, stacked) if free and any(stacked) else None
            if build is not None:
                self._build(node, build)
            elif free and not any(stacked) and not node.blocks:
                inputs = tuple(self.outer.get(x, x) for x in node.inputs)
                self.outer.update(zip(node.outputs, rebuilt(node, inputs).outputs, strict=True))
            else:
                inside.update(node.outputs)

    def _build(self, node, build):
        inputs = [
            (self.stacked[x], True) if x in self.stacked else (self.outer.get(x, x), False)
            for x in node.inputs
        ]
        with located_at(node):  # its line, not that of the loop
            self.stacked.update(zip(node.outputs, build(inputs), strict=True))

    def _movable_after(self, ys):
        """Nodes that no state depends on, each with its plan for all steps, in order."""
        recurrent = set(ancestors(self.new, stop={*self.block.inputs, *self.stacked, *self.outer}))
        nodes = ancestors(ys, stop={*self.block.inputs, *self.stacked, *self.outer})
        moved = {}
        for node in nodes:
            if node not in recurrent:
                build = plan(node, [self._steps(x) for x in node.inputs])
                if build is not None:
                    moved[node] = build
        # a node that stays in the loop keeps what it reads there
        for node in reversed(nodes):
            if node not in moved:
                for x in node.inputs:
                    if x is not None:
                        moved.pop(x.node, None)
        return [(node, moved[node]) for node in nodes if node in moved]

    def _steps(self, x):
        """Whether a value differs from step to step."""
        return x is not None and x.value is None and x not in self.outer

    def _emitted(self, after, ys):
        """Values of the loop that are read after it."""
        computed = {y for node, _ in after for y in node.outputs}
        read = [x for node, _ in after for x in node.inputs if self._steps(x)] + list(ys)
        return list(dict.fromkeys(x for x in read if x not in computed and x not in self.stacked))

    def _loop(self, emitted):
        """The remaining Scan: its final states, and {body value: all its steps}."""
        if not self.count and not emitted:
            return (), {}
        inside = ancestors([*self.new, *emitted], stop={*self.states, *self.stacked, *self.outer})
        read = {x for node in inside for x in node.inputs} | {*self.new, *emitted}
        slices = [v for v in self.stacked if v in read]
        if not slices:  # the number of steps comes from a scanned input
            slices = [next(iter(self.stacked))]
        block_inputs = {v: Variable.of(v.dims, v.dtype, v.name) for v in (*self.states, *slices)}
        given = {**self.outer, **block_inputs}
        outputs = substitute([*self.new, *emitted], given, stop=set(given))
        blocks, captures = close({"body": outputs}, {"body": list(block_inputs.values())})
        xs = [self.stacked[v] for v in slices]
        out = scan_node(self.init, xs, captures, blocks["body"], emitted, self.direction, False)
        return out[: self.count], dict(zip(emitted, out[self.count :], strict=True))
