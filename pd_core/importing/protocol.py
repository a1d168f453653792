"""What the readers of single operators ask of the reader of a graph."""

from typing import Protocol

from ..graph.variable import Variable
from .versions import Operator


class GraphReader(Protocol):
    """The reader of the graph around an operator."""

    def body(self, graph, inputs: list) -> list[Variable | list]:
        """Read a body for these inputs; return its outputs."""

    def built(self, op: Operator) -> list[Variable | list]:
        """Return the outputs of an operator of ONNX."""
