"""The state of optimizers whose steps are taken one by one, inside `pd.guard()`."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import DTypeLike

from ..graph.attached import Attached
from ..graph.errors import GraphError
from ..graph.misfits import listed
from ..graph.names import names, numbered
from ..graph.update import Update
from ..graph.variable import Dims, Variable
from ..graph.whole import on_failure
from ..run.session import Session
from .row_sparse import Gradient
from .tracing import TraceableOptimizer, Tracing, of_its_group


class CachedTracing(Tracing):
    """The tracing of an optimizer whose state is the same in every step.

    `waiting` are loaded values of state that is not there yet, by name.
    """

    def __init__(self, optimizer: TraceableOptimizer, session: Session):
        super().__init__(optimizer, getattr(optimizer, "name", None) or _name_of(optimizer))
        self._session = ref(session)
        self.slots: WeakKeyDictionary[Variable, dict[str, Variable]] = WeakKeyDictionary()
        self.scalars: dict[str, Variable] = {}
        self.waiting: dict[str, np.ndarray] = {}
        # by the first of its parameters, which an update refers to
        self.updates: Attached[dict[tuple, tuple[list[Variable], Update]]] = Attached()
        self._settings: tuple[dict, tuple] | None = None  # of the last step
        self._numbers: set[Variable] = set()  # plans hold what they read weakly

    def begin(self, parameters: Sequence[Variable]) -> None:
        """Go on with the state of the one update of a static graph, if there is one in use.

        Called before each step is traced; only the first one finds no state here.
        """
        if self.variables():
            return
        static = [use.variables() for use in self.optimizer.settings.uses() if use.has_state]
        for (w, name), v in static[0].items() if len(static) == 1 else ():
            own = self.scalars if w is None else self.slots.setdefault(w, {})
            own[name] = v
        if not self.slots:
            check_waiting(self.optimizer, self.waiting, parameters)

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Update:
        self.begin([w for w, _ in pairs])
        update = super().update(pairs)
        self._numbers.update(self.optimizer.settings.variables())
        return update

    @property
    def optimizer(self) -> TraceableOptimizer:
        """The optimizer, which keeps its state alive and not the other way round."""
        optimizer = self._optimizer()
        assert optimizer is not None  # it takes the step
        return optimizer

    @optimizer.setter
    def optimizer(self, optimizer: TraceableOptimizer) -> None:
        self._optimizer = ref(optimizer)

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: DTypeLike, value: float
    ) -> Variable:
        own = self.scalars if w is None else self.slots.setdefault(w, {})
        if name not in own:
            own[name] = super().state(w, name, dims, dtype, value)
        self.take(state_name(w, name), own[name])
        return own[name]

    def take(self, name: str, variable: Variable) -> None:
        """Give a new variable the value that waits for it, if there is one."""
        session = self._session()
        if name in self.waiting and session is not None:
            value = self.waiting[name]
            session.set(variable, value)
            del self.waiting[name]
            on_failure(self.waiting.update, {name: value})

    def variables(self) -> dict[tuple[Variable | None, str], Variable]:
        """Return slots and scalars by parameter, None for those of no one, and name."""
        every: list[tuple[Variable | None, dict[str, Variable]]] = [*self.slots.items()]
        every.append((None, self.scalars))
        return {(w, name): v for w, own in every for name, v in own.items()}

    def check_groups(self, parameters: Sequence[Variable]) -> None:
        """Check nothing: a step in a guard may reach some of the parameters only."""

    def settings(self) -> tuple[Any, ...]:
        """Return what an update depends on besides its parameters."""
        own = vars(self.optimizer)
        if self._settings is not None and own == self._settings[0]:
            return self._settings[1]
        key = self.optimizer.settings.key(self.optimizer)
        try:
            hash(key)
        except TypeError:
            what = ", ".join(
                f"{name}={value!r}" for name, value in own.items() if _is_no_key(value)
            )
            raise GraphError(
                f"{type(self.optimizer).__name__}: its settings must be numbers, strings, functions"
                f" or other hashable values, not {what or own}"
            ) from None
        self._settings = dict(own), key
        return key


def _is_no_key(value):
    """Whether a setting cannot be hashed."""
    try:
        hash(value)
    except TypeError:
        return True
    return False


def _name_of(optimizer):
    """The automatic name of an optimizer, which does not depend on which one steps first."""
    kind = type(optimizer).__name__.lower()
    thing = vars(optimizer).get("_numbered")
    if thing is None:  # of a copy
        thing = vars(optimizer)["_numbered"] = numbered(kind)
    return names().next_of(thing, f"{kind}_", "")


def name_before(optimizer: Any) -> str | None:
    """Return the name of an optimizer in a training that is resumed, None if it had no steps."""
    thing = vars(optimizer).get("_numbered")
    given: str | None = getattr(optimizer, "name", None)
    return given or (None if thing is None else names().name_before(thing))


def state_name(w: Variable | None, name: str) -> str:
    """Return the name of a slot of a parameter, or of a scalar, in the state of an optimizer."""
    return name if w is None else f"{w.name}/{name}"


def check_waiting(
    optimizer: TraceableOptimizer, waiting: Mapping[str, Any], parameters: Sequence[Variable]
) -> None:
    """Check before the first step that loaded state is of some of these parameters.

    Otherwise none of it would ever be used.
    """
    there = dict.fromkeys(name.rpartition("/")[0] for name in waiting if "/" in name)
    if not there:
        return
    here = [w.name for w in parameters if of_its_group(optimizer, w).slots_of(w)]
    if here and there.keys().isdisjoint(here):
        raise GraphError(
            f"{type(optimizer).__name__}: the state that was loaded is of other parameters\n"
            f"  loaded   {listed(there)}\n  trained  {listed(here)}"
        )


def steps_of(optimizer: Any, session: Session) -> CachedTracing | None:
    """Return the state of the steps of an optimizer, or of the one that it is a variant of."""
    cached = session.optimizers.get(optimizer)
    if cached is None:
        every = list(session.optimizers.items())
        cached = next((c for o, c in every if o.settings is optimizer.settings), None)
    return cached


def cached_tracing(optimizer: TraceableOptimizer, session: Session) -> CachedTracing:
    """Return the state of an optimizer in a session."""
    cached = session.optimizers.get(optimizer)
    if cached is None:
        cached = session.optimizers[optimizer] = CachedTracing(optimizer, session)
        if session.numbers_of_optimizers is not None:
            session.numbers_of_optimizers.give(optimizer, cached.name)
    if "_inherited" in vars(optimizer):  # of the optimizer that it is a copy of
        vars(optimizer)["_groups"] = optimizer.groups  # of the same parameters
        cached.waiting = vars(optimizer).pop("_inherited").by_name()
    return cached
