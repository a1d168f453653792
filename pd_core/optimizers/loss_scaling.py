"""Dynamic scaling of losses, which keeps small gradients from vanishing in float16."""

import copy
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..graph.errors import GraphError
from ..graph.names import names
from ..graph.node import apply
from ..graph.other_words import Signature, check_arguments
from ..graph.recording import recorder
from ..graph.rewrite import is_output_of
from ..graph.shown import with_settings
from ..graph.update import Assignment, Update, effects
from ..graph.variable import Variable
from ..graph.whole import whole
from ..run.session import default_session
from .base import Optimizer, costs_of, parameters_of
from .row_sparse import Gradient, RowGradient, gradients_by_rows
from .settings import Built
from .tracing import state

_STATE = ("scale", "good_steps")
_LARGEST = 2.0**127  # a scale; the next power of two is no float32
# Of a smaller scale float16 is not the reason: it holds gradients of 1e14 times that.
TOO_SMALL = 2.0**-32


class LossScaler(Built):
    """An optimizer whose gradients are computed times a scale (Micikevicius et al. 2018).

    The update gets the gradients divided by the scale again. If one of them is infinite or NaN, the
    step changes nothing but the scale, which is multiplied by `backoff_factor`; after
    `growth_interval` good steps in a row it is multiplied by `growth_factor`. These are the rules
    and the defaults of PyTorch's GradScaler. Moving statistics are stored in every step.

    Such a gradient is no fault to `pd.check_numerics`. Where gradients are NaN at any scale all
    steps change nothing, and the scale goes to 0: `pd.training.StopAtNaN` tells, and a Runner and
    `Module.fit` warn.

    `scale` and `good_steps` are stored scalars, and belong to the state of the updates that
    `minimize` returns: they are in their checkpoints and exported steps.
    """

    if not TYPE_CHECKING:
        __signature__ = Signature()

        def __new__(cls, *args, **kwargs):
            check_arguments(cls, kwargs)
            return object.__new__(cls)

    @whole
    def __init__(
        self,
        optimizer: Optimizer,
        initial_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        name: str | None = None,
    ):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"LossScaler: takes an optimizer, not {optimizer!r}")
        if not (initial_scale > 0 and growth_factor > 1 and 0 < backoff_factor < 1):
            raise ValueError(
                "LossScaler: a scale is positive, a growth_factor above 1 and a backoff_factor "
                f"within (0, 1), not {initial_scale}, {growth_factor}, {backoff_factor}"
            )
        if growth_interval < 1:
            raise ValueError(f"LossScaler: growth_interval is at least 1, not {growth_interval}")
        self.optimizer, self.initial_scale = optimizer, initial_scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        name = name or names().next("loss_scaler_", "")
        self.scale = state(f"{name}/scale", (), np.float32, initial_scale)
        self.good_steps = state(f"{name}/good_steps", (), np.float32)

    def __repr__(self) -> str:
        return with_settings(self)

    def around(self, optimizer: Optimizer) -> "LossScaler":
        """Return a scaler of another optimizer, with these settings and this state."""
        other = object.__new__(LossScaler)
        vars(other).update({**vars(self), "optimizer": optimizer})
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings, the optimizer and the values in the session, for copies and pickles.

        GraphError if the optimizer has several states.
        """
        session, own = default_session(), vars(self)
        settings = {k: v for k, v in own.items() if k not in (*_STATE, "_built")}
        values = {key: float(session.get(own[key])) for key in _STATE}
        return {**settings, "(values)": values, "(name)": self.scale.name.rpartition("/")[0]}

    def __setstate__(self, content: dict[str, Any]) -> None:
        own = dict(content)
        values, name = own.pop("(values)"), own.pop("(name)")
        while names().variables.has_layer(name):
            name = names().next("loss_scaler_", "")
        vars(self).update(own)
        for key in _STATE:
            vars(self)[key] = state(f"{name}/{key}", (), np.float32, values[key])

    @whole
    def minimize(
        self,
        cost: Variable | Sequence[Variable],
        var_list: Sequence[Variable] | None = None,
        retain_graph: bool = False,
    ) -> Update:
        """Return an Update as the optimizer does; inside `pd.guard()` the step is taken at once.

        There it computes the gradients itself: `backward()` of the cost would have no scale.
        """
        costs = costs_of(cost)
        recording = recorder()
        if recording is not None:
            recording.minimize(self, costs, var_list, retain_graph)
            return Update()
        own = effects(costs)
        variables = parameters_of(costs, own) if var_list is None else var_list
        variables = list(dict.fromkeys(variables))
        gradients = gradients_by_rows(self.scaled(costs), variables)
        pairs = [
            (v, self.divided(g)) for v, g in zip(variables, gradients, strict=True) if g is not None
        ]
        update = copy.copy(self.optimizer.update(pairs))
        self.guard(update, [g for _, g in pairs])
        self.note([a.value for a in update.assignments])
        return update.including(own)

    def scaled(self, costs: Sequence[Variable]) -> list[Variable]:
        """Return costs times the scale."""
        return [c * ops.cast(self.scale, c.dtype) for c in costs]

    def divided(self, g: Gradient) -> Gradient:
        """Return a gradient of scaled costs, divided by the scale."""
        return _divided(g, self.scale)

    def guard(self, update: Update, gradients: Sequence[Gradient]) -> None:
        """Let an update change nothing but the scale if a gradient is not finite.

        GraphError with a sharded table, since each process knows the gradients of other rows.
        """
        shards = [w.name for w, _ in update.gradients or () if w.is_shard]
        if shards:
            raise GraphError(
                f"LossScaler: each process has other rows of the sharded table {shards[0]}, and "
                "cannot tell whether all gradients are finite"
            )
        finite = all_finite(gradients)
        guarded = [_only_if(finite, a) for a in update.assignments]
        update.assignments = (*guarded, *self.adjusted(finite))

    def adjusted(self, finite: Variable) -> list[Assignment]:
        """Return the assignments of the scale and the count of good steps, after a step."""
        count = self.good_steps + 1.0
        grows = ops.greater_equal(count, float(self.growth_interval))
        larger = ops.minimum(self.scale * self.growth_factor, _LARGEST)
        scale = ops.where(grows, larger, self.scale)
        zero = ops.zeros_like(count)
        return [
            Assignment(self.scale, ops.where(finite, scale, self.scale * self.backoff_factor)),
            Assignment(self.good_steps, ops.where(finite, ops.where(grows, zero, count), zero)),
        ]


def all_finite(gradients: Sequence[Gradient]) -> Variable:
    """Return a scalar: whether all elements of the gradients are finite."""
    values = [g.values if isinstance(g, RowGradient) else g for g in gradients]
    # 0 for finite elements, NaN for others
    zeros = [ops.cast(ops.reduce_sum(g * 0.0), np.float32) for g in values]
    # whether a sum is NaN is no use of its value: a check of numerics leaves such gradients alone
    return ops.logical_not(ops.is_nan(reduce(ops.add, zeros)))


def _divided(g, scale):
    if isinstance(g, RowGradient):
        return RowGradient(g.rows, _divided(g.values, scale))
    return g / ops.cast(scale, g.dtype)


def _only_if(finite, assignment):
    """The assignment, of the value from before unless `finite`."""
    variable, value = assignment.variable, assignment.value
    if is_output_of(value, "ScatterND") and value.node.inputs[0] is variable:
        _, index, rows = value.node.inputs  # of a table: no value of its whole size is computed
        rows = ops.where(finite, rows, ops.gather_nd(variable, index))
        value = apply("ScatterND", variable, index, rows, known=variable.dims)
    else:
        value = ops.where(finite, value, variable)
    return Assignment(variable, value, assignment.owner, assignment.is_effect)
