"""Which operator of the forward pass each operator of the backward pass differentiates."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from ..gradients import zeros
from ..graph.node import Node
from ..graph.variable import Variable

# A parameter and the Variables of its gradient: one, or the rows and their values.
Pair = tuple[Variable, tuple[Variable, ...]]

_RESHAPING = {"Reshape", "Squeeze", "Cast", "Identity"}
# Their gradients do not depend on their own results.
_LINEAR = {
    *("Add", "Sub", "Mul", "Neg", "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Where"),
    *("ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Expand", "Cast", "Identity"),
    *("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice"),
    *("Pad", "Gather", "ScatterElements", "ScatterND"),
}
_serial = attrgetter("serial")


def differentiated(
    forward: Sequence[Node], backward: Sequence[Node], gradients: Iterable[Pair]
) -> dict[Node, Node]:
    """Return the forward operator of each backward one that has one; both are in their order.

    A graph does not record it, but a gradient rule reads inputs and outputs of one operator and the
    gradients of its outputs, and rules run in the reverse order of the operators. Where several
    operators are possible it is the last one that the rules have not passed yet; an operator that
    reads nothing of the forward pass, such as a scaling by a number, counts for the one before it.
    """
    search = _Search(forward, gradients)
    search.run(backward)
    return search.found


class _Search:
    def __init__(self, forward, gradients):
        self.found: dict[Node, Node] = {}
        self.around: dict[Variable, set[Node]] = {}  # whose rules may read a value
        for node in forward:
            if node.op_type in zeros or node.op_type == "ModeSwitch":  # they have no rule
                continue
            own = () if node.op_type in _LINEAR else node.outputs
            for x in (*node.inputs, *own):
                for v in (x, None if x is None else x.source):  # a recorded read, and of what
                    if v is not None:
                        self.around.setdefault(v, set()).add(node)
        # by node: what it reads of the forward pass, while that alone does not tell which rule
        # it is of
        self.open: dict[Node, set[Variable]] = {}
        self.readers: dict[Node, set[Node]] = {}  # of the parameter, by the end of its gradient
        for w, group in gradients:
            self._end(group[-1].node, self.around.get(w, set()))

    def _end(self, node, readers):
        """Note the nodes that end a gradient: what gives it its shape, and the one before that."""
        while node is not None and node not in self.readers:
            self.readers[node] = readers
            reshapes = node.op_type in _RESHAPING and node.inputs[0] is not None
            node = node.inputs[0].node if reshapes else None

    def run(self, backward):
        """Find the forward node of each node, in their order."""
        computed = {y for node in backward for y in node.outputs}
        for node in backward:
            reads = {x for x in node.inputs if x in self.around}
            before = dict.fromkeys(x.node for x in node.inputs if x in computed)
            passed = [self.found[n] for n in before if n in self.found]
            # of the inputs that are open, those of the earlier operators are of this rule
            same = []
            for n in sorted((n for n in before if n in self.open), key=self._latest):
                if n in self.open and self._possible(reads | self.open[n]):
                    reads |= self.open[n]
                    same.append(n)
                else:
                    self._settle(n, None)
                    passed.append(self.found[n])
            possible = self._possible(reads)
            if possible and not passed:
                self.open[node] = reads
                continue
            self._decide(node, possible, passed)
            for n in same:
                self._settle(n, self.found[node])
        for node in reversed(backward):
            self._settle(node, None)

    def _settle(self, node, f):
        """Decide what is open: for the operator f of what reads it, if that is possible."""
        if node not in self.open:
            return
        possible = self._possible(self.open.pop(node))
        self._decide(node, possible & {f} or possible, [])
        for x in node.inputs:
            if x is not None:
                self._settle(x.node, self.found[node])

    def _possible(self, reads):
        """The operators that have all of these values as inputs or outputs."""
        sets = [self.around.get(x, set()) for x in reads]
        return set.intersection(*sets) if sets else set()

    def _latest(self, node):
        return max(f.serial for f in self._possible(self.open[node]))

    def _decide(self, node, possible, passed):
        """Choose among possible operators; the rules of `passed` gave what the node reads."""
        readers = self.readers.get(node, set())
        latest = min(passed, key=_serial, default=None)
        possible = possible & readers or possible or readers
        if latest is not None:
            possible = {f for f in possible if f.serial <= latest.serial}
        if node.op_type.endswith("Grad"):  # a composite: ReluGrad, ConvInputGrad, ConvFilterGrad
            name = node.op_type.removesuffix("Grad").removesuffix("Input").removesuffix("Filter")
            possible = {f for f in possible if f.op_type.endswith(name)} or possible
        if len(possible) > 1:
            possible = possible - {latest}
        f = max(possible, key=_serial, default=latest)
        if f is not None:
            self.found[node] = f
