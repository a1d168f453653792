"""The interface of a graph reader that the readers of single operators use."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from onnx import GraphProto

from ...graph.errors import ModelError
from ...graph.variable import MaybeNone, Variable
from .versions import Operator

# A list for a sequence, None for an optional input that is left out.
Value = Variable | list | MaybeNone


class UnfitSizes(ModelError):
    """A node whose inputs have ranks or sizes that it does not take."""


class GraphReader(Protocol):
    """The reader of the graph around an operator."""

    def read_body(
        self, graph: GraphProto, block_inputs: Iterable[Value], inside: bool = True
    ) -> Sequence[Value]:
        """Read a body for these values of its inputs; return its outputs."""

    def built(self, op: Operator) -> Sequence[Value]:
        """Return the outputs of an operator of ONNX."""
