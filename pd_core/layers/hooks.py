"""Calls of layers: their types, and hooks, functions that are called around `forward`."""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

PreHook = Callable[[Any, tuple], Any]  # (layer, inputs) -> inputs, or None to keep them
Hook = Callable[[Any, tuple, Any], Any]  # (layer, inputs, output) -> output, or None

P = ParamSpec("P")
R = TypeVar("R")
_Output = TypeVar("_Output", covariant=True)


class Called(Protocol[P, _Output]):
    """A layer to type checkers: calls have the types of its `forward`."""

    @property
    def forward(self) -> Callable[P, _Output]: ...


class HookHandle:
    """One registered hook; `remove()` unregisters it."""

    def __init__(self, hooks: dict["HookHandle", Callable[..., Any]], hook: Callable[..., Any]):
        self._hooks = hooks
        hooks[self] = hook

    def remove(self) -> None:
        """Call the hook no more; a second time this does nothing."""
        self._hooks.pop(self, None)
