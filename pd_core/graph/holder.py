"""What is no layer and has Variables all the same, such as an imported model."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from .variable import Variable


class Holder(ABC):
    """Base of objects whose Variables belong to the layer that has one as an attribute."""

    @abstractmethod
    def held_variables(self) -> Iterator[tuple[str, Variable, bool]]:
        """Yield (name, persistent variable, whether it is a buffer rather than a parameter)."""
