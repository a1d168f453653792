"""The observers of a session: what takes part in its evaluations, and in which order."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from .exchange import Gradients, process, shared_exchange
from .exchanging import Exchanging
from .host_inputs import HostInputs, in_use
from .numerics.checking import Checking, checking
from .observer import Observer
from .profiling.profile import Measuring, current_profile
from .recording import Recording
from .request import Request

# The time of the others is a part of what is measured, what is recorded may be a source of host
# inputs, and a check comes before other processes wait for this one.
_KINDS: tuple[type[Observer], ...] = (Measuring, Recording, HostInputs, Checking, Exchanging)


class Observers:
    """What takes part in the evaluations of a session besides its programs.

    `exchange` is a function of the user on gradients, `check_numerics` tells to check every
    evaluation. Others are in force for a thread or for the process.
    """

    def __init__(self, check_numerics: bool):
        self.check_numerics = check_numerics
        self.exchange: Callable[[Gradients], Gradients] | None = None

    def is_active(self, session: Any) -> bool:
        """Return whether any of them takes part, but for what `pd.guard()` has recorded."""
        return (  # without `sees_recorded`, as each evaluation asks
            bool(in_use)
            or self.exchange is not None
            or self.check_numerics
            or checking.get()
            or current_profile() is not None
            or (bool(process) and shared_exchange(session) is not None)
        )

    def sees_recorded(self, session: Any) -> bool:
        """Return whether any of them takes part where a graph of `pd.guard()` is computed."""
        return (
            self.exchange is not None
            or self.check_numerics
            or checking.get()
            or current_profile() is not None
            or (bool(process) and shared_exchange(session) is not None)
        )

    def start(self, session: Any, request: Request, stack: ExitStack) -> list[Observer]:
        """Return those of a request, which end with the stack."""
        started: list[Observer] = []
        for kind in _KINDS:
            if kind.takes_part(session, request):
                observer = kind(session, request)
                stack.callback(_end, observer)
                observer.start()
                started.append(observer)
        return started


def _end(observer: Observer) -> None:
    observer.after(observer.request.results)
