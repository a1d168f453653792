"""Values at hand without a `with`, for notebooks and scripts."""

from contextvars import ContextVar

from ..graph.errors import GraphError
from ..graph.recording import recorder
from .guard import guard
from .recorder import Recorder

# What was entered in this context, and what records there.
_enabled: ContextVar[tuple[guard, Recorder] | None] = ContextVar("pd_core.enabled", default=None)


def enable_dynamic(device: str | None = None, immediate: bool = False) -> None:
    """Have values at hand from here on, as inside `with pd.guard(device, immediate):`.

    For notebooks and scripts; `disable_dynamic()` ends it. A second call replaces the device and
    `immediate`. `pd.reset()` keeps it on, with the new session. It holds for the thread that calls
    it; in a cell of a notebook that has an `await`, which is a task of its own, for this cell.

    Args:
        device: as of `Session`; by default that of the session in force.
        immediate: whether every op is computed when it is called.

    Raises:
        GraphError: it is called inside `with pd.guard():`.
    """
    _check("enable_dynamic")
    disable_dynamic()
    new = guard(device, immediate)
    new.__enter__()
    _enabled.set((new, new.entered[-1]))


def disable_dynamic() -> None:
    """End what `enable_dynamic()` began: what is built from here on is a static graph.

    Without effect if it was not called.

    Raises:
        GraphError: it is called inside `with pd.guard():`.
    """
    _check("disable_dynamic")
    enabled = _enabled.get()
    if enabled is not None:
        _enabled.set(None)
        block, recording = enabled
        if recording not in block.entered:  # a task has ended it for itself
            block.entered.append(recording)
        block.__exit__(None)


def _check(who: str) -> None:
    current = recorder()
    enabled = _enabled.get()
    own = None if enabled is None else enabled[1]
    if current is not None and current is not own:
        raise GraphError(
            f"{who}: called inside `with pd.guard():`\n"
            "  hint: the `with` says where values are at hand; call it before or after"
        )
