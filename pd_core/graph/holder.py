"""The base class of objects other than layers that own Variables, such as imported models."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from .variable import Variable


class Holder(ABC):
    """Base of objects whose Variables belong to the layer that has one as an attribute."""

    @abstractmethod
    def held_variables(self) -> Iterator[tuple[str, Variable, bool]]:
        """Yield (name, persistent variable, whether it is a buffer rather than a parameter)."""
