"""pd.profile(): evaluations whose kernels are timed, by layer and operator."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from functools import wraps
from tempfile import TemporaryDirectory
from threading import get_ident
from time import perf_counter_ns
from typing import Any, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

from ...backend.base import Backend
from ...graph.update import Update
from ..programs import ProgramCache
from ..step import StepCache
from .kernels import Evaluation
from .report import Report
from .timed import TimedBackend, TimedPrograms, TimedSession

P = ParamSpec("P")
R = TypeVar("R")


class profile(Report):
    """Measure the evaluations of this thread in a `with`: their time by layer and operator.

    They run in sessions of ONNX Runtime that time every kernel, compiled for this block and dropped
    after it; results are bit for bit the same. Evaluations outside of it, and those of other
    threads, run as ever. When the block has ended, by an error too, `print` shows the time of each
    layer; see `table`, `rows` and `save`.

    The first evaluation of a program compiles it. It is left out if the program ran again, and so
    are evaluations that raise. An outer profile counts the evaluations of an inner one too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._token: Token[profile | None] | None = None
        self._outer: profile | None = None
        self._folder: TemporaryDirectory | None = None
        self._open: dict[int, Evaluation] = {}  # by thread
        self._sessions: list[TimedSession] = []
        self._steps: WeakKeyDictionary[Any, StepCache] = WeakKeyDictionary()
        self._plans: WeakKeyDictionary[Any, OrderedDict] = WeakKeyDictionary()

    def __enter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("profile: it measures one block, and has measured it")
        self._folder = TemporaryDirectory(prefix="pd_profile_")
        self._outer = current_profile()
        self._token = _profile.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._token is not None and self._folder is not None
        _profile.reset(self._token)
        try:
            for session in self._sessions:
                session.finish()
        finally:
            self._sessions.clear()
            self._steps.clear()
            self._plans.clear()
            self._folder.cleanup()
        self.evaluations.sort(key=lambda e: e.begin)
        self.has_ended = True
        if self._outer is not None:
            self._outer.evaluations += self.evaluations

    def evaluation(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that evaluates; a call inside of another one is a part of that."""
        thread = get_ident()
        if thread in self._open:
            return function(*args, **kwargs)
        current = self._open[thread] = Evaluation(thread, perf_counter_ns())
        try:
            result = function(*args, **kwargs)
            current.completed = True
            return result
        finally:
            current.end = perf_counter_ns()
            del self._open[thread]
            self.evaluations.append(current)

    def steps_of(self, session: Any) -> StepCache:
        """Return the steps of a session that are compiled for this profile."""
        return self._steps.setdefault(session, StepCache())

    def plans_of(self, plans: Any) -> OrderedDict:
        """Return the plans for recorded graphs that are compiled for this profile."""
        return self._plans.setdefault(plans, OrderedDict())

    def programs(self, updates: Sequence[Update]) -> ProgramCache:
        """Return what compiles a program for this profile; `updates` are among its targets."""
        return TimedPrograms(self._timed, updates)

    def _timed(self, backend: Backend) -> TimedBackend:
        assert self._folder is not None
        return TimedBackend(backend, self._folder.name, self._sessions, self._current)

    def _current(self) -> Evaluation:
        return self._open[get_ident()]


_profile: ContextVar[profile | None] = ContextVar("pd_core.profile", default=None)
current_profile = _profile.get  # the one that measures this thread; None without one


def measured(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose calls are evaluations."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        current = current_profile()
        if current is None:
            return function(*args, **kwargs)
        return current.evaluation(function, *args, **kwargs)

    return call
