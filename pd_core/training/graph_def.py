"""Graphs of Variables as GraphDef messages, which TensorBoard draws."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..graph.node import Block, Node, ancestors
from ..graph.site import site_text
from ..graph.variable import Variable, describe

# TensorFlow's names of element types, where they are not NumPy's.
_TYPES = {"float16": "HALF", "float32": "FLOAT", "float64": "DOUBLE"}
_MOST_ELEMENTS = 16  # of a constant or attribute that is shown


def graph_def(targets: Sequence[Variable]) -> Any:
    """Return the GraphDef of what computes some Variables, a node for each operator.

    Namespaces are groups, `a.w` is the parameter `w` in the group `a`. Feeds, parameters and
    constants are nodes too; the body of a loop or branch is a group in the group of its operator.
    """
    from tensorboardX.proto.graph_pb2 import GraphDef

    writer = _Writer()
    writer.add(targets, "")
    graph = GraphDef(node=writer.nodes)
    graph.versions.producer = 22
    return graph


class _Writer:
    """Collects nodes under distinct names."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._names: set[str] = set()
        self._inputs: dict[int, str] = {}  # how to refer to each Variable, by id
        self._alive: list[Variable] = []  # whose ids these are

    def add(self, targets: Iterable[Variable], group: str) -> None:
        """Add what computes some Variables in a group: `` or a name that ends with a slash."""
        for node in ancestors(targets):
            if node.op_type == "OnnxForm":  # what an export writes in the place of its results
                for y, x in zip(node.outputs, node.inputs, strict=False):
                    self._refer(y, self._input(x, group))
                continue
            inputs = [self._input(x, group) for x in node.inputs if x is not None]
            name = self._node(group + _path(node.outputs[0].name), node.op_type, inputs)
            self._annotate(node)
            for k, y in enumerate(node.outputs):
                self._refer(y, f"{name}:{k}" if k else name)
            for key, block in node.blocks.items():
                self._add_block(block, node, f"{name}/{key}/")
        for target in targets:
            self._input(target, group)

    def _add_block(self, block: Block, node: Node, group: str) -> None:
        """Add the body of a loop or branch."""
        for x, outer in zip(block.captured, node.captures, strict=True):
            assert outer is not None
            self._refer(x, self._input(outer, group))
        self.add(block.outputs, group)

    def _refer(self, x: Variable, text: str) -> None:
        self._inputs[id(x)] = text
        self._alive.append(x)

    def _input(self, x: Variable, group: str) -> str:
        """How a node refers to a Variable; adds the node of one that nothing computes."""
        if id(x) not in self._inputs:
            kind, place = "Placeholder", group
            if x.is_persistent:
                kind, place = "VariableV2", ""
            elif x.value is not None:
                kind = "Const"
            self._refer(x, self._node(place + _path(x.name or kind.lower()), kind, []))
            self._shape(x)
            if x.value is not None and x.value.size <= _MOST_ELEMENTS:
                self.nodes[-1].attr["value"].s = str(x.value.tolist()).encode()
        return self._inputs[id(x)]

    def _node(self, name: str, kind: str, inputs: Iterable[str]) -> str:
        """Add a node; return its name, with a number added to one that is taken."""
        from tensorboardX.proto.node_def_pb2 import NodeDef

        free, k = name, 0
        while free in self._names:
            k += 1
            free = f"{name}_{k}"
        self._names.add(free)
        self.nodes.append(NodeDef(name=free, op=kind, input=inputs))
        return free

    def _annotate(self, node: Node) -> None:
        """Add attributes, shapes and where it was built to the last node."""
        self._shape(node.outputs[0])
        attr = self.nodes[-1].attr
        for key, value in node.attributes.items():
            if isinstance(value, np.ndarray) and value.size > _MOST_ELEMENTS:
                value = f"array of shape {list(value.shape)}"
            attr[key].s = str(value).encode()
        if node.site is not None:
            attr["built_at"].s = site_text(node.site).encode()

    def _shape(self, x: Variable) -> None:
        """Add type and shape to the last node."""
        from tensorboardX.proto.types_pb2 import DataType

        attr = self.nodes[-1].attr
        attr["type"].s = describe(x).encode()
        name = f"DT_{_TYPES.get(x.dtype.name, x.dtype.name.upper())}"
        if name in DataType.DESCRIPTOR.values_by_name:
            attr["dtype"].type = DataType.Value(name)
        shapes = attr["_output_shapes"].list.shape.add()
        for size in x.shape:
            shapes.dim.add(size=-1 if size is None else size)


def _path(name: str) -> str:
    """A name as TensorBoard groups it; `:1` would be read as the number of an output."""
    return name.replace(".", "/").replace(":", "_").strip("/") or "value"
