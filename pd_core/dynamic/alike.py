"""Comparisons of a recorded graph with a pattern: leaves, and templates for other sizes."""

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import ref

from ..graph.variable import Variable, is_open
from .recorded_node import Form, type_key


class Leaf:
    """A leaf of a pattern: a constant, or a value of a certain type.

    `source` is a reference to the parameter of which it is a value, if there is a newer one by now:
    a step trains it.
    """

    __slots__ = ("constant", "source", "type")

    def __init__(self, x: Variable) -> None:
        self.constant = x if x.value is not None else None
        self.type: Any = None if x.eager_value is None else type_key(x)
        is_read = x.source is not None and x.source.is_persistent
        self.source = ref(x.source) if is_read else None

    def fits(
        self, x: Variable, attributes: dict[str, Any], through: bool, names: list[str] | None
    ) -> bool:
        """Return whether a Variable may take the place of the leaf.

        With `names` its sizes may have other names, which are added to these.
        """
        if self.constant is not None:
            return x.value is not None and x.content == self.constant.content
        value = attributes.get("eager_value")
        if value is None or x.value is not None or x.history.ended:
            return False
        if through and x.tracked and attributes.get("node") is not None:
            return False  # it is computed again
        source = attributes.get("source")
        if self.source is not None:
            if self.source() is not source:
                return False
        elif source is not None and source.is_persistent:
            return False
        key = attributes.get("type_key") or type_key(x)
        if names is None or key == self.type:
            if names is not None:
                names += self.names
            return key == self.type
        if len(key) > 2 or key[0] != self.type[0] or not _are_alike(key[1], self.type[1]):
            return False
        names += _names(key[1])
        return True

    @property
    def names(self) -> list[str]:
        """The names of its sizes."""
        return [] if self.constant is not None else _names(self.type[1])


def _names(dims: Iterable[Any]) -> list[str]:
    return [d for d in dims if isinstance(d, str)]


def _are_alike(dims: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether sizes are the same up to names."""
    return len(dims) == len(others) and all(
        d == e or (isinstance(d, str) and isinstance(e, str) and is_open(d) == is_open(e))
        for d, e in zip(dims, others, strict=True)
    )


def named_alike(
    templates: Sequence[Any], others: Sequence[Any], names: list[str] | None = None
) -> bool:
    """Whether templates are the same up to names of sizes; those of the first are added."""
    for a, b in zip(templates, others, strict=True):
        if a.kind != b.kind:
            return False
        if type(a) is Form:
            if a is not b and not (
                not (a.blocks or b.blocks)  # those of equal bodies are one
                and len(a.types) == len(b.types)
                and all(
                    d == e and _are_alike(dims, sizes)
                    for (dims, d), (sizes, e) in zip(a.types, b.types, strict=True)
                )
            ):
                return False
            if names is not None:
                names += [d for dims, _ in a.types for d in _names(dims)]
        elif names is not None:
            names += a.sizes
    return True
