"""check_numerics: evaluations that stop at the first operator that makes a NaN or an infinity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

import numpy as np

from ...backend.base import NO_SEAM, Backend, SeamExchange
from ...graph.errors import BackendError
from ...graph.update import Update
from ...graph.variable import Variable
from ..exchange import Exchange
from ..failures import located
from ..step import Step, StepCache, changes_of, step_key
from .finiteness import Found, Values, flags
from .loop_steps import Body
from .report import Place, exchange_error, report

Arrays = dict[Variable, np.ndarray]

_checks: ContextVar[bool] = ContextVar("pd_core.check_numerics", default=False)


@contextmanager
def check_numerics() -> Iterator[None]:
    """Check every evaluation of this thread inside a `with` for NaN and infinite values.

    An evaluation that makes one raises a NumericError, which names the first operator with such an
    output, the line that built it, and the ranges of its inputs; nothing is stored, and no random
    number counts as drawn. A value that is fed or stored and is not finite is named instead.
    Everything is computed twice: by a program that checks, then by the ordinary one.

    The -inf of a mask, be it a constant, fed, or stored in a variable that is not trained, is no
    error, nor are infinities that operators make of it: only a NaN that comes of it, an infinity
    that a training step would store, and a fetched scalar of +inf. What only the unselected side of
    a `where` holds does not count either. A `Session` has a switch for all of its evaluations.
    """
    token = _checks.set(True)
    try:
        yield
    finally:
        _checks.reset(token)


def is_checking() -> bool:
    """Return whether this thread is inside of `check_numerics`."""
    return _checks.get()


class Evaluating(Protocol):
    """What a check needs of a session."""

    backend: Backend
    checks: StepCache

    def peek(self, step: Step, fed: Arrays) -> list[np.ndarray]:
        """Return the fetches of a step without updates; no random number counts as drawn."""


class Flags(Step):
    """The step that tells which of some values are not finite.

    `suspects` are the indices of those that were not once before: it also says why.
    """

    def __init__(self, backend: Backend, values: Values, suspects: Sequence[int], fed: Arrays):
        super().__init__(backend, [flags(values.all, suspects)], [], fed, values.training)
        self.suspects, self.rules = suspects, values.rules

    def unseen(self, vector: np.ndarray) -> list[int]:
        """Return the values that are not finite, by their sums, and no suspects yet."""
        sums = vector[: len(self.rules.inputs)]
        return sorted(set(np.flatnonzero(~np.isfinite(sums)).tolist()) - set(self.suspects))

    def found(self, vector: np.ndarray) -> Found:
        """Return what the suspects hold."""
        counts = vector[len(self.rules.inputs) :].reshape(-1, 3)
        suspects = np.array(self.suspects, np.int64)
        return Found(*(frozenset(suspects[c > 0].tolist()) for c in counts.T))


class Search:
    """The search for the first value that is not finite, with a program that may be kept.

    `build()` returns the Values, again and again: a program that is kept must not hold them.
    """

    def __init__(
        self,
        session: Evaluating,
        build: Callable[[], Values],
        fed: Arrays,
        step: Flags | None = None,
    ):
        self.session, self.build, self.fed = session, build, fed
        self.step = self._compiled(()) if step is None else step

    def _compiled(self, suspects):
        return Flags(self.session.backend, self.build(), suspects, self.fed)

    def fault(self, fed: Arrays) -> tuple[int, Found] | None:
        """Return the index of the first faulty value, and all findings; None if all are right."""
        vector = self._run(fed)
        unseen = self.step.unseen(vector)
        if unseen:
            self.step = self._compiled((*self.step.suspects, *unseen))
            vector = self._run(fed)
        found = self.step.found(vector)
        fault = self.step.rules.first_fault(found)
        return None if fault is None else (fault, found)

    def _run(self, fed):
        try:
            with np.errstate(all="ignore"):  # sums; the reference evaluator is NumPy, which warns
                (vector,) = self.session.peek(self.step, fed)
        except BackendError as error:
            if self.step.compiled or error.place is None:
                raise
            values = self.build()
            target, backend = flags(values.all, self.step.suspects), self.session.backend
            raise located(error, backend, [target], [], NO_SEAM, fed, values.training) from error
        return vector


def check(
    session: Evaluating,
    fetches: Sequence[Variable],
    updates: Sequence[Update],
    fed: Arrays,
    training: bool,
    exchange: Exchange | None = None,
) -> SeamExchange | None:
    """Raise a NumericError if this evaluation would make a NaN or an infinity.

    What `exchange` returns, and what is computed from it, is checked by the one that is
    returned in its place.
    """
    new = [v for v in changes_of(updates).values() if v is not None]
    stored = [a.value for u in updates if u.training for a in u.assignments]
    seam = NO_SEAM if exchange is None else exchange.seam

    def build():
        return Values(fetches, new, stored, fed, training, seam)

    key = step_key(fetches, updates, fed, training, seam)
    step = session.checks.get(key)
    assert step is None or isinstance(step, Flags)
    step = None if step is None or step.is_outdated or not step.covers(fed) else step
    if step is None and not build().all:
        return exchange
    search = Search(session, build, fed, step)
    fault = search.fault(fed)
    if search.step is not step:
        session.checks.add(key, search.step)
    if fault is not None:
        place = _innermost(session, Place(build(), *fault, fed))
        raise report(place, _computing(session, place.fed, training))
    if exchange is None:
        return None

    def check_rest(exchanged: Mapping[Variable, Any]) -> None:
        check(session, fetches, updates, {**fed, **exchanged}, training)

    return CheckedExchange(exchange, check_rest)


class CheckedExchange:
    """An exchange after which its gradients are checked, and what is computed from them."""

    def __init__(self, exchange: Exchange, check_rest: Callable[[Mapping[Variable, Any]], None]):
        self.exchange, self.check_rest = exchange, check_rest

    def start(self, arrays: dict[int, Any]) -> None:
        """Take the first gradients while others are computed."""
        self.exchange.start(arrays)

    def __call__(self, arrays: list) -> list:
        """Return the gradients to update with; NumericError if one is not finite."""
        returned = self.exchange(arrays)
        exchanged = dict(zip(self.exchange.seam, returned, strict=True))
        for parameter, gradient in self.exchange.gradients.items():
            for v in gradient if isinstance(gradient, tuple) else (gradient,):
                if not np.isfinite(exchanged[v]).all():
                    raise exchange_error(parameter, exchanged[v])
        self.check_rest(exchanged)
        return returned


def _computing(session, fed, training):
    """The function that computes Variables from these feeds."""

    def compute(variables):
        step = Step(session.backend, variables, [], fed, training)
        with np.errstate(all="ignore"):
            return session.peek(step, fed)

    return compute


def _innermost(session, place):
    """The operator in the body of a loop or branch where the fault of its node begins.

    The node itself, where no run of the body has the fault: it begins in what the loop adds up.
    """
    if place.node is None or not place.node.blocks:
        return place
    try:
        inner = _inside(session, place)
    except BackendError:  # a state whose size changes from step to step cannot be read afterwards
        return place
    return place if inner is None else _innermost(session, inner)


def _inside(session, place):
    """The first fault in the runs of the body of a node; None if there is none."""
    training, search = place.values.training, None
    read = set(place.values.all)
    body = Body(place.node, read, _computing(session, place.fed, training))
    for where, fed in body.runs():
        build = partial(Values, body.targets, (), (), fed, training)
        search = Search(session, build, fed) if search is None else search
        fault = search.fault(fed)
        if fault is not None:
            inner = Place(build(), *fault, fed, (*place.path, where))
            if inner.node is not None:
                return inner
    return None
