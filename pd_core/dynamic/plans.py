"""The plans of a session: found by name and structure, made where there is none, and run."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM
from ..graph.errors import BackendError, GraphError
from ..graph.recording import not_recording
from ..graph.update import Assignment, Update
from ..graph.variable import Variable
from ..run.index_errors import explained, is_index_error
from ..run.numerics.checking import check, is_checking
from ..run.profiling.profile import current_profile, measured
from ..run.programs import build_graph
from ..run.session import Session
from ..run.step import Step
from ..run.structure import Structure
from .plan import Plan, Targets
from .sizes import Numbered, numbers_of
from .trace import Trace

Of = Callable[[Variable], Variable]
Make = Callable[[Of], Targets]

_MOST = 256
_numbers = count()


class BySizes:
    """In the place of a plan: there is one for each combination of sizes."""

    states = updated = ()


class Plans:
    """Plans by what they compute and by the structure of the graph that they compute it for.

    A plan is dropped with the first of its persistent variables. Those without any are for values
    that are fed; beyond a limit the least recently used is dropped.
    """

    def __init__(self, session: Session) -> None:
        self._session: Any = ref(session)
        self._plans: OrderedDict[tuple, Any] = OrderedDict()  # a Plan or BySizes
        # numbers of structures: a long key is hashed once in an evaluation
        self._structures: dict[tuple, int] = {}

    def clear(self) -> None:
        """Drop all plans."""
        self._plans.clear()
        self._structures.clear()

    @measured
    def evaluate(
        self,
        name: tuple,
        trace: Trace,
        make: Make | None = None,
        before: Callable[[], None] | None = None,
    ) -> tuple[Plan, list]:
        """Return the plan of this name for graphs like that of a trace, and its values for this.

        `make(of)` returns its targets, where a Variable of the trace is `of(it)`: itself, or the
        same with numbers for sizes if that fails. Without it the targets are those of the trace.
        `before()` is called when there is a plan, before it runs.
        """
        session = self._session()
        if session.check_numerics or is_checking():
            self._check(session, trace, make)
        plan = self._plan(name, trace, make)
        if not plan.covers(trace):
            plan = self._plan(name, trace, make, anew=True)
        if before is not None:
            before()
        try:
            return plan, plan.run(session, trace)
        except BackendError as error:
            failed = error
            if not plan.compiled and error.place is not None:
                failed = self._located(error, session, trace, make)
            if is_index_error(failed):
                failed = explained(failed, trace.order, partial(_computed, session))
            raise failed from error.__cause__

    def _plan(self, name, trace, make, anew=False):
        """The plan of a name for a trace; another one in its place if it is made `anew`."""
        structure = self._structures.get(trace.key)
        if structure is None:
            structure = self._structures[trace.key] = next(_numbers)
        key: tuple = (name, structure, tuple(map(ref, trace.states)))
        profile = current_profile()
        plans = self._plans if profile is None else profile.plans_of(self)
        plan = plans.get(key)
        if plan is None or (anew and type(plan) is not BySizes):
            trace.check()
            targets, leaves = self._targets(trace, make)
            if leaves is not None:
                _put(plans, key, BySizes(), trace)
                key = (*key, numbers_of(trace))
            return self._add(plans, key, trace, targets, leaves)
        plans.move_to_end(key)
        if type(plan) is BySizes:
            key = (*key, numbers_of(trace))
            plan = plans.get(key)
            if plan is None or anew:
                return self._add(plans, key, trace, *self._numbered(trace, make))
            plans.move_to_end(key)
        return plan

    def _targets(self, trace, make):
        """The targets, and the leaves that are not those of the trace; None if all are."""
        if make is None:
            return (trace.fetches, trace.updates, None, Update()), None
        with not_recording():
            try:
                return make(_itself), None
            except GraphError:
                if not trace.sizes:
                    raise
        return self._numbered(trace, make)

    def _numbered(self, trace, make):
        with not_recording():
            graph = Numbered(trace)
            return make(graph.of), graph.leaves

    def _add(self, plans, key, trace, targets, leaves):
        structure = trace if targets[0] is trace.fetches else None
        with not_recording():
            plan = Plan(self._session(), trace, targets, structure, leaves or {})
        _put(plans, key, plan, trace)
        while len(plans) > _MOST:
            plans.popitem(last=False)
        if len(self._structures) > 2 * len(plans) + _MOST // 4:
            used = {number for _, number, *_ in list(plans)}
            for key in [k for k, number in self._structures.items() if number not in used]:
                del self._structures[key]
        return plan

    def _check(self, session, trace, make):
        """Look for values that are not finite, in a program of its own."""
        trace.check()
        (fetches, updates, *_), _ = self._targets(trace, make)
        assignments = [Assignment(v, value) for v, value in updates]
        with not_recording():
            check(session, fetches, [Update(assignments)], {}, False)

    def _located(self, error, session, trace, make):
        """An error with the line that recorded what failed.

        A program that is there already knows the lines of the graph that it was compiled for.
        """
        (fetches, updates, *_), _ = self._targets(trace, make)
        with not_recording():
            structure = Structure(fetches, updates, NO_SEAM, (), False) if make else trace
            fed = {v: np.asarray(v.held) for v in structure.leaves if v.held is not None}
            whole = fetches, updates, NO_SEAM, fed, False, session.backend, structure.constants
            graph, values = build_graph(*whole)
            stage, index = error.place
            operator, site = session.backend.sites(graph, values)[stage][index]
        return BackendError(error.text, operator, site, error.place)


def _put(plans, key, plan, trace):
    """Add a plan until one of its variables is freed, at any point of any thread."""
    drop = partial(_drop, ref(plans), key)
    references = [*map(ref, trace.states), *plan.states, *plan.updated]
    variables = dict.fromkeys(r() for r in references)
    plan.watched = [ref(v, drop) for v in variables if v is not None]
    plans[key] = plan


def _drop(plans, key, _):
    owner = plans()
    if owner is not None:
        owner.pop(key, None)


def _itself(v):
    return v


def _computed(session, variables):
    """The values of recorded Variables; None if an operator before them fails."""
    held = [v.held if v.value is None else v.value for v in variables]
    if all(a is not None for a in held):
        return [np.asarray(a) for a in held]
    leaves = Structure(variables, [], NO_SEAM, (), False).leaves
    fed = {v: np.asarray(v.held) for v in leaves if v.held is not None}
    try:
        return session.peek(Step(session.backend, variables, [], fed, False), fed)
    except BackendError:  # its own index is found first
        return None
