"""Tracing of an optimizer's rule over parameters into the assignments of a step."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from ..gradients.locations import gradient_of
from ..graph.errors import DTypeError, GraphError
from ..graph.initializers import Constant
from ..graph.names import adopt, names
from ..graph.roles import Storage
from ..graph.update import Assignment, Update
from ..graph.variable import Dims, Variable
from .accumulation import Accumulation
from .described import described_settings
from .groups import Group, group_of
from .regularizers import Clip, ClipGlobalNorm, ClipNorm, Penalty
from .repeating import Changed, Repetition
from .row_sparse import Gradient, RowGradient, Whole, split
from .settings import Place, Settings

Rate = float | Variable  # the learning rate of one step
Slots = Mapping[str, Variable]  # the state of one parameter, by slot
Counters = Mapping[str, Variable]  # the scalar state of an update


class TraceableOptimizer(Protocol):
    """The interface of an optimizer that `Tracing` uses."""

    learning_rate: Any  # a number, a scalar Variable or a schedule
    regularizer: Penalty | None
    clip: Clip | None
    accumulate: int
    slots: ClassVar[Mapping[str, float]]
    counters: ClassVar[Mapping[str, float]]
    uses_norms: ClassVar[bool]
    adds: ClassVar[bool]
    elementwise: ClassVar[bool]
    adjustable: ClassVar[Sequence[str]]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Parameters with settings of their own."""

    @property
    def settings(self) -> Settings:
        """What graphs read of it."""

    @property
    def rate_factor(self) -> Variable | None:
        """A scalar that multiplies all learning rates."""

    def slots_of(self, w: Variable) -> Mapping[str, tuple[float, Dims]]:
        """Return (initial value, dims) of each slot of a parameter."""

    def advance(self, counters: Counters) -> dict[str, Variable]:
        """Return the counters after one more step."""

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        """Return (new w, new values of the slots)."""


def state(
    name: str, dims: Dims, dtype: DTypeLike, value: float = 0.0, table: Any = None
) -> Variable:
    """Create persistent state under a full name, all elements `value`.

    Name and value are freed with the last Update that uses it. `table` is the attribute of the
    parameter of whose rows it has a value for each.
    """
    return adopt(Variable.of(dims, dtype, name, initial=Constant(value), storage=Storage(table)))


def variant(optimizer: Any, changes: Mapping[str, Any]) -> Any:
    """Return an optimizer with other attributes, and with what it shares with its graphs."""
    other = object.__new__(type(optimizer))
    vars(other).update(vars(optimizer), **changes)
    return other


def of_its_group(optimizer: Any, w: Variable) -> Any:
    """Return an optimizer with the settings of the group of a parameter, as they are."""
    group = group_of(type(optimizer).__name__, optimizer.groups, w)
    return optimizer if group is None else variant(optimizer, dict(group.settings))


def is_schedule(rate: Any) -> bool:
    """Return whether a learning rate is a function of the number of steps."""
    return callable(rate) and not isinstance(rate, Variable)


class Tracing:
    """The tracing of one Update: the rule of an optimizer, applied to each parameter.

    `name` is the prefix of all state that it creates: `<name>/<parameter>/<slot>`.
    """

    def __init__(self, optimizer: TraceableOptimizer, name: str | None = None):
        self.optimizer = optimizer
        self.name = name or names().next(f"{self.kind()}_", "")
        self.group_rates: dict[Group, Rate] = {}  # of the update that is traced
        self._scaled: dict[Variable, Variable] = {}  # rates times the factor of all
        self._cast: dict[tuple[Variable, np.dtype], Variable] = {}

    def kind(self) -> str:
        """Return the stem of automatic names."""
        return type(self.optimizer).__name__.lower()

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Update:
        """Return the Update for (parameter, gradient) pairs; a gradient may be a RowGradient."""
        self.check_groups([w for w, _ in pairs])
        pairs = [(w, _exchangeable(w, self.needed(w, g))) for w, g in pairs]
        gradients = [(w, (g.rows, g.values) if isinstance(g, RowGradient) else g) for w, g in pairs]
        settings = described_settings(self.optimizer, [w for w, _ in pairs])
        period = self.period()
        if period == 1:
            return Update(self.assignments(pairs), (), True, gradients, None, settings)
        sums = Accumulation(self.state, period)
        assignments = sums.due_only(self.assignments(sums.means(pairs)))
        assignments += sums.assignments
        return Update(assignments, (), True, gradients, sums.is_due, settings)

    def needed(self, w: Variable, g: Gradient) -> Gradient:
        """Return a gradient, as terms where the step adds them to a table of one column."""
        if not isinstance(g, RowGradient) or g.terms is None or w.is_shard:
            return g
        optimizer, group = self.optimizer, self.group(w)
        own = {} if group is None else dict(group.settings)
        penalty = own.get("regularizer", optimizer.regularizer)
        changes = (w.clip, w.regularizer, optimizer.clip, penalty)
        is_column = all(d == 1 for d in w.dims[1:])
        if not optimizer.adds or not is_column or self.period() > 1 or any(changes):
            return g
        return g.terms

    def check_groups(self, parameters: Sequence[Variable]) -> None:
        """Check that each pattern of a group is found: a wrong one would change nothing."""
        for group in self.optimizer.groups:
            if isinstance(group.params, str) and not any(map(group.has, parameters)):
                raise GraphError(
                    f"{type(self.optimizer).__name__}: no parameter has a name with {group}\n"
                    f"  hint: there are {', '.join([w.name for w in parameters][:8])}"
                )

    def period(self) -> int:
        """Return after how many evaluations the parameters are updated."""
        return self.optimizer.accumulate

    def assignments(self, pairs: Sequence[tuple[Variable, Gradient]]) -> list[Assignment]:
        """Return what a step with these gradients assigns."""
        self._repetition, self._cast = Repetition(), {}
        rate, scheduled = self.scheduled()
        doubles = all(w.dtype == np.float64 for w, _ in pairs)
        step, counted = self.counted(np.float64 if doubles else np.float32)
        assignments = [*scheduled, *counted]
        for part, g in self.clipped([split(w, g) for w, g in pairs]):
            assignments += self.stepped(part, g, rate, step)
        return assignments

    def scheduled(self) -> tuple[Rate, list[Assignment]]:
        """Return the rate without each parameter's factor, and the assignments of schedules."""
        rate = self.optimizer.learning_rate
        every = [(g, dict(g.settings)) for g in self.optimizer.groups]
        own = {g: settings["learning_rate"] for g, settings in every if "learning_rate" in settings}
        if not any(is_schedule(r) for r in (rate, *own.values())):
            self.group_rates = own
            return rate, []
        # a counter of the optimizer may have this name, and need not count by one
        steps = self.scalar("schedule_steps" if "steps" in self.optimizer.counters else "steps")
        self.group_rates = {g: r(steps) if is_schedule(r) else r for g, r in own.items()}
        return rate(steps) if is_schedule(rate) else rate, [Assignment(steps, steps + 1.0)]

    def counted(self, dtype: DTypeLike) -> tuple[Counters, list[Assignment]]:
        """Return the counters of the optimizer after this step, and their assignments.

        They have the digits of the parameters: those of float64 alone have counters of float64.
        """
        counters = self.optimizer.counters.items()
        before = {name: self.scalar(name, initial, dtype) for name, initial in counters}
        after = self.optimizer.advance(before)
        self.check_names("advance", "counters", before, after)
        return after, [Assignment(before[name], new) for name, new in after.items()]

    def clipped(self, pairs: list[tuple[Whole, Variable]]) -> list[tuple[Whole, Variable]]:
        """Return (part, gradient) pairs after clipping; a parameter's own clip is applied first."""
        clip = self.optimizer.clip
        each = None if isinstance(clip, ClipGlobalNorm) else clip
        clips = [part.parameter.clip or self.live(("clip",), each, g) for part, g in pairs]
        for (part, _), fn in zip(pairs, clips, strict=True):
            _check_clip(part.parameter, fn or clip)
        pairs = [
            (part, g if fn is None else fn(g, part.read(part.parameter)))
            for (part, g), fn in zip(pairs, clips, strict=True)
        ]
        if not isinstance(clip, ClipGlobalNorm):
            return pairs
        return self.live(("clip",), clip, pairs[0][1]).together(pairs)

    def stepped(self, part: Whole, g: Variable, rate: Rate, step: Counters) -> list[Assignment]:
        """Return the assignments of a step of one parameter, or of its gathered rows."""
        parameter = part.parameter
        optimizer, rate = self.member(parameter, rate)
        w, penalty = part.read(parameter), parameter.regularizer or optimizer.regularizer
        g = g if penalty is None else penalty(g, w)
        declared = optimizer.slots_of(parameter).items()
        slots = {name: self.slot(part, name, initial, dims) for name, (initial, dims) in declared}
        step = {name: self.cast(v, w.dtype) for name, v in step.items()}
        new_w, new = self._repetition.changed(optimizer, w, g, slots, rate, step)
        self.check_names("rule", "slots", slots, new)
        values = [(w, new_w), *((slots[name], value) for name, value in new.items())]
        return [Assignment(*part.written(v, value), owner=parameter) for v, value in values]

    def member(self, w: Variable, rate: Rate) -> tuple[TraceableOptimizer, Rate]:
        """Return the optimizer with the settings of a parameter's group, and the rate for it.

        Numbers that may change are Variables in it.
        """
        optimizer = self.optimizer
        if w.is_shard and optimizer.uses_norms:
            raise GraphError(_no_norm(type(optimizer).__name__, w))
        names = ("learning_rate", "regularizer", *optimizer.adjustable)
        places: dict[str, Place] = {name: (name,) for name in names}
        values = {name: getattr(optimizer, name) for name in places} | {"learning_rate": rate}
        group = self.group(w)
        if group is not None:
            number = [g is group for g in optimizer.groups].index(True)
            places |= {name: ("groups", number, name) for name, _ in group.settings}
            values |= dict(group.settings)
            values["learning_rate"] = self.group_rates.get(group, rate)
        rate = self.own_rate(places["learning_rate"], values.pop("learning_rate"), w)
        return variant(optimizer, {k: self.live(places[k], v, w) for k, v in values.items()}), rate

    def group(self, w: Variable) -> Group | None:
        """Return the group of a parameter; GraphError if it is in two."""
        return group_of(type(self.optimizer).__name__, self.optimizer.groups, w)

    def live(self, place: Place, value: Any, w: Variable) -> Any:
        """Return a setting with a Variable, of the dtype of w, for the number in it if any."""
        return self.optimizer.settings.live(place, value, w.dtype, self.name)

    def check_names(self, method: str, what: str, before: Mapping, after: Mapping) -> None:
        """Check that a method returned what the class declares: the rest would never change."""
        if before.keys() != after.keys():
            owner = type(self.optimizer).__name__
            raise GraphError(
                f"{owner}.{method} returned {what} {sorted(after)}, {owner}.{what} are "
                f"{sorted(before)}"
            )

    def own_rate(self, place: Place, rate: Rate, parameter: Variable) -> Rate:
        """Return the learning rate of one parameter, a Variable where a number may change."""
        factor, scale = parameter.learning_rate, self.optimizer.rate_factor
        if isinstance(rate, Variable):
            own, times = self.cast(rate, parameter.dtype), factor
        else:
            settings, times = self.optimizer.settings, 1.0
            own = settings.number(place, rate, parameter.dtype, self.name, factor)
        if scale is not None:
            if own not in self._scaled:
                self._scaled[own] = own * self.cast(scale, own.dtype)
            own = self._scaled[own]
        return own if times == 1.0 else own * times

    def cast(self, v: Variable, dtype: np.dtype) -> Variable:
        """Return a rate or a counter in the dtype of a parameter, the same one for all of it."""
        if v.dtype == dtype:
            return v
        if (v, dtype) not in self._cast:
            self._cast[v, dtype] = ops.cast(v, dtype)
        return self._cast[v, dtype]

    def slot(
        self,
        part: Whole,
        name: str,
        value: float = 0.0,
        dims: Dims | None = None,
        dtype: DTypeLike | None = None,
    ) -> Variable:
        """Create state of a parameter, by default of its shape and dtype; return the part read."""
        w = part.parameter
        dims, dtype = w.dims if dims is None else dims, w.dtype if dtype is None else dtype
        return part.read(self.state(w, name, dims, dtype, value))

    def scalar(self, name: str, value: float = 0.0, dtype: DTypeLike = np.float32) -> Variable:
        """Create a scalar state of the update as a whole."""
        return self.state(None, name, (), dtype, value)

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: DTypeLike, value: float
    ) -> Variable:
        """Create state of a parameter, or of the update as a whole."""
        owner = "" if w is None else f"{w.name}/"
        table = w.storage.table if w is not None and dims[:1] == w.dims[:1] else None
        return state(f"{self.name}/{owner}{name}", dims, dtype, value, table)


def _check_clip(w, clip):
    """Refuse norms over the rows of a sharded table: each process would have another one."""
    if w.is_shard and isinstance(clip, ClipNorm | ClipGlobalNorm):
        raise GraphError(
            f"{_no_norm(clip, w)} of its gradient\n  hint: clip=ClipElements(...), or train the "
            "table by an optimizer of its own"
        )


def _no_norm(who, w):
    return f"{who}: each process has other rows of the sharded table {w.name}, so there is no norm"


def _exchangeable(w, g):
    """Make sure that a gradient is the output of a node: others cannot be exchanged.

    A parameter in half precision is refused: steps of a small rate would be lost in rounding.
    """
    if w.dtype == np.float16:
        raise DTypeError(
            f"minimize: the parameter {w!r} is float16, which optimizers do not update\n"
            "  hint: keep it in float32, and compute in float16 with pd.autocast(cost)"
        )
    with gradient_of(w):
        if isinstance(g, RowGradient):
            return type(g)(_computed(g.rows), _computed(g.values))
        return _computed(g)


def _computed(v):
    return ops.identity(v) if v.node is None else v
