"""Parameters that a layer object owns, as functional layers take them."""

from collections.abc import Callable, Sequence
from typing import Any


class Owned:
    """A parameter of a layer object: `create(shape)` returns it, built if it is not yet.

    `built` is the Variable once it was created, None before.
    """

    __slots__ = ("built", "create")

    def __init__(self, create: Callable[[Sequence[int]], Any]) -> None:
        self.create, self.built = create, None
