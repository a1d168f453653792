"""check_numerics: evaluations that stop at the first operator that makes a NaN or an infinity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np

from ...backend.base import NO_SEAM, SeamExchange
from ...graph.errors import BackendError
from ...graph.node import Node
from ...graph.recording import not_recording
from ...graph.variable import Variable
from ..changes import changes_of, recorded_values
from ..compiler import Compiler
from ..exchange import Exchange
from ..failures import located
from ..observer import Observer
from ..program import Program
from ..programs import Source
from ..request import Request
from .finiteness import FloatValues, Found, flags
from .loop_steps import Body
from .report import Compute, Place, exchange_error, report

Arrays = dict[Variable, np.ndarray]

checking: ContextVar[bool] = ContextVar("pd_core.check_numerics", default=False)


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
    token = checking.set(True)
    try:
        yield
    finally:
        checking.reset(token)


class Flags:
    """A program that tells which of some values are not finite.

    `suspects` are the indices of those that were not once before: it also says why.
    """

    def __init__(
        self, compiler: Compiler, values: FloatValues, suspects: Sequence[int], fed: Arrays
    ):
        request = Request([flags(values.all, suspects)], [], fed, values.training)
        self.program = compiler.new(request)
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

    `build()` returns the FloatValues, again and again: a program that is kept must not hold them.
    """

    def __init__(
        self,
        session: Any,
        build: Callable[[], FloatValues],
        fed: Arrays,
        known: Flags | None = None,
    ):
        self.session, self.build, self.fed = session, build, fed
        self.flags = self._compiled(()) if known is None else known

    def _compiled(self, suspects: Sequence[int]) -> Flags:
        return Flags(self.session.compiler, self.build(), suspects, self.fed)

    def fault(self, fed: Arrays) -> tuple[int, Found] | None:
        """Return the index of the first faulty value, and all findings; None if all are right."""
        vector = self._run(fed)
        unseen = self.flags.unseen(vector)
        if unseen:
            self.flags = self._compiled((*self.flags.suspects, *unseen))
            vector = self._run(fed)
        found = self.flags.found(vector)
        fault = self.flags.rules.first_fault(found)
        return None if fault is None else (fault, found)

    def _run(self, fed: Arrays) -> np.ndarray:
        program = self.flags.program
        try:
            with np.errstate(all="ignore"):  # sums; the reference evaluator is NumPy, which warns
                (vector,) = program.peek(self.session.store, fed)
        except BackendError as error:
            if program.has_lines or error.place is None:
                raise
            values = self.build()
            target, training = [flags(values.all, self.flags.suspects)], values.training
            source = Source.of(target, [], NO_SEAM, fed, training)
            raise located(error, self.session.backend, source) from error
        return vector


class Checking(Observer):
    """Checks an evaluation before it runs."""

    @staticmethod
    def takes_part(session: Any, request: Request) -> bool:
        """Return whether evaluations are checked."""
        return session.observers.check_numerics or checking.get()

    def before(self, program: Program, fed: Mapping[Variable, Any]) -> None:
        """Raise a NumericError if it would make a NaN or an infinity."""
        request = self.request
        fetches, updates = request.targets()
        every = dict(fed)
        if not request.recorded:
            every.update(recorded_values(fetches, updates, fed))
        with not_recording():
            checked = Request(fetches, updates, every, request.training)
            checked.seam = request.seam
            request.exchange = check(self.session, checked, request.exchange)


def check(session: Any, request: Request, exchange: Any = None) -> SeamExchange | None:
    """Raise a NumericError if this evaluation would make a NaN or an infinity.

    What `exchange` returns, and what is computed from it, is checked by the one that is
    returned in its place.
    """
    fetches, updates, fed, training = (
        request.fetches,
        request.updates,
        request.fed,
        request.training,
    )
    new = [v for v in changes_of(updates).values() if v is not None]
    stored = [a.value for u in updates if u.training for a in u.assignments]

    def build() -> FloatValues:
        return FloatValues(fetches, new, stored, fed, training, request.seam)

    cache, key = session.compiler.cache, request.key("check")
    known: Flags | None = cache.get(key)
    if known is not None and (known.program.is_outdated or not known.program.takes(fed)):
        known = None
    if known is None and not build().all:
        return exchange
    search = Search(session, build, fed, known)
    fault = search.fault(fed)
    if search.flags is not known:
        cache.add(key, search.flags, request.owners())
    if fault is not None:
        place = _innermost(session, Place(build(), *fault, fed))
        raise report(place, _computing(session, place.fed, training))
    if exchange is None:
        return None

    def check_rest(exchanged: Mapping[Variable, Any]) -> None:
        check(session, Request(fetches, updates, {**fed, **exchanged}, training))

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
        self._check(returned)
        return returned

    def on_device(self, values: list, device: str) -> list | None:
        """Return the gradients in the memory of a device, or None; they are checked on the host."""
        returned = self.exchange.on_device(values, device)
        if returned is not None:
            self._check([value.numpy() for value in returned])
        return returned

    def _check(self, returned: list) -> None:
        exchanged = dict(zip(self.exchange.seam, returned, strict=True))
        for parameter, gradient in self.exchange.gradients.items():
            for v in gradient if isinstance(gradient, tuple) else (gradient,):
                if not np.isfinite(exchanged[v]).all():
                    raise exchange_error(parameter, exchanged[v])
        self.check_rest(exchanged)


def _computing(session: Any, fed: Arrays, training: bool) -> Compute:
    """The function that computes Variables from these feeds."""

    def compute(variables: list[Variable]) -> list[np.ndarray]:
        program = session.compiler.new(Request(variables, [], fed, training))
        with np.errstate(all="ignore"):
            return program.peek(session.store, fed)

    return compute


def _innermost(session: Any, place: Place) -> Place:
    """The operator in the body of a loop or branch where the fault of its node begins.

    The node itself, where no run of the body has the fault: it begins in what the loop adds up.
    """
    if place.node is None or not place.node.blocks:
        return place
    try:
        inner = _inside(session, place, place.node)
    except BackendError:  # a state whose size changes from step to step cannot be read afterwards
        return place
    return place if inner is None else _innermost(session, inner)


def _inside(session: Any, place: Place, node: Node) -> Place | None:
    """The first fault in the runs of the body of a node; None if there is none."""
    training = place.values.training
    search: Search | None = None
    read = set(place.values.all)
    body = Body(node, read, _computing(session, place.fed, training))
    for where, fed in body.runs():
        build = partial(FloatValues, body.targets, (), (), fed, training)
        search = Search(session, build, fed) if search is None else search
        fault = search.fault(fed)
        if fault is not None:
            inner = Place(build(), *fault, fed, (*place.path, where))
            if inner.node is not None:
                return inner
    return None
