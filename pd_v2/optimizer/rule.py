"""The step of a 2017 optimizer as one of the core: what surrounds the formula of the method.

Around it, in this order: the pruning mask, clipping, the formula, and the penalties that are not
part of it. Rows of a `sparse_update` parameter are touched only by the batches that read them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import pd_core as pd
from pd_core.graph.update import Assignment


class Rule(pd.optimizers.Tracing):
    """`optimizer` for parameters with these ParameterConfigs by name; `rate` is fed.

    An `average` is told every new value. A `factor`, fed too, multiplies rates that no schedule
    reaches.
    """

    def __init__(self, optimizer, configs, rate, average=None, factor=None):
        super().__init__(optimizer)
        self.fed_rate, self.configs, self.average = rate, configs, average
        self.factor = factor
        self.masks = {}  # parameter -> (its pruning mask, the part of it that is zero)
        self.lazy = []  # LazyPenalty of each parameter that has one

    def kind(self):
        return "rule"

    def period(self):
        return 1  # every batch updates

    def check_groups(self, parameters):
        """Check nothing: parameters have settings of their own in their configs."""

    def needed(self, w, g):
        return g  # distinct rows: penalties, masks and averages are of rows

    def scheduled(self):
        return self.fed_rate, []

    def counted(self, dtype):
        """Count the batches, from 1, and what the method counts, in its own types."""
        self.batches = self.scalar("batches", 0, np.int64)
        self.batch = self.batches + 1
        return {}, [Assignment(self.batches, self.batch), *self.optimizer.begin(self)]

    def clipped(self, pairs):
        return pairs  # by each parameter's own threshold, after the pruning mask

    def stepped(self, part, g, rate, step):
        parameter = part.parameter
        config = self.configs[parameter.name]
        factor = parameter.learning_rate
        rate = rate if factor == 1.0 else rate * factor
        own = ParameterStep(self, part, g, rate, config)
        new, scale = self.optimizer.move(own)
        if own.is_penalised:
            new = own.penalised(new, scale)
        if self.average is not None:
            self.average.add(own, new)
        values = [(own.w, new), *own.stored]
        return [Assignment(*part.written(v, value), owner=parameter) for v, value in values]

    def catch_up(self):
        """Return (parameter, rows, Update) for each parameter with lazy penalties.

        The Update penalises the fed `rows` [K] for the batches that did not touch them.
        """
        return [self._caught_up(one) for one in self.lazy]

    def _caught_up(self, one):
        rows = pd.Variable.of((f"{self.name}_rows",), np.int64, f"{self.name}_rows")
        part = pd.optimizers.Rows(one.parameter, rows)
        w, last = part.read(one.parameter), part.read(one.until)
        scale = None if one.scale is None else part.read(one.scale)
        batches = pd.cast(self.batches - last, np.float32)
        new = penalised(w, one.rate, one.config, batches, scale)
        values = [(w, new), (last, pd.expand_like(self.batches, last))]
        found = [Assignment(*part.written(v, value), owner=one.parameter) for v, value in values]
        return one.parameter, rows, pd.Update(found)


@dataclass(frozen=True)
class LazyPenalty:
    """The penalties of a row-sparse parameter: `until` [V, 1] is the last batch accounted for."""

    parameter: pd.Variable
    config: object
    rate: object
    until: pd.Variable
    scale: pd.Variable | None


class ParameterStep:
    """One parameter in one step: what a formula reads, and the slots that it stores anew."""

    def __init__(self, rule, part, g, rate, config):
        self.rule, self.part, self.config = rule, part, config
        self.w = part.read(part.parameter)
        self.is_rows = isinstance(part, pd.optimizers.Rows)
        self.stored = []
        optimizer, parameter = rule.optimizer, part.parameter
        unscheduled = optimizer.unscheduled(parameter, rule.name)
        if rule.factor is not None:
            unscheduled = rule.factor * unscheduled
        self.rate = rate if optimizer.scheduled else unscheduled
        self._penalty_rate = rate if optimizer.penalty_scheduled else unscheduled
        decays = config.decay_rate and optimizer.decays
        shrinks_rows = decays and self.is_rows and config.decay_rate > 0.0
        self.is_penalised = _penalises(config) or bool(shrinks_rows)
        self.decay = 0.0 if self.is_penalised or not decays else config.decay_rate
        if self.is_penalised and config.momentum:
            what = "l1_rate" if config.decay_rate_l1 else "weight decay with sparse_update"
            raise pd.GraphError(
                f"parameter {config.name!r}: {what} needs momentum 0, not {config.momentum}"
            )
        self.g = self._clipped(self._masked(g))

    def slot(self, kind):
        """State of the parameter's shape, 0 at the start."""
        return self.rule.slot(self.part, kind)

    def store(self, slot, new):
        """The new value of a slot; returned as it is."""
        self.stored.append((slot, new))
        return new

    @cached_property
    def touched(self):
        """int64 [K, 1]: the last batch that touched each of the rows, 0 if none did."""
        touched = self.row_state("touched")
        self.store(touched, pd.expand_like(self.rule.batch, touched))
        return touched

    def penalised(self, w, scale):
        """w after the penalties that follow the formula: of rows also for the batches missed."""
        if not self.is_rows:
            return penalised(w, self._penalty_rate, self.config, None, scale)
        part, batch = self.part, self.rule.batch
        until = self.row_state("penalised")
        batches = pd.cast(batch - until, np.float32)
        self.store(until, pd.expand_like(batch, until))
        kept = None
        if scale is not None:  # that of the last touch counts when rows are caught up
            kept = self.slot("scale")
            self.store(kept, scale)
        self.rule.lazy.append(
            LazyPenalty(
                part.parameter,
                self.config,
                self._penalty_rate,
                part.stored(until),
                None if kept is None else part.stored(kept),
            )
        )
        return penalised(w, self._penalty_rate, self.config, batches, scale)

    def row_state(self, kind):
        """An int64 for each row, 0 at the start."""
        w = self.part.parameter
        dims = (w.dims[0], *[1] * (w.rank - 1))
        return self.rule.slot(self.part, kind, 0, dims, np.int64)

    def _masked(self, g):
        hooks = self.config.update_hooks
        for hook in hooks:
            if hook.type != "pruning":
                raise pd.GraphError(
                    f"parameter {self.config.name!r}: there is no update hook {hook.type!r}, "
                    "only 'pruning'"
                )
        if not hooks:
            return g
        if self.part.parameter.is_shard:
            raise pd.GraphError(
                f"parameter {self.config.name!r}: pruning needs all of a parameter, and with "
                "sparse_update its rows are spread over the ranks"
            )
        mask = self.rule.slot(self.part, "mask", 1.0)
        ratio = max(hook.sparsity_ratio for hook in hooks)
        self.rule.masks[self.part.parameter] = self.part.stored(mask), ratio
        return g * mask

    def _clipped(self, g):
        """Clip by the parameter's own threshold; one of 0 or less leaves it to the optimizer's."""
        limit = self.config.gradient_clipping_threshold
        if limit <= 0.0:
            limit = self.rule.optimizer.defaults.get("gradient_clipping_threshold") or 0.0
        return pd.clip(g, -limit, limit) if limit > 0.0 else g


def _penalises(config):
    """Return whether penalties follow the formula: with L1, or for L2 alone if L1 is below 0.

    2017 did not apply rates below 0 as penalties, but an L1 below 0 took L2 out of the formula.
    """
    l1 = config.decay_rate_l1
    return l1 > 0.0 or (l1 < 0.0 and config.decay_rate > 0.0)


def penalised(w, rate, config, batches=None, scale=None):
    """The soft threshold of L1, then the shrinking of L2.

    w := sign(w) max(|w| - c l1, 0), then w / (1 + c l2), where c is the rate, times the number
    of `batches` and the elementwise `scale` of the method where there are such.
    """
    strength = rate
    for factor in (batches, scale):
        strength = strength if factor is None else factor * strength
    if config.decay_rate_l1 > 0.0:
        w = pd.sign(w) * pd.maximum(pd.abs(w) - strength * config.decay_rate_l1, 0.0)
    if config.decay_rate > 0.0:
        w = w / (1.0 + strength * config.decay_rate)
    return w
