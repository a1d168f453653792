"""Hooks: functions that are called around a layer's `forward`."""

from collections.abc import Callable
from typing import Any


class HookHandle:
    """One registered hook; `remove()` unregisters it."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: dict["HookHandle", Callable[..., Any]], hook: Callable[..., Any]):
        self._hooks = hooks
        hooks[self] = hook

    def remove(self) -> None:
        """Call the hook no more; a second time this does nothing."""
        self._hooks.pop(self, None)
