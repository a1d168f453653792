"""Updaters: one trainer's steps, and what is due when batches and passes end."""

import math
from contextlib import nullcontext

import numpy as np

import pd_core as pd
from pd_core.run.states import entries, integer, maybe, number

from .average import Average
from .rule import Rule

_CAUGHT_UP = 1 << 22  # elements of a table that are penalised at a time
_SCALE = 2.0**10  # of costs at first; their gradients are sums over a batch, not means


class Updater:
    """The steps of one trainer with an optimizer.

    `init` makes `step`, a target for the core that needs the learning rate fed as `rate`. Then,
    as a training goes on: `start`, and for each pass `start_batch` and `finish_batch` around every
    batch and `finish_pass`. What it counts begins anew with `start`; what the optimizer remembers
    of the parameters stays.
    """

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.rate = pd.Variable.of((), np.float32, "learning_rate")
        self.gradients = {}  # by name; of parameters that the costs depend on
        self.learned = []  # the Variables that a step moves
        self._average = self._session = None
        self.factor = None  # a Variable where `rate` does not reach all of the formula
        self._rate, self._factor, self._last_rate = 0.0, None, np.zeros((), np.float32)
        self._samples = self._pass_id = 0

    def init(self, costs, parameters, configs, session, scales_rates=False, scales_costs=False):
        """Make the step that moves these parameters; `configs` are ParameterConfigs by name.

        `session` is the one that has their values; with `scales_rates` a factor of `feeds` reaches
        all methods. With `scales_costs` gradients are those of the costs times a scale, divided by
        it, and a step of gradients that are not finite changes the scale alone.
        """
        self._session = session
        learned = [p.variable for p in parameters if not p.config.is_static]
        for v in learned:  # the same variable may be configured otherwise for another network
            v.row_sparse = configs[v.name].sparse_update
            v.learning_rate = configs[v.name].learning_rate
        self._scaler = scaler = pd.LossScaler(pd.SGDOptimizer(), _SCALE) if scales_costs else None
        self._candidates = learned
        self._found = found = self.gradients_of(costs)
        pairs = [(v, g) for v, g in zip(learned, found, strict=True) if g is not None]
        self.gradients = {v.name: g for v, g in pairs}
        idle = [v for v in learned if v.name not in self.gradients and not v.row_sparse]
        pairs += [(v, pd.zeros_like(v)) for v in idle if self._is_penalised(configs[v.name])]
        self.learned = [v for v, _ in pairs]
        settings = self.optimizer.model_average
        if settings is not None and settings.average_window > 0:
            if scaler is not None:
                raise ValueError(
                    "precision='mixed_float16': ModelAverage counts all batches, and those are "
                    "left out whose gradients are not finite"
                )
            self._average = Average(settings, session)
        scheduled = self.optimizer.scheduled and self.optimizer.penalty_scheduled
        if scales_rates and not scheduled:
            self.factor = pd.Variable.of((), np.float32, "rate_factor")
        self._rule = Rule(self.optimizer, configs, self.rate, self._average, self.factor)
        self.step = self._rule.update(pairs)
        if scaler is not None:
            scaler.guard(self.step, [g for _, g in pairs])
        self.optimizer.note([a.value for a in self.step.assignments])
        self._catch_up = self._rule.catch_up()
        if self._average is not None:
            self._average.complete(self._rule.batches)

    def gradients_for(self, costs):
        """Return pairs of what the step has as a gradient, and the same of other costs.

        They are Variables, None, or tuples of these for the rows of a table.
        """
        pairs = zip(self._found, self.gradients_of(costs), strict=True)
        return [(_parts(old), _parts(new)) for old, new in pairs]

    def gradients_of(self, costs):
        """Return the gradient of the sum of some costs for each parameter that may move, or None.

        That of rows of a table is a RowGradient.
        """
        scaler = self._scaler
        if scaler is None:
            return pd.optimizers.gradients_by_rows(costs, self._candidates)
        found = pd.optimizers.gradients_by_rows(scaler.scaled(costs), self._candidates)
        return [g if g is None else scaler.divided(g) for g in found]

    def _is_penalised(self, config):
        """Whether a parameter moves without a gradient too."""
        return config.decay_rate_l1 > 0.0 or (config.decay_rate and self.optimizer.decays)

    @property
    def last_rate(self):
        """The learning rate of the last batch."""
        return float(self._rate)

    @property
    def loss_scale(self):
        """The scale of the costs, None if they have none."""
        return None if self._scaler is None else self._scaler.scale

    def start(self):
        """A training begins: pruned parameters get their masks."""
        self._samples = self._pass_id = 0
        if self._average is not None:
            self._average.window.start_pass()
        session = self._session
        for w, (mask, ratio) in self._rule.masks.items():
            value = session.get(w)
            kept = _largest(value, ratio)
            session.set(mask, kept)
            session.set(w, value * kept)

    def start_batch(self, size):
        """The learning rate for a batch of `size` samples, float32 []."""
        self._samples += size
        rate = self.optimizer.rate_at(self._samples, self._pass_id)
        if rate != self._rate:
            self._rate, self._last_rate = rate, np.array(rate, np.float32)
        return self._last_rate

    def feeds(self, factor=None):
        """Return the feeds of the started batch; `factor` multiplies its learning rate."""
        self._factor = factor
        return self._feeds()

    def _feeds(self):
        factor = self._factor
        rate = self._last_rate if factor is None else self._last_rate * np.float32(factor)
        feeds = {self.rate: rate}
        if self.factor is not None:
            feeds[self.factor] = np.float32(1.0 if factor is None else factor)
        return feeds

    def finish_batch(self):
        """The step of a batch was made."""
        if self._average is not None:
            self._average.finish_batch()

    def finish_pass(self):
        """All batches of a pass were made."""
        self._pass_id += 1
        self.catch_up()
        if self._average is not None:
            self._average.window.finish_pass()

    def catch_up(self):
        """Average and penalise rows for the batches that did not touch them."""
        if self._average is not None:
            self._average.catch_up()
        for parameter, rows, update in self._catch_up:
            height, width = parameter.dims[0], math.prod(parameter.dims[1:])
            count = max(1, _CAUGHT_UP // width)
            for start in range(0, height, count):
                some = np.arange(start, min(start + count, height))
                self._session.eval(update, {**self._feeds(), rows: some})

    def variables(self):
        """Return the optimizer's state, {name below the step's own: Variable}."""
        masks = [mask for mask, _ in self._rule.masks.values()]
        sums = [] if self._average is None else self._average.variables()
        prefix = f"{self._rule.name}/"
        return {v.name.removeprefix(prefix): v for v in (*self.step.variables(), *masks, *sums)}

    def state(self):
        """Return what is counted outside of the variables, for `restore`."""
        average = None if self._average is None else self._average.window.state()
        return {
            "samples": self._samples,
            "pass_id": self._pass_id,
            "rate": float(self._rate),
            "factor": self._factor,
            "average": average,
            "learning_rate": self.optimizer.rate_set,
        }

    def check(self, state):
        """Raise an error if `restore` would; change nothing."""
        found = entries("the optimizer", state, _KINDS, ("learning_rate",))
        if self._average is not None:
            self._average.window.check(found["average"])

    def restore(self, state):
        """Go back to a `state`."""
        found = entries("the optimizer", state, _KINDS, ("learning_rate",))
        self._samples, self._pass_id = found["samples"], found["pass_id"]
        self._rate, self._factor = found["rate"], found["factor"]
        self._last_rate = np.array(self._rate, np.float32)
        self.optimizer.reset_rate(found.get("learning_rate"))
        if self._average is not None:
            self._average.window.restore(found["average"])

    @property
    def average(self):
        """The Average of the parameters, None if the optimizer keeps none."""
        return self._average

    def applied(self):
        """A `with` that puts the averages in the place of the parameters, if there are any."""
        return nullcontext() if self._average is None else self._average.applied()


def _parts(gradient):
    """Return the Variables of a gradient: itself, or those of a RowGradient and of its terms."""
    if not isinstance(gradient, pd.optimizers.RowGradient):
        return gradient
    terms = None if gradient.terms is None else _parts(gradient.terms)
    return gradient.rows, gradient.values, terms


_KINDS = {"samples": integer, "pass_id": integer, "rate": number}
_KINDS |= {"factor": maybe(number), "average": maybe(dict), "learning_rate": maybe(number)}


def _largest(values, ratio):
    """1 for the largest absolute values, 0 for the part `ratio` of all; earlier ones win ties.

    How many that is 2017 computed in float32: of ten values 0.6 leaves three.
    """
    kept = np.zeros(values.size, np.float32)
    order = np.argsort(-np.abs(values.reshape(-1)), kind="stable")
    kept[order[: int(np.float32(values.size) * (np.float32(1.0) - np.float32(ratio)))]] = 1.0
    return kept.reshape(values.shape)
