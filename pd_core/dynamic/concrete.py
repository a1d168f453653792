"""RecordedNode graphs with numbers in the place of the names of sizes.

Some gradients need to know sizes. Programs for them are compiled for each combination of sizes.
"""

from .. import ops
from ..gradients.reads import passes_gradients
from ..graph.node import Node, located_at
from ..graph.recording import as_number
from ..graph.variable import Dims, Variable
from .trace import Trace


class ConcreteGraph:
    """The graph of a trace with sizes as numbers."""

    def __init__(self, trace: Trace):
        self.variables: dict[Variable, Variable] = {}
        self.leaves: dict[Variable, Variable] = {}  # the leaf of the trace of each new leaf
        for node in trace.nodes:
            inputs = tuple([None if x is None else self.of(x) for x in node.inputs])
            types = [(_numbers(dims), dtype) for dims, dtype in node.types]
            with located_at(node):
                twin = Node(
                    node.op_type,
                    inputs,
                    node.attributes,
                    types,
                    domain=node.domain,
                    opset=node.opset,
                    blocks=node.blocks,
                    visible=node.visible,
                    kind=node.kind,
                )
                for y, z in zip(node.outputs, twin.outputs, strict=True):
                    self.variables[y] = z if passes_gradients(y) else ops.stop_gradient(z)

    def of(self, v: Variable) -> Variable:
        """Return what a Variable of the trace is in this graph."""
        new = self.variables.get(v)
        if new is None:
            new = self.variables[v] = self._leaf(v)
        return new

    def _leaf(self, v: Variable) -> Variable:
        dims = _numbers(v.dims)
        if v.eager_value is None or dims == v.dims:
            return v
        leaf = Variable.of(dims, v.dtype, v.name, eager_value=v.eager_value, tracked=v.tracked)
        self.leaves[leaf] = v
        return leaf


def _numbers(dims: Dims) -> Dims:
    numbers = [(d, as_number(d)) for d in dims]
    return tuple([d if n is None else n for d, n in numbers])


def concrete_sizes(trace: Trace) -> tuple[int | None, ...]:
    """Return the sizes of a trace as numbers."""
    return tuple([as_number(d) for d in trace.sizes])
