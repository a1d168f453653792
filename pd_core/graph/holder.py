"""What is no layer and has Variables all the same, such as an imported model."""

from collections.abc import Iterator

from .variable import Variable


class Holder:
    """Base of objects whose Variables belong to the layer that has one as an attribute."""

    def held_variables(self) -> Iterator[tuple[str, Variable, bool]]:
        """Yield (name, persistent variable, whether it is a buffer rather than a parameter)."""
        raise NotImplementedError
