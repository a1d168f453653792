"""The state of optimizers whose steps are taken one by one, inside `pd.guard()`."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.errors import GraphError
from ..graph.update import Update
from ..graph.variable import Dims, Variable
from ..run.session import Session
from .tracing import TraceableOptimizer, Tracing

_CONSTANTS = 4  # learning rates that are constants of programs; later ones are fed


class KeptTracing(Tracing):
    """The tracing of an optimizer whose state is the same in every step.

    A learning rate that is a number is fed to programs once it has changed a few times.
    """

    def __init__(self, optimizer: TraceableOptimizer, session: Session):
        super().__init__(optimizer, getattr(optimizer, "name", None))
        self._session = ref(session)
        self.slots: WeakKeyDictionary[Variable, dict[str, Variable]] = WeakKeyDictionary()
        self.scalars: dict[str, Variable] = {}
        self.waiting: dict[str, ArrayLike] = {}  # loaded values of state that is not there yet
        self.updates: dict[tuple, tuple[list[Variable], Update]] = {}
        self.rate_slot = Variable.of((), np.dtype(np.float32), "learning_rate")
        self.rates: list[float] = []
        self._settings: tuple[dict, bool, tuple] | None = None  # of the last step

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: DTypeLike, value: float
    ) -> Variable:
        own = self.scalars if w is None else self.slots.setdefault(w, {})
        if name not in own:
            own[name] = super().state(w, name, dims, dtype, value)
        key = name if w is None else f"{w.name}/{name}"
        if key in self.waiting:
            self._set({own[name]: self.waiting[key]})
            del self.waiting[key]
        return own[name]

    def variables(self) -> dict[str, Variable]:
        """Return slots and scalars by name."""
        slots = {f"{w.name}/{name}": v for w, own in self.slots.items() for name, v in own.items()}
        return slots | self.scalars

    def load(self, values: Mapping[str, ArrayLike]) -> None:
        """Set state by name, all of it or nothing; what is not there yet waits until it is."""
        variables = self.variables()
        self._set({v: values[key] for key, v in variables.items() if key in values})
        self.waiting = {k: v for k, v in values.items() if k not in variables}

    def _set(self, values):
        session = self._session()
        if session is not None:
            session.load_values(values)

    # ---- the learning rate and other settings

    def check_groups(self, parameters: Sequence[Variable]) -> None:
        """Check nothing: a step in a guard may reach some of the parameters only."""

    def rate_is_fed(self) -> bool:
        """Return whether the learning rate is fed to programs rather than a constant of them."""
        rate = self.optimizer.learning_rate
        if not isinstance(rate, (int, float, np.floating)):
            return False
        if rate not in self.rates and len(self.rates) < _CONSTANTS:
            self.rates.append(float(rate))
        return rate not in self.rates

    def operands(self) -> list[Variable]:
        """Return the leaf of the learning rate, with its value of now, if it is fed to programs."""
        if not self.rate_is_fed():
            return []
        self.rate_slot.__dict__["held"] = np.array(self.optimizer.learning_rate, np.float32)
        return [self.rate_slot]

    def learning_rate(self) -> Any:
        return self.rate_slot if self.rate_is_fed() else super().learning_rate()

    def settings(self) -> tuple[Any, ...]:
        """Return what an update depends on besides its parameters."""
        own = vars(self.optimizer)
        fed = self.rate_is_fed()
        if self._settings is not None and own == self._settings[0] and fed == self._settings[1]:
            return self._settings[2]
        own = before = dict(own)
        if fed:
            own = {**own, "learning_rate": None}
        frozen = tuple([(k, tuple(v.items()) if type(v) is dict else v) for k, v in own.items()])
        try:
            hash(frozen)
        except TypeError:
            raise GraphError(
                f"{type(self.optimizer).__name__}: its settings must be numbers, strings, functions"
                f" or other hashable values, not {own}"
            ) from None
        self._settings = before, fed, frozen
        return frozen


def kept_tracing(optimizer: TraceableOptimizer, session: Session) -> KeptTracing:
    """Return the state of an optimizer in a session."""
    kept = session.optimizers.get(optimizer)
    if kept is None:
        kept = session.optimizers[optimizer] = KeptTracing(optimizer, session)
    return kept
