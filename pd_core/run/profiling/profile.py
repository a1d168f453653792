"""pd.profile(): evaluations whose kernels are timed, by layer and operator."""

from contextvars import ContextVar, Token
from functools import partial
from tempfile import TemporaryDirectory
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Self
from weakref import WeakKeyDictionary

from ...backend.base import Backend
from ..compiler import Compiler
from ..observer import Observer
from ..programs import Compiled, Source
from ..request import Request
from .kernels import Evaluation
from .report import Report
from .timed import TimedBackend, TimedSession, compiled_for


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
        self._compilers: WeakKeyDictionary[Any, dict[Backend, Compiler]] = WeakKeyDictionary()

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
            self._compilers.clear()
            self._folder.cleanup()
        self.evaluations.sort(key=lambda e: e.begin)
        self.has_ended = True
        if self._outer is not None:
            self._outer.evaluations += self.evaluations

    def begin(self) -> bool:
        """Begin an evaluation of this thread; False if it is a part of one that has begun."""
        thread = get_ident()
        if thread in self._open:
            return False
        self._open[thread] = Evaluation(thread, perf_counter_ns())
        return True

    def end(self, completed: bool) -> None:
        """End the evaluation of this thread."""
        current = self._open.pop(get_ident())
        current.end, current.completed = perf_counter_ns(), completed
        self.evaluations.append(current)

    def compiler_of(self, session: Any) -> Compiler:
        """Return what compiles the programs of a session for this profile."""
        backend, compilers = session.backend, self._compilers.setdefault(session, {})
        if backend not in compilers:
            assert self._folder is not None
            timed = TimedBackend(backend, self._folder.name, self._sessions, self._current)
            make: Any = partial(_compiled, timed)
            compilers[backend] = Compiler(backend, None, make)
        return compilers[backend]

    def _current(self) -> Evaluation:
        return self._open[get_ident()]


def _compiled(timed: TimedBackend, _: Backend, source: Source) -> Compiled:
    return compiled_for(timed, source)


_profile: ContextVar[profile | None] = ContextVar("pd_core.profile", default=None)
current_profile = _profile.get  # the one that measures this thread; None without one


class Measuring(Observer):
    """Measures an evaluation, and gives it the programs of a profile."""

    @staticmethod
    def takes_part(session: Any, request: Request) -> bool:
        """Return whether a profile measures this thread."""
        return current_profile() is not None

    def start(self) -> None:
        """Begin to measure."""
        profile = self._profile = current_profile()
        assert profile is not None
        self._is_whole = profile.begin()
        self.request.compiler = profile.compiler_of(self.session)

    def after(self, results: list[Any] | None) -> None:
        """End, unless the evaluation is a part of another one."""
        if self._is_whole and self._profile is not None:
            self._profile.end(results is not None)
