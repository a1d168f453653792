"""What a module knows of the inputs of its `forward`."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...dynamic import Placeholder
from ...graph.variable import Shape, Variable

Input = Shape | Variable  # what stands for an input where only its shape and dtype count


class DeclaredInput(NamedTuple):
    """Shape, dtype and name of an input."""

    shape: Any  # sizes, None or a name where one is known only at run time
    dtype: np.dtype
    name: str

    def slot(self) -> Placeholder:
        """Return a feed slot for the input."""
        return Placeholder(self.shape, self.dtype, self.name)


def declared(inputs: Iterable[Input]) -> tuple[DeclaredInput, ...]:
    """Describe inputs; the first axis of one that has a value is the batch, of any size."""
    return tuple([_declared(x, k) for k, x in enumerate(inputs)])


def _declared(x, k):
    v = x if isinstance(x, Variable) else Placeholder(x)
    is_slot = isinstance(v, Placeholder) or v.is_feed
    shape = v.dims if is_slot else (None, *v.shape[1:])[: v.rank]
    named = isinstance(v, Placeholder) and v.name != "placeholder"
    return DeclaredInput(shape, v.dtype, v.name if named else f"input_{k}")
