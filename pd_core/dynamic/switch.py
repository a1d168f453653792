"""Values at hand without a `with`, for notebooks and scripts."""

from ..graph.errors import GraphError
from ..graph.recording import recorder
from .guard import guard

_enabled: list[guard] = []


def enable_dynamic(device: str | None = None, immediate: bool = False) -> None:
    """Have values at hand from here on, as inside `with pd.guard(device, immediate):`.

    For notebooks and scripts; `disable_dynamic()` ends it. A second call replaces the device and
    `immediate`. `pd.reset()` keeps it on, with the new session. It holds for the thread that calls
    it.

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
    _enabled.append(new)


def disable_dynamic() -> None:
    """End what `enable_dynamic()` began: what is built from here on is a static graph.

    Without effect if it was not called.

    Raises:
        GraphError: it is called inside `with pd.guard():`.
    """
    _check("disable_dynamic")
    if _enabled:
        _enabled.pop().__exit__(None)


def _check(who: str) -> None:
    current = recorder()
    own = _enabled[-1].entered[-1] if _enabled else None
    if current is not None and current is not own:
        raise GraphError(
            f"{who}: called inside `with pd.guard():`\n"
            "  hint: the `with` says where values are at hand; call it before or after"
        )
