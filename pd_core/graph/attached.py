"""Tables by Variable whose values refer to the Variable."""

from typing import Any, Generic, TypeVar
from weakref import ref

from .variable import Variable

_Value = TypeVar("_Value")


class Attached(Generic[_Value]):
    """Values by Variable, freed with the Variable though they refer to it.

    A Variable itself holds its value: a WeakKeyDictionary, which holds the values, would keep each
    Variable that its own value refers to for ever. Values of a table that is gone are removed from
    a Variable with the next addition to it.
    """

    __slots__ = ("__weakref__", "key")  # `key` is that of its value in the table of a Variable

    def __init__(self) -> None:
        self.key = ref(self)

    def get(self, v: Variable) -> _Value | None:
        """Return the value of a Variable, None without one."""
        values = v.__dict__.get("attached")
        return None if values is None else values.get(self.key)

    def __getitem__(self, v: Variable) -> _Value:
        return v.__dict__["attached"][self.key]

    def __setitem__(self, v: Variable, value: _Value) -> None:
        self._values(v)[self.key] = value

    def setdefault(self, v: Variable, value: _Value) -> _Value:
        """Return the value of a Variable, which is `value` if it had none."""
        return self._values(v).setdefault(self.key, value)

    def pop(self, v: Variable) -> _Value | None:
        """Remove the value of a Variable and return it, None without one."""
        values = v.__dict__.get("attached")
        return None if values is None else values.pop(self.key, None)

    def _values(self, v: Variable) -> dict[Any, _Value]:
        values = v.__dict__.setdefault("attached", {})
        if values and self.key not in values:
            for key in [key for key in list(values) if key() is None]:
                values.pop(key, None)
        return values
