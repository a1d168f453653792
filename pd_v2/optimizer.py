"""Optimizers with 2017's formulas: summed gradients, rates per parameter, schedules by samples."""

import math

import pd_core as pd
from pd_core.node import Assignment

from .proto import OptimizationConfig

__all__ = ["Adam", "L2Regularization", "Momentum"]

_SCHEDULES = {
    "constant": lambda rate, a, b, n: rate,
    "poly": lambda rate, a, b, n: rate * (1.0 + a * n) ** -b,
    "caffe_poly": lambda rate, a, b, n: 0.0 if n > a else rate * (1.0 - n / a) ** b,
    "exp": lambda rate, a, b, n: rate * a ** (n / b),
    "discexp": lambda rate, a, b, n: rate * a ** math.floor(n / b),
    "linear": lambda rate, a, b, n: max(rate - a * n, b),
}
_PER_SAMPLES = ("exp", "discexp")
_BY_SEGMENTS = ("manual", "pass_manual")


class L2Regularization:
    """rate/2 |w|² for every parameter that has no `l2_rate` of its own, biases included."""

    def __init__(self, rate):
        self.rate = float(rate)

    def to_setting_kwargs(self):
        """Nothing for the optimizer's own settings."""
        return {}

    def extra_settings(self):
        """The default decay of parameters."""
        return {"decay_rate": self.rate}


class Optimizer:
    """What the optimizers share.

    `learning_rate_schedule` and its `_decay_a`, `_decay_b` and `_args` change the rate with the
    number of samples seen; `regularization` is an L2Regularization or a list with one;
    `gradient_clipping_threshold` clips each element of the gradient of a batch. `batch_size` is
    accepted and has no meaning.
    """

    method = None

    def __init__(
        self,
        learning_rate=1e-3,
        learning_rate_decay_a=0.0,
        learning_rate_decay_b=0.0,
        learning_rate_schedule="poly",
        learning_rate_args="",
        regularization=None,
        is_async=False,
        model_average=None,
        gradient_clipping_threshold=None,
        batch_size=None,
    ):
        if learning_rate_schedule not in (*_SCHEDULES, *_BY_SEGMENTS):
            known = ", ".join((*_SCHEDULES, *_BY_SEGMENTS))
            raise ValueError(
                f"there is no learning_rate_schedule {learning_rate_schedule!r}, there is {known}"
            )
        if learning_rate_schedule in _PER_SAMPLES and not learning_rate_decay_b:
            raise ValueError(
                f"learning_rate_schedule {learning_rate_schedule!r} divides by "
                "learning_rate_decay_b, which is 0"
            )
        if model_average is not None:
            raise ValueError("model averaging is not supported")
        self.learning_rate = learning_rate
        self.decay_a, self.decay_b = learning_rate_decay_a, learning_rate_decay_b
        self.schedule = learning_rate_schedule
        self.segments = (
            _segments(learning_rate_args) if learning_rate_schedule in _BY_SEGMENTS else []
        )
        self.defaults = _defaults(regularization, gradient_clipping_threshold)
        self.is_async = is_async
        self.learning_rate_args = learning_rate_args

    def rate_at(self, samples, pass_id):
        """The learning rate after `samples` samples of this training, in pass `pass_id`."""
        if self.segments:
            reached = pass_id if self.schedule == "pass_manual" else samples
            factor = next((r for end, r in self.segments if reached <= end), self.segments[-1][1])
            return self.learning_rate * factor
        schedule = _SCHEDULES[self.schedule]
        return schedule(self.learning_rate, self.decay_a, self.decay_b, samples)

    def configure(self, config):
        """Fill what a ParameterConfig leaves open, as 2017's trainer did; 0 counts as open."""
        for field, value in self.defaults.items():
            if getattr(config, field) == 0.0 and value is not None and not config.is_static:
                setattr(config, field, value)

    def proto(self):
        """The OptimizationConfig message."""
        config = OptimizationConfig(
            batch_size=1,
            algorithm="async_sgd" if self.is_async else "sgd",
            learning_rate=self.learning_rate,
            learning_method=self.method,
            learning_rate_decay_a=self.decay_a,
            learning_rate_decay_b=self.decay_b,
            learning_rate_schedule=self.schedule,
            learning_rate_args=self.learning_rate_args,
        )
        self.describe(config)
        return config

    def describe(self, config):
        """Write the method's own settings into an OptimizationConfig."""

    def begin(self, rule):
        """Assignments that a step makes once, before those of the parameters."""
        return ()

    def update(self, pairs, configs, rate):
        """The core Update for (variable, gradient) pairs; `rate` is a scalar Variable."""
        return _Rule(self, configs, rate).update(pairs)


class Momentum(Optimizer):
    """v := k v - a (g + L w); w := w + v. Without `momentum` plain gradient descent."""

    method = "momentum"

    def __init__(self, momentum=None, sparse=False, **kwargs):
        super().__init__(**kwargs)
        self.defaults["momentum"] = momentum
        self.method = "sparse_momentum" if sparse else "momentum"

    def step(self, rule, w, g, rate, config):
        """(variable, new value) pairs."""
        g = g + w * config.decay_rate if config.decay_rate else g
        if not config.momentum:
            return [(w, pd.optimizers.sgd(w, g, rate))]
        velocity = rule.slot(w, "momentum")
        new = pd.optimizers.momentum(w, g, rate, velocity, config.momentum)
        return list(zip((w, velocity), new, strict=True))


class Adam(Optimizer):
    """Adam with the epsilon outside the root; L2 and momentum do not reach it, as in 2017."""

    method = "adam"

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def describe(self, config):
        config.adam_beta1, config.adam_beta2 = self.beta1, self.beta2
        config.adam_epsilon = self.epsilon

    def begin(self, rule):
        """1 - beta^t, one step further; what corrects the rate for them.

        Not the powers themselves: float32 has few digits of the difference between 1 and 0.999.
        """
        first, second = (rule.scalar(f"weight{k}", 0.0) for k in (1, 2))
        new1 = first * self.beta1 + (1.0 - self.beta1)
        new2 = second * self.beta2 + (1.0 - self.beta2)
        rule.correction = pd.sqrt(new2) / new1
        return [Assignment(first, new1), Assignment(second, new2)]

    def step(self, rule, w, g, rate, config):
        """(variable, new value) pairs."""
        m, v = rule.slot(w, "m"), rule.slot(w, "v")
        new = pd.optimizers.adam(
            w, g, rule.correction * rate, m, v, self.beta1, self.beta2, self.epsilon
        )
        return list(zip((w, m, v), new, strict=True))


class _Rule(pd.optimizers.Optimizer):
    """A legacy optimizer as one of the core: slots and rates there, formulas and settings here."""

    def __init__(self, legacy, configs, rate):
        super().__init__(rate)
        self.legacy, self.configs = legacy, configs

    def begin(self):
        return self.legacy.begin(self)

    def step(self, w, g, rate):
        config = self.configs[w.name]
        if config.update_hooks:
            raise pd.GraphError(f"parameter {w.name!r}: update hooks are not supported")
        if config.decay_rate_l1:
            raise pd.GraphError(f"parameter {w.name!r}: l1_rate is not supported")
        limit = config.gradient_clipping_threshold
        g = pd.clip(g, -limit, limit) if limit else g
        return self.legacy.step(self, w, g, rate, config)


def _defaults(regularization, clipping):
    """Fields of a ParameterConfig that the optimizer fills in."""
    given = regularization if isinstance(regularization, (list, tuple)) else [regularization]
    found = {"gradient_clipping_threshold": clipping}
    for r in given:
        if r is None:
            continue
        if not isinstance(r, L2Regularization):
            raise TypeError(f"regularization is an L2Regularization, not {r!r}")
        found.update(r.extra_settings())
    return found


def _segments(text):
    """[(end, factor)] of `end:factor,end:factor,…`."""
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return [(float(end), float(factor)) for end, factor in pairs]
    except ValueError:
        raise ValueError(f"learning_rate_args are 'end:factor,end:factor', not {text!r}") from None
