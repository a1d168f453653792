"""The plans of a session: found by name and structure, made where there is none, and run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM
from ..graph.errors import BackendError, GraphError
from ..graph.recording import not_recording
from ..graph.update import Assignment, Update
from ..graph.variable import Variable
from ..run.compiler import Compiler
from ..run.failures import located
from ..run.fusion import asked
from ..run.index_errors import explained as index_explained
from ..run.index_errors import is_index_error
from ..run.observer import Observer
from ..run.programs import Source
from ..run.request import Request
from ..run.session import Session
from ..run.structure import Structure
from .concrete import ConcreteGraph, concrete_sizes
from .plan import Plan, Targets
from .trace import Trace

Of = Callable[[Variable], Variable]
Make = Callable[[Of], Targets]


class BySizes:
    """In the place of a plan: there is one for each combination of sizes."""

    updated = ()


class RecordedRequest(Request):
    """The evaluation of a trace, for observers; its targets are built for those that ask."""

    recorded = True

    def __init__(self, trace: Trace, build: Callable[[], Targets]) -> None:
        super().__init__([], [], {}, False)
        self._trace, self._build = trace, build

    def targets(self) -> tuple[Sequence[Variable], Sequence[Update]]:
        """Return the fetches, and the assignments as an update."""
        self._trace.check()
        fetches, updates, *_ = self._build()
        return fetches, [Update([Assignment(v, value) for v, value in updates])]


class Plans:
    """Plans by what they compute and by the structure of the graph that they compute it for.

    They are in the cache of the compiler. A plan is dropped with the first of its persistent
    variables.
    """

    def __init__(self, session: Session) -> None:
        self._session: Any = ref(session)

    def evaluate(
        self,
        name: tuple,
        trace: Trace,
        make: Make | None = None,
        before: Callable[[Plan], None] | None = None,
    ) -> tuple[Plan, list]:
        """Return the plan of this name for graphs like that of a trace, and its values for this.

        `make(of)` returns its targets, where a Variable of the trace is `of(it)`: itself, or the
        same with numbers for sizes if that fails. Without it the targets are those of the trace.
        `before(plan)` is called when there is a plan, before it runs.
        """
        session = self._session()
        if session.observers.sees_recorded(session):
            return self._observed(session, name, trace, make, before)
        compilers = session.compilers
        compiler = compilers.usual if asked.get() is None else compilers.current
        plan = self._plan(compiler, name, trace, make)
        if before is not None:
            before(plan)
        try:
            return plan, plan.run(session, trace)
        except BackendError as error:
            raise self.explained(error, session, plan, trace, make) from error.__cause__

    def _observed(
        self,
        session: Session,
        name: tuple,
        trace: Trace,
        make: Make | None,
        before: Callable[[Plan], None] | None,
    ) -> tuple[Plan, list]:
        """The same where observers take part."""
        request = RecordedRequest(trace, lambda: self._targets(trace, make)[0])
        with ExitStack() as stack:
            observers: list[Observer] = session.observers.start(session, request, stack)
            plan = self._plan(request.compiler or session.compiler, name, trace, make)
            session.store.start(plan.program)
            for observer in observers:
                observer.before(plan.program, {})
            if before is not None:
                before(plan)
            try:
                request.results = plan.run(session, trace)
            except BackendError as error:
                raise self.explained(error, session, plan, trace, make) from error.__cause__
            return plan, request.results

    def explained(
        self,
        error: BackendError,
        session: Session,
        plan: Plan,
        trace: Trace,
        make: Make | None = None,
    ) -> BackendError:
        """Return the error of a plan that did not run: with its line, or the index outside."""
        if not plan.knows_lines and error.place is not None:
            error = self._located(error, session, trace, make)
        if is_index_error(error):
            error = index_explained(error, trace.nodes, partial(_computed, session))
        return error

    def _plan(self, compiler: Compiler, name: tuple, trace: Trace, make: Make | None) -> Plan:
        """The plan of a name for a trace, which covers its leaves."""
        pattern = trace.pattern
        if pattern is not None:
            if pattern.plan is not None and pattern.plan[0] is name:
                _, of, known = pattern.plan
                plan = known() if of is compiler else None
                if plan is not None and plan.covers(trace):  # it is in the cache
                    return plan
            plan = self._found(compiler, name, trace, make)
            if plan.is_sized:
                pattern.is_sized = True
            if trace.has_sizes_of_pattern or not plan.is_sized:
                pattern.plan = name, compiler, ref(plan)
            return plan
        return self._found(compiler, name, trace, make)

    def _found(self, compiler: Compiler, name: tuple, trace: Trace, make: Make | None) -> Plan:
        cache = compiler.cache
        key: tuple = ("plan", name, cache.number(trace.key), tuple(map(ref, trace.states)))
        plan = cache.get(key)
        if plan is None:
            trace.check()
            targets, leaves = self._targets(trace, make)
            if leaves is not None:
                cache.add(key, BySizes(), trace.states)
                key = (*key, concrete_sizes(trace))
            return self._add(compiler, key, trace, targets, leaves)
        if type(plan) is BySizes:
            key = (*key, concrete_sizes(trace))
            plan = cache.get(key)
            if plan is None or (plan.lengths and not plan.covers(trace)):
                return self._add(compiler, key, trace, *self._concrete_targets(trace, make))
        elif plan.lengths and not plan.covers(trace):
            trace.check()
            return self._add(compiler, key, trace, *self._targets(trace, make))
        return plan

    def _targets(
        self, trace: Trace, make: Make | None
    ) -> tuple[Targets, Mapping[Variable, Variable] | None]:
        """The targets, and the leaves that are not those of the trace; None if all are."""
        if make is None:
            return (trace.fetches, trace.updates, None, Update()), None
        with not_recording():
            try:
                return make(_itself), None
            except GraphError:
                if not trace.sizes:
                    raise
        return self._concrete_targets(trace, make)

    def _concrete_targets(
        self, trace: Trace, make: Any
    ) -> tuple[Targets, Mapping[Variable, Variable]]:
        with not_recording():
            graph = ConcreteGraph(trace)
            return make(graph.of), graph.leaves

    def _add(
        self,
        compiler: Compiler,
        key: tuple,
        trace: Trace,
        targets: Targets,
        leaves: Mapping[Variable, Variable] | None,
    ) -> Plan:
        """A new plan, which the cache holds until one of its variables is freed."""
        structure = trace if targets[0] is trace.fetches else None
        with not_recording():
            plan = Plan(compiler, trace, targets, structure, leaves or {})
        plan.is_sized = leaves is not None
        program = plan.program
        variables = dict.fromkeys([v() for v in (*program.states, *program.updated)])
        of = [v for v in (*trace.states, *variables) if v is not None]
        compiler.cache.add(key, plan, dict.fromkeys(of))
        return plan

    def _located(
        self, error: BackendError, session: Session, trace: Trace, make: Make | None
    ) -> BackendError:
        """An error with the line that recorded what failed.

        A program that is there already knows the lines of the graph that it was compiled for.
        """
        (fetches, updates, *_), _ = self._targets(trace, make)
        with not_recording():
            structure = Structure(fetches, updates, NO_SEAM, (), False) if make else trace
            held = [v for v in structure.leaves if v.eager_value is not None]
            fed = {v: np.asarray(v.eager_value) for v in held}
            source = Source(structure, fetches, updates, NO_SEAM, fed, False)
            return located(error, session.backend, source)


def _itself(v: Variable) -> Variable:
    return v


def _computed(session: Session, variables: Sequence[Variable]) -> list[np.ndarray] | None:
    """The values of recorded Variables; None if an operator before them fails."""
    held = [v.eager_value if v.value is None else v.value for v in variables]
    if all(a is not None for a in held):
        return [np.asarray(a) for a in held]
    leaves = Structure(variables, [], NO_SEAM, (), False).leaves
    fed = {v: np.asarray(v.eager_value) for v in leaves if v.eager_value is not None}
    try:
        return session.compiler.new(Request(variables, [], fed, False)).peek(session.store, fed)
    except BackendError:  # its own index is found first
        return None
