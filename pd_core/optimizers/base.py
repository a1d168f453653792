"""Optimizers: hyper-parameters, and a pure rule for the update of one parameter.

An optimizer holds no state and may be used for many updates. `minimize` traces its rule over the
parameters; slots and counters belong to the resulting Update, which lists them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import ops
from ..graph.argument_kinds import arguments_of_class, as_python
from ..graph.errors import GraphError
from ..graph.misfits import Misfits
from ..graph.names import numbered
from ..graph.node import ancestors
from ..graph.other_words import OPTIMIZER, Signature, check_arguments, place
from ..graph.recording import recorder
from ..graph.shown import with_settings
from ..graph.update import Assignment, Update, effects
from ..graph.variable import Dims, Variable
from ..graph.whole import whole
from ..run.session import default_session
from . import states
from .groups import Group, Groups, as_rate, parameter_groups
from .regularizers import Clip, Penalty
from .row_sparse import Gradient, gradients_by_rows
from .settings import Settings, live_names
from .tracing import Changed, Counters, Rate, Slots, variant

_TAKEN = Update()  # of a step that is taken already

LearningRate = Rate | Callable[[Variable], Variable]  # a number, a scalar or a schedule


def sgd(w: Variable, g: Variable, rate: Rate) -> Variable:
    """w := w - rate g."""
    return w - g * rate


def momentum(
    w: Variable, g: Variable, rate: Rate, velocity: Variable, mu: float, nesterov: bool = False
) -> tuple[Variable, Variable]:
    """v := mu v - rate g; w := w + v (Polyak 1964), or w + mu v - rate g (Nesterov).

    Returns (w, v).
    """
    scaled = g * rate
    v = velocity * mu - scaled
    return (w + v * mu - scaled if nesterov else w + v), v


def momentum_of_gradients(
    w: Variable, g: Variable, rate: Rate, b: Variable, mu: float, nesterov: bool = False
) -> tuple[Variable, Variable]:
    """b := mu b + g; w := w - rate b, or w - rate (g + mu b) (Nesterov), as in PyTorch.

    Returns (w, b).
    """
    b = b * mu + g
    return w - (b * mu + g if nesterov else b) * rate, b


def adam(
    w: Variable,
    g: Variable,
    rate: Rate,
    m: Variable,
    v: Variable,
    beta1: float,
    beta2: float,
    epsilon: float | Variable,
) -> tuple[Variable, Variable, Variable]:
    """m := b1 m + (1-b1) g; v := b2 v + (1-b2) g²; w := w - rate m / (sqrt(v) + epsilon).

    `rate` includes the bias correction already: learning rate * sqrt(1 - b2^t) / (1 - b1^t)
    (Kingma & Ba 2015, the efficient form at the end of section 2). Returns (w, m, v).
    """
    m, v = moments(g, m, v, beta1, beta2)
    return w - m * rate / (ops.sqrt(v) + epsilon), m, v


def moments(
    g: Variable, m: Variable, v: Variable, beta1: float, beta2: float
) -> tuple[Variable, Variable]:
    """m := b1 m + (1-b1) g; v := b2 v + (1-b2) g², running means. Returns (m, v)."""
    return m * beta1 + g * (1.0 - beta1), v * beta2 + ops.square(g) * (1.0 - beta2)


class _SettableGroups:
    """The setting `groups`, dicts that are read as Groups; their numbers may be set at any time."""

    def __get__(self, optimizer: Any, owner: type | None = None) -> tuple[Group, ...]:
        if optimizer is None:
            return ()  # the default
        own = vars(optimizer)
        if "_inherited" in own:
            own["_groups"] = own["_inherited"].groups(own["_groups"])
        return own["_groups"]

    def __set__(self, optimizer: Any, groups: Groups) -> None:
        new = parameter_groups(type(optimizer).__name__, groups, optimizer.group_settings)
        optimizer.settings.check(optimizer, "groups", new)
        for k, group in enumerate(new):
            for name, value in group.settings:
                optimizer.settings.change(("groups", k, name), value)
        vars(optimizer)["_groups"] = new


@dataclass(eq=False, repr=False)
class Optimizer:
    """Base of all optimizers: hyper-parameters, and `minimize`, which builds the update.

    `learning_rate` is a number, a scalar Variable or one of `schedules`, multiplied by each
    variable's own `learning_rate`. `regularizer` and `clip` are functions (gradient, parameter) ->
    gradient; a `clip` such as ClipGlobalNorm sees all gradients of the update together. `name`
    is the prefix of the state's names, `<name>/<parameter>/<slot>`; automatic if None.

    `groups` gives some parameters settings of their own, as dicts: `params` are Variables, a
    regular expression that is searched in their names, or a predicate; the others are of
    `group_settings`. A parameter in two groups is a GraphError. With `accumulate` k every k-th
    evaluation updates, with the mean of the gradients of k batches.

    Only the rows of a `row_sparse` variable that the step gathered are updated, penalised and
    clipped: parameter, gradient and slots of a rule are then these rows.

    The numbers of `learning_rate`, `regularizer`, `clip`, the `adjustable` settings and those of
    groups may be set between steps of any kind, and change what follows; nothing is compiled for
    it after the first time. Other settings are a part of updates of static graphs: while there is
    one, setting them is an AttributeError.

    A subclass is a dataclass whose fields are its settings. It defines `slots` and `rule`, and
    `counters` and `advance` if it has any. To its rule `adjustable` settings are numbers or scalar
    Variables, as the rate is.
    """

    learning_rate: LearningRate
    _: KW_ONLY
    name: str | None = None
    regularizer: Penalty | None = None
    clip: Clip | None = None
    groups: _SettableGroups = _SettableGroups()
    accumulate: int = 1

    slots: ClassVar[Mapping[str, float]] = {}  # initial values of the state of a parameter
    counters: ClassVar[Mapping[str, float]] = {}  # scalars of the whole update: initial values
    group_settings: ClassVar[Sequence[str]] = ("learning_rate", "regularizer")
    adjustable: ClassVar[Sequence[str]] = ()  # other settings whose numbers may change
    uses_norms: ClassVar[bool] = False  # whether the rule has norms over all of a parameter
    adds: ClassVar[bool] = False  # whether a step is w - c g, with c that depends on neither
    # whether the rule consists of elementwise operators, which are the same for each parameter
    elementwise: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "rule" in vars(cls):  # what is true of the rule of a base is not of this one
            cls.adds = vars(cls).get("adds", False)
            cls.elementwise = vars(cls).get("elementwise", False)

    if not TYPE_CHECKING:
        __signature__ = Signature()

        def __new__(cls, *args, **kwargs):
            check_arguments(cls, kwargs)
            as_python(arguments_of_class(cls), (cls, *args), kwargs)
            made = object.__new__(cls)
            vars(made)["_numbered"] = numbered(cls.__name__.lower())
            return made

    def __repr__(self) -> str:
        return with_settings(self, always=("learning_rate",))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "learning_rate":
            value = as_rate(type(self).__name__, value)
        if name == "accumulate":
            _check_period(type(self).__name__, value)
        if not name.startswith("_") and name != "groups":
            self.settings.check(self, name, value)
            if name in live_names(self):
                self.settings.change((name,), value)
        object.__setattr__(self, name, value)

    @property
    def settings(self) -> Settings:
        """What graphs read of the settings."""
        own: Settings | None = vars(self).get("_settings")
        if own is None:
            own = self._settings = Settings()
        return own

    @property
    def rate_factor(self) -> Variable | None:
        """A scalar that multiplies all learning rates, see `scaled`."""
        return vars(self).get("_rate_factor")

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        """Return (new w, new values of the slots) for a gradient; `step` are the new counters."""
        raise TypeError(f"{type(self).__name__} defines no rule")

    def advance(self, counters: Counters) -> dict[str, Variable]:
        """Return the counters after one more step."""
        return dict(counters)

    def slots_of(self, w: Variable) -> Mapping[str, tuple[float, Dims]]:
        """Return (initial value, dims) of each slot of a parameter."""
        return {name: (value, w.dims) for name, value in self.slots.items()}

    def minimize(
        self,
        cost: Variable | Sequence[Variable],
        var_list: Sequence[Variable] | None = None,
        retain_graph: bool = False,
    ) -> Update:
        """Return an Update: every evaluation takes one step. A list of costs is summed.

        Without `var_list` it covers every parameter that the cost depends on, trainable or not:
        `trainable` is read when the step is evaluated, and a frozen variable keeps its value and
        its slots. Every call creates new optimizer state; `variables()` of the Update lists it,
        and it is freed with the Update. Of one state are steps inside `pd.guard()`, those of
        `Module.fit`, the one update that was there before them, and all that are made after them.

        Inside `pd.guard()` the step is taken at once, and the Update is empty: with the gradients
        of `backward()`, if that was called on the cost, else with those of this cost alone. The
        optimizer keeps one state for all its steps there. The recorded graph ends at the cost,
        unless `retain_graph`.

        Args:
            cost: a float Variable, or several.
            var_list: the parameters; by default all that the cost depends on.
            retain_graph: inside `pd.guard()`, whether the recorded graph goes on behind the cost.

        Returns:
            An Update for `eval`; an empty one inside `pd.guard()`.

        Raises:
            DTypeError: a parameter is float16.
            GraphError: the cost depends on none of the parameters, or a group's pattern is in no
                name.
            NoGradient: the cost is no float.
            TypeError: the cost is no Variable, or `var_list` has dicts.
        """
        recording = recorder()
        usual = var_list is None and not retain_graph
        if recording is not None and usual and recording.minimize_again(self, cost):
            return _TAKEN  # nothing was made that could be taken back
        return self._minimize(cost, var_list, retain_graph)

    @whole
    def _minimize(self, cost, var_list, retain_graph):
        costs = costs_of(cost)
        if any(isinstance(v, Mapping) for v in var_list or ()):
            raise TypeError(
                "minimize: var_list has Variables\n"
                f"  hint: groups with settings of their own are {type(self).__name__}(groups=...)"
            )
        recording = recorder()
        if recording is not None:
            recording.minimize(self, costs, var_list, retain_graph)
            return _TAKEN
        own = effects(costs)
        variables = parameters_of(costs, own) if var_list is None else var_list
        variables = list(dict.fromkeys(variables))
        gradients = gradients_by_rows(costs, variables)
        pairs = [(v, g) for v, g in zip(variables, gradients, strict=True) if g is not None]
        if not pairs:
            raise GraphError(f"minimize: {costs} depend on none of {variables}")
        return self.update(pairs).including(own)

    def backward_and_update(
        self, cost: Variable | Sequence[Variable], var_list: Sequence[Variable] | None = None
    ) -> None:
        """Take a step inside `pd.guard()` or `Module.train_one_batch`, see `minimize`.

        Args:
            cost: a float Variable, or several.
            var_list: as in `minimize`.

        Raises:
            GraphError: there is no `pd.guard()`.
        """
        if recorder() is None:
            raise GraphError(
                "backward_and_update: there are values only inside `with pd.guard():`\n"
                "  hint: minimize() returns the update of a static graph"
            )
        self.minimize(cost, var_list)

    def state(self) -> dict[str, np.ndarray]:
        """Return the state of its steps in the session in force, for `load_state`.

        It is that of the steps inside `pd.guard()` and of `Module.fit`, or of the one update of a
        static graph that is in use: slots are `<parameter>/<slot>`, counters have a name of their
        own. What was loaded and waits for its first step is there, too; so are numbers that were
        set since the steps began, such as `learning_rate`. Of several updates, their own
        `variables()` are saved.

        Returns:
            {name: array}.

        Raises:
            GraphError: several updates of it are in use.
        """
        return states.state_of(self, default_session())

    def load_state(self, values: Mapping[str, ArrayLike], strict: bool = True) -> Misfits:
        """Set the state of the steps, as `state` returns it, in the session in force.

        Values of parameters that no step has updated yet wait for their first step. After an error
        nothing is changed.

        Args:
            values: {name: array}, as `state` gives them.
            strict: whether all names must fit.

        Returns:
            The names that did not fit, (missing, unexpected).

        Raises:
            GraphError: with `strict`, names are missing or unknown.
            ShapeError: a value has another shape.
        """
        return states.load(self, default_session(), values, strict, self._may_have)

    def _may_have(self, name):
        """Whether slots or counters may have a name, as far as the class says."""
        if type(self).slots_of is not Optimizer.slots_of:
            return True
        known = (*self.slots, *self.counters, "steps", "schedule_steps", "batches", "gradient")
        known = (*known, "scale", "good_steps")
        return name.rpartition("/")[2] in known

    def __copy__(self) -> Self:
        """Copy the settings, and the state of the steps in the session in force."""
        return states.copied(self, {}, deep=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the settings, and the state of the steps in the session in force.

        The copy goes on with the same parameters, or with their copies if these are copied with it.
        """
        return states.copied(self, memo, deep=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings and the state in the session in force, to be pickled."""
        return states.pickled(self)

    def scaled(self, factor: Variable) -> Self:
        """Return the same optimizer with all learning rates times a scalar.

        It shares settings and updates with this one.

        Args:
            factor: a scalar Variable.

        Returns:
            An optimizer.
        """
        return variant(self, {"_rate_factor": factor})

    @whole
    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Update:
        """Return an Update from (parameter, gradient) pairs; a gradient may be a RowGradient."""
        return states.static_tracing(self, self.name, default_session()).update(pairs)


place(Optimizer, OPTIMIZER, settings=OPTIMIZER)


def _check_period(who, value):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{who}: accumulate is a number of batches, not {value!r}")
    if value < 1:
        raise ValueError(f"{who}: accumulate is at least 1, not {value}")


def costs_of(cost: Variable | Sequence[Variable]) -> list[Variable]:
    """Return one cost or several as a list; TypeError if one is no Variable."""
    costs: list[Any] = list(cost) if isinstance(cost, (list, tuple)) else [cost]
    for v in costs:
        if not isinstance(v, Variable):
            raise TypeError(f"minimize: the cost is a Variable, not {v!r}")
    return costs


def parameters_of(costs: list[Variable], own: Iterable[Assignment]) -> list[Variable]:
    """Return the float state that costs depend on, except what `effects` of batch norm assign."""
    inputs = [x for node in ancestors(costs) for x in node.inputs if x is not None] + costs
    assigned = {a.variable for a in own}
    floats = dict.fromkeys(x for x in inputs if x.is_persistent and x.dtype.kind == "f")
    parameters = [v for v in floats if v not in assigned]
    if not parameters:
        raise GraphError(f"minimize: there are no parameters behind {costs}")
    return parameters


@dataclass(eq=False, repr=False)
class SGDOptimizer(Optimizer):
    """Stochastic gradient descent.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        name: prefix of the names of the state; automatic if None.
        regularizer: a function (gradient, parameter) -> gradient, such as `L2`.
        clip: a function (gradient, parameter) -> gradient, such as `ClipNorm`, or a
            `ClipGlobalNorm`.
        groups: dicts with `params`, which are Variables, a regular expression that is searched in
            names or a predicate, and settings for these parameters.
        accumulate: the number of batches whose mean gradient makes one step.

    Raises:
        GraphError: a Variable is in two groups.
        TypeError: a learning rate, a group, `accumulate` or a keyword is none of these.
        ValueError: `accumulate` is below 1, or a group has a setting that groups cannot have.
    """

    learning_rate: LearningRate = 0.01

    adds = True
    elementwise = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        return sgd(w, g, rate), {}


@dataclass(eq=False, repr=False)
class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum, Nesterov's on request.

    By default v := mu v - rate g; w := w + v, as in Keras and PaddlePaddle. Without
    `rate_in_velocity` b := mu b + g; w := w - rate b, as in PyTorch and Optax. The two differ as
    soon as the rate changes: what v has collected keeps its rates, b gets the new one.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        momentum: the share of the last change that the next one keeps.
        nesterov: whether the step goes on from where the momentum leads.
        rate_in_velocity: whether the state adds up changes, not gradients.
    """

    learning_rate: LearningRate = 0.01
    momentum: float = 0.9
    nesterov: bool = False
    _: KW_ONLY
    rate_in_velocity: bool = True

    adjustable = ("momentum",)
    elementwise = True

    @property
    def slots(self) -> dict[str, float]:  # type: ignore[override]
        """The state of each parameter; changes and gradients have different names."""
        return {"velocity" if self.rate_in_velocity else "momentum_buffer": 0.0}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        ((name, _),) = self.slots.items()
        rule = momentum if self.rate_in_velocity else momentum_of_gradients
        w, state = rule(w, g, rate, slots[name], self.momentum, self.nesterov)
        return w, {name: state}


@dataclass(eq=False, repr=False)
class MomentsOptimizer(Optimizer):
    """Base of the optimizers with Adam's two running means, m of gradients and v of squares."""

    learning_rate: LearningRate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    slots = {"m": 0.0, "v": 0.0}
    # 1 - beta^t as running sums: in float32 the difference of 1 and 0.999^t would lose digits
    counters = {"weight1": 0.0, "weight2": 0.0}
    elementwise = True

    def advance(self, counters: Counters) -> dict[str, Variable]:
        betas = {"weight1": self.beta1, "weight2": self.beta2}
        return {name: counters[name] * beta + (1.0 - beta) for name, beta in betas.items()}


@dataclass(eq=False, repr=False)
class AdamOptimizer(MomentsOptimizer):
    """Adam (Kingma & Ba 2015, algorithm 1), w - rate m' / (sqrt(v') + epsilon), as in PyTorch.

    m' and v' are corrected for their bias. The step count is the update's, not each variable's.
    With `amsgrad` the largest v so far takes the place of v (Reddi et al. 2018, algorithm 2).

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
        amsgrad: whether the largest mean of squared gradients divides.
    """

    _: KW_ONLY
    amsgrad: bool = False

    elementwise = True

    @property
    def slots(self) -> dict[str, float]:  # type: ignore[override]
        """The state of each parameter, which depends on `amsgrad`."""
        return {"m": 0.0, "v": 0.0, **({"max_v": 0.0} if self.amsgrad else {})}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        epsilon = ops.sqrt(step["weight2"]) * self.epsilon  # as it is added to the corrected v
        rate = corrected(rate, step)
        if not self.amsgrad:
            w, m, v = adam(w, g, rate, slots["m"], slots["v"], self.beta1, self.beta2, epsilon)
            return w, {"m": m, "v": v}
        m, v = moments(g, slots["m"], slots["v"], self.beta1, self.beta2)
        most = ops.maximum(slots["max_v"], v)
        return w - m * rate / (ops.sqrt(most) + epsilon), {"m": m, "v": v, "max_v": most}


def corrected(rate: Rate, step: Counters) -> Variable:
    """Return the learning rate times Adam's bias correction, sqrt(1 - b2^t) / (1 - b1^t)."""
    return ops.sqrt(step["weight2"]) / step["weight1"] * rate
