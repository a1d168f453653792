"""Lookahead: slow weights that follow the steps of another optimizer."""

from collections.abc import Mapping
from copy import copy

import numpy as np

from .. import ops
from ..graph.errors import GraphError
from ..graph.variable import Dims, Variable
from .base import Optimizer
from .tracing import Changed, Counters, Rate, Slots


class Lookahead(Optimizer):
    """An optimizer whose parameters go back some of the way after every `k` steps of it.

    (Zhang et al. 2019, algorithm 1.) The slow weights s begin as w. After each k steps s := s +
    alpha (w - s), and w := s. State is that of the optimizer, `<parameter>/lead`, which is w - s,
    and `fast`, the number of steps since.

    The settings of the optimizer, such as `learning_rate`, are settings of this one, which goes on
    from its state; what is set in the optimizer itself later is not read. `row_sparse` parameters
    are refused.

    Args:
        optimizer: an optimizer with steps of its own.
        k: the number of its steps between two of the slow weights.
        alpha: how far the slow weights go to the parameters, above 0 and at most 1.

    Raises:
        TypeError: it is no optimizer, or a Lookahead or LBFGSOptimizer.
        ValueError: `k` is below 1, or `alpha` outside of (0, 1].
    """

    k: int
    alpha: float
    _kind: type[Optimizer]

    def __init__(self, optimizer: Optimizer, k: int = 5, alpha: float = 0.5):
        if not isinstance(optimizer, Optimizer) or isinstance(optimizer, Lookahead):
            raise TypeError(
                f"Lookahead: takes an optimizer with steps of its own, not {optimizer!r}"
            )
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"Lookahead: k is a number of steps, 1 or more, not {k!r}")
        if not 0 < alpha <= 1:
            raise ValueError(f"Lookahead: alpha is above 0 and at most 1, not {alpha!r}")
        vars(self).update(vars(copy(optimizer)), _kind=type(optimizer), k=k, alpha=alpha)

    def _inner(self) -> Optimizer:
        """The optimizer with the settings, and in a rule the Variables, that this one has."""
        inner = object.__new__(self._kind)
        vars(inner).update(vars(self))
        return inner

    @property
    def counters(self) -> Mapping[str, float]:  # type: ignore[override]
        """Those of the optimizer, and the number of steps since the slow weights moved."""
        return {**self._inner().counters, "fast": 0.0}

    @property
    def group_settings(self) -> tuple[str, ...]:  # type: ignore[override]
        """What groups may set."""
        return tuple(self._kind.group_settings)

    @property
    def adjustable(self) -> tuple[str, ...]:  # type: ignore[override]
        """Other settings whose numbers may change."""
        return (*self._kind.adjustable, "alpha")

    @property
    def uses_norms(self) -> bool:  # type: ignore[override]
        """Whether the rule has norms over all of a parameter."""
        return bool(self._kind.uses_norms)

    def slots_of(self, w: Variable) -> dict[str, tuple[float, Dims]]:
        """Return the slots of the optimizer, and how far a parameter is from its slow weight."""
        if w.row_sparse:
            raise GraphError(
                f"Lookahead: {w!r} is row_sparse, and its slow weights are of all rows\n"
                "  hint: row_sparse=False, or an optimizer of its own"
            )
        return {**self._inner().slots_of(w), "lead": (0.0, w.dims)}

    def advance(self, counters: Counters) -> dict[str, Variable]:
        """Return the counters after one more step: `fast` is 0 when the slow weights move."""
        fast = counters["fast"] + 1.0
        others = {name: v for name, v in counters.items() if name != "fast"}
        # at least, as k may have become smaller since
        fast = ops.where(fast >= float(self.k), ops.zeros_like(fast), fast)
        return {**self._inner().advance(others), "fast": fast}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        own = {name: v for name, v in slots.items() if name != "lead"}
        new_w, new = self._inner().rule(w, g, own, rate, step)
        lead = slots["lead"] + (new_w - w)
        moves = ops.cast(ops.equal(step["fast"], 0.0), w.dtype)  # 1 with every k-th step, else 0
        return new_w - lead * (moves * (1.0 - self.alpha)), {**new, "lead": lead * (1.0 - moves)}
