"""Programs whose sessions record the times of their kernels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from ...backend.base import NO_SEAM, Backend, Graph, Seam
from ...backend.ort import OrtBackend, session
from ...graph.recording import not_recording
from ...graph.site import Site
from ..programs import Compiled, Source, compiled
from .kernels import Evaluation, Run, add_kernels, read_recorded
from .origins import origins_of, with_origins

_numbers = count()  # of programs


class TimedSession:
    """A session of ONNX Runtime that records its kernels, and when it ran.

    `evaluation()` returns the one that a run belongs to.
    """

    def __init__(self, inner: Any, program: int, evaluation: Callable[[], Evaluation]):
        self.inner, self.program, self.evaluation = inner, program, evaluation
        self.runs: list[Run] = []
        self.sites: dict[str, Site | None] = {}  # of the operators by name

    def io_binding(self) -> Any:
        """Return a new binding of inputs and outputs."""
        return self.inner.io_binding()

    def run_with_iobinding(self, binding: Any) -> None:
        """Run the session on a binding."""
        run = Run(self.program, perf_counter_ns())
        self.runs.append(run)
        self.evaluation().runs.append(run)
        try:
            self.inner.run_with_iobinding(binding)
            run.completed = True
        finally:
            run.end = perf_counter_ns()

    def finish(self) -> None:
        """Add the kernels to the runs; nothing more is recorded."""
        add_kernels(self.runs, read_recorded(self.inner.end_profiling()), self.sites)
        self.runs.clear()


class TimedBackend:
    """A backend whose programs have timed sessions, which are added to a list.

    The reference evaluator has no kernels to time: its programs are the same as ever.
    """

    def __init__(
        self,
        backend: Backend,
        folder: str,
        sessions: list[TimedSession],
        evaluation: Callable[[], Evaluation],
    ):
        self.backend, self.device, self.layouts = backend, backend.device, backend.layouts
        self.kernels = backend.kernels
        self.folder, self.sessions, self.evaluation = folder, sessions, evaluation
        self.values, self.sites = backend.values, backend.sites
        self.prepared = backend.prepared

    def compile(self, graph: Graph, seam: Seam = NO_SEAM) -> Any:
        """Return a program of the graph."""
        if not isinstance(self.backend, OrtBackend):
            return self.backend.compile(graph, seam)
        number = next(_numbers)
        opened: list[TimedSession] = []

        def open_session(
            model: bytes,
            device: str,
            without: Iterable[str],
            plan: bool,
            libraries: Sequence[Path],
        ) -> TimedSession:
            path = f"{self.folder}/{number}_{len(opened)}"
            options: Any = {"without": without, "plan": plan, "libraries": libraries}
            inner = session(model, device, profile=path, **options)
            opened.append(TimedSession(inner, number, self.evaluation))
            return opened[-1]

        program = self.backend.compile(graph, seam, open_session)
        for timed, sites in zip(opened, program.sites, strict=True):
            timed.sites = dict(sites)
        self.sessions += opened
        return program


def compiled_for(timed: TimedBackend, source: Source) -> Compiled:
    """Return a program with timed sessions, whose operators know where they come from.

    It is for these targets alone: a program of the same structure may have other layers and lines.
    """
    begin = perf_counter_ns()
    with not_recording():
        traced = _with_origins(source)
    program = compiled(timed, traced)
    timed.evaluation().compiling.append((begin, perf_counter_ns()))
    return program


def _with_origins(source: Source) -> Source:
    """The same fetches, updates and seam, of nodes that know where they come from."""
    fed = set(source.fed)
    flat = [*source.fetches, *(new for _, new in source.updates), *source.seam]
    again = iter(with_origins(flat, origins_of(flat, source.targets, fed), fed))
    fetches = [next(again) for _ in source.fetches]
    updates = [(v, next(again)) for v, _ in source.updates]
    seam = replace(source.seam, values=tuple(again))
    return replace(source, fetches=fetches, updates=updates, seam=seam)
