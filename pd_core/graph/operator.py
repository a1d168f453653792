"""The interface of an operator that checks and size rules read: a node, or one not built yet."""

from collections.abc import Mapping
from typing import Any, Protocol

from .variable import Inputs, Variable


class Operator(Protocol):
    """An operator with its arguments."""

    @property
    def op_type(self) -> str: ...
    @property
    def inputs(self) -> Inputs: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...


class BuiltOperator(Operator, Protocol):
    """An operator with its outputs."""

    @property
    def outputs(self) -> tuple[Variable, ...]: ...


class IdentifiedOperator(Operator, Protocol):
    """An operator with the id that equal ones share, see `signature.kind_of`."""

    @property
    def kind(self) -> int: ...
