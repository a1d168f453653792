"""The state of optimizers: what is saved, loaded and copied with them."""

import gc
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.arrays import is_float
from ..graph.errors import GraphError, ShapeError
from ..graph.misfits import Misfits
from ..graph.names import names
from ..graph.pickled import PickledName, check_picklable, pickled_name
from ..graph.update import Update
from ..graph.variable import Dims, Variable, describe
from ..run.session import Session, default_session
from .cached import (
    CachedTracing,
    cached_tracing,
    check_waiting,
    name_before,
    state_name,
    steps_of,
)
from .groups import Group
from .row_sparse import Gradient
from .settings import Use
from .tracing import TraceableOptimizer, Tracing

_NOT_COPIED = ("_settings", "_inherited", "_numbered")  # attributes of each optimizer alone
_SETTINGS = "settings/"  # the beginning of the names of numbers among the values of a state
Variables = dict[tuple[Variable | None, str], Variable]  # by parameter, None for a scalar, and name


class StaticTracing(Tracing):
    """The tracing of an update of a static graph, whose settings and state the optimizer knows."""

    def __init__(self, optimizer: TraceableOptimizer, name: str | None, session: Session):
        super().__init__(optimizer, name)
        self.session, self.variables = session, Variables()

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Update:
        optimizer = self.optimizer
        self._cached = self.session.optimizers.get(optimizer)
        if "_inherited" in vars(optimizer):
            self._cached = cached_tracing(optimizer, self.session)
        if self._cached is not None:
            check_waiting(optimizer, self._cached.waiting, [w for w, _ in pairs])
        return noted(optimizer, super().update(pairs), self.variables)

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: DTypeLike, value: float
    ) -> Variable:
        v = self.variables[w, name] = super().state(w, name, dims, dtype, value)
        if self._cached is not None:
            self._cached.take(state_name(w, name), v)
        return v


class SharedTracing(Tracing):
    """The tracing of an update of a static graph in the state of the steps inside `pd.guard()`."""

    def __init__(self, optimizer: TraceableOptimizer, cached: CachedTracing):
        super().__init__(optimizer, cached.name)
        self.cached = cached

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Update:
        self.cached.begin([w for w, _ in pairs])
        return noted(self.optimizer, super().update(pairs))

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: DTypeLike, value: float
    ) -> Variable:
        return self.cached.state(w, name, dims, dtype, value)


def static_tracing(optimizer: Any, name: str | None, session: Session) -> Tracing:
    """Return the tracing of an update of a static graph.

    Its state is that of the steps inside `pd.guard()` and of `Module.fit` if there have been any
    in this session, else its own.
    """
    cached = steps_of(optimizer, session)
    if cached is not None and cached.variables():
        return SharedTracing(optimizer, cached)
    return StaticTracing(optimizer, name, session)


def noted(
    optimizer: TraceableOptimizer, update: Update, variables: Variables | None = None
) -> Update:
    """Return an update of a static graph after telling the optimizer's settings of it.

    `variables` are its state, None if that is the state of the steps inside `pd.guard()`.
    """
    gradients = [g for _, g in update.gradients]
    parts = [v for g in gradients for v in (g if isinstance(g, tuple) else (g,))]
    values = [*(a.value for a in update.assignments), *parts]
    use = Use(optimizer, update.gradients, values, variables)
    optimizer.settings.add(use)
    for w, _ in update.gradients:
        alive = [u for u in w.options.uses if u.is_alive]
        w.options = replace(w.options, uses=[*alive, use])
    return update


def _variables(optimizer, session):
    """The variables of the state of an optimizer in a session; GraphError if there are several."""
    cached = session.optimizers.get(optimizer)
    if cached is None and "_inherited" in vars(optimizer):
        cached = cached_tracing(optimizer, session)
    own: Variables = {} if cached is None else cached.variables()
    static = _static_states(optimizer, own)
    if len(static) + bool(own) > 1:
        gc.collect()  # graphs are cycles: some of them may have been dropped
        static = _static_states(optimizer, own)
    count = len(static) + bool(own)
    if count > 1:
        raise GraphError(
            f"{type(optimizer).__name__}: {count} updates of it are in use, each with a state of "
            "its own\n"
            "  hint: an optimizer for each of them, or the values of update.variables(), or "
            "pd.default_session().state()"
        )
    return static[0] if static else own


def _static_states(optimizer, own):
    """The states of updates of static graphs in use, but for one that the steps go on with."""
    states = [use.variables() for use in optimizer.settings.uses() if use.has_state]
    return [s for s in states if not (s and all(own.get(key) is v for key, v in s.items()))]


def state_of(optimizer: Any, session: Session) -> dict[str, np.ndarray]:
    """Return the state of an optimizer in a session by name."""
    values = {state_name(*k): session.get(v) for k, v in _variables(optimizer, session).items()}
    cached = session.optimizers.get(optimizer)
    waiting = {} if cached is None else {k: np.array(value) for k, value in cached.waiting.items()}
    numbers = optimizer.settings.numbers_set(optimizer)
    state = {**_restored(optimizer, session, cached), **values, **waiting}
    return {**state, **{_SETTINGS + k: np.array(n) for k, n in numbers.items()}}


def _restored(optimizer, session, cached):
    """The state of an optimizer from a restored checkpoint that no step has needed yet."""
    waiting = session.store.waiting
    prefix = cached.name if cached is not None else name_before(optimizer)
    if not waiting or prefix is None:
        return {}
    named = [(name.removeprefix(f"{prefix}/"), name) for name in waiting]
    return {key: waiting[name].copy() for key, name in named if key != name}


def load(
    optimizer: Any,
    session: Session,
    values: Mapping[str, ArrayLike],
    strict: bool,
    may_have: Callable[[str], bool],
) -> Misfits:
    """Set the state of an optimizer in a session; return the names that do not fit.

    `may_have` says whether it may have state of a name later.
    """
    who, settings = f"{type(optimizer).__name__}.load_state", optimizer.settings
    if not isinstance(values, Mapping):
        raise TypeError(f"{who}: takes a dict of values by name, not a {type(values).__name__}")
    found = {state_name(*key): v for key, v in _variables(optimizer, session).items()}
    cached = session.optimizers.get(optimizer)
    own = {} if cached is None else cached.variables()
    is_whole = bool(_static_states(optimizer, own))  # nothing can come later
    arrays: dict[Variable, np.ndarray] = {}
    later: dict[str, np.ndarray] = {}
    numbers: dict[str, float] = {}
    misfits = Misfits([name for name in found if name not in values], [])
    for name, value in values.items():
        if name in found:
            arrays[found[name]] = _fitting(who, name, found[name], value)
        elif name.startswith(_SETTINGS) and settings.has(
            optimizer, name.removeprefix(_SETTINGS), float(np.asarray(value))
        ):
            numbers[name.removeprefix(_SETTINGS)] = float(np.asarray(value))
        elif not is_whole and may_have(name):
            later[name] = np.array(value)
        else:
            misfits.unexpected.append(name)
    if strict and any(misfits):
        raise GraphError(misfits.text(who))
    session.load_values(arrays)
    cached_tracing(optimizer, session).waiting = later
    for place, number in numbers.items():
        settings.set_number(optimizer, place, number)
    return misfits


def _fitting(who, name, v, value):
    array = np.array(value)
    if array.shape != v.dims or not (array.dtype.kind in "iub" or is_float(array.dtype)):
        raise ShapeError(f"{who}: {name} is {describe(v)}, not {array.dtype}{list(array.shape)}")
    return array


class Inherited:
    """The state of an optimizer that another one is a copy of, until it takes its first step.

    `copies` are the copies of parameters by id, the memo of `copy.deepcopy`. It is read late, for
    a network may be copied after its optimizer.
    """

    def __init__(self, values: dict[Any, np.ndarray], copies: Mapping[int, Any]):
        self.values, self.copies = values, copies

    def by_name(self) -> dict[str, np.ndarray]:
        """Return the values by name, of the copies where parameters were copied."""
        named = {}
        for key, value in self.values.items():
            if isinstance(key, tuple):
                w, name = key
                key = state_name(self.copies.get(id(w), w), name)  # a PickledName has a name, too
            named[key] = value
        return named

    def groups(self, groups: Sequence[Group]) -> tuple[Group, ...]:
        """Return groups of the copies of their members."""
        copies = self.copies
        return tuple(
            replace(g, params=tuple([_found(copies.get(id(w), w)) for w in g.params]))
            if isinstance(g.params, tuple)
            else g
            for g in groups
        )


def _found(w):
    """Return a parameter of a group; that of a pickled name."""
    if not isinstance(w, PickledName):
        return w
    v = names().variables.get(w.name)
    if v is None:
        raise GraphError(
            f"a group of an optimizer has the parameter {w.name}, which is not there yet\n"
            "  hint: unpickle or build the layer that has it, too"
        )
    return v


def pickled(optimizer: Any) -> dict[str, Any]:
    """Return the settings and the state of an optimizer in the session in force, to be pickled.

    Parameters are in it by their names. TypeError for a setting that cannot be pickled.
    """
    who = type(optimizer).__name__
    own = {k: v for k, v in vars(optimizer).items() if k not in _NOT_COPIED}
    for name, value in own.items():
        check_picklable(f"{who}: {name}", value)
    groups = [_pickled_group(who, group) for group in optimizer.groups]
    session = default_session()
    found = [(w, name) for w, name in _variables(optimizer, session) if w is not None]
    keys = {state_name(w, name): (pickled_name(w), name) for w, name in found}
    values = {keys.get(name, name): value for name, value in state_of(optimizer, session).items()}
    return {**own, "_groups": tuple(groups), "_inherited": Inherited(values, {})}


def _pickled_group(who, group):
    if isinstance(group.params, tuple):
        return replace(group, params=tuple([pickled_name(v) for v in group.params]))
    check_picklable(f"{who}: params of a group", group.params)
    return group


def copied(optimizer: Any, memo: dict[int, Any], deep: bool) -> Any:
    """Return a copy of an optimizer with its state in the session in force.

    It goes on for the same parameters, or for their copies in the memo. A learning rate that is a
    Variable is the same.
    """
    twin = memo[id(optimizer)] = object.__new__(type(optimizer))
    session = default_session()
    values: dict[Any, np.ndarray] = {}
    for key, v in _variables(optimizer, session).items():
        values[key] = session.get(v)
    cached = session.optimizers.get(optimizer)
    values |= {} if cached is None else cached.waiting
    for name, value in vars(optimizer).items():
        if name not in _NOT_COPIED:
            is_own = deep and name != "_groups" and not isinstance(value, Variable)
            vars(twin)[name] = deepcopy(value, memo) if is_own else value
    vars(twin)["_inherited"] = Inherited(values, memo)
    twin.settings.set_before = set(optimizer.settings.set_before)
    return twin
