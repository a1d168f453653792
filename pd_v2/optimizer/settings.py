"""The settings that all optimizers share: learning rate, decay, clipping and averages."""

import numpy as np

import pd_core as pd

from .. import build
from ..formats.proto import OptimizationConfig
from .schedules import Schedule
from .updater import Updater


class L2Regularization:
    """L2 penalty rate/2 |w|² of each parameter without its own `l2_rate`, biases included."""

    def __init__(self, rate):
        self.rate = float(rate)

    def to_setting_kwargs(self):
        """Return the fields of the OptimizationConfig: none."""
        return {}

    def extra_settings(self):
        """Return the fields of a ParameterConfig to set by default."""
        return {"decay_rate": self.rate}


class ModelAverage:
    """Averages of the parameters over a window of batches, written by `save_parameter_to_tar`.

    The window is the fraction `average_window` of all batches so far, at least 10000 batches or one
    pass, at most `max_average_window` batches or one pass; 0 or less turns averaging off.
    `do_average_in_cpu` is accepted and has no effect.
    """

    def __init__(self, average_window, max_average_window=None, do_average_in_cpu=False):
        self.average_window = float(average_window)
        self.max_average_window = max_average_window
        self.do_average_in_cpu = bool(do_average_in_cpu)

    def to_setting_kwargs(self):
        """Return the fields of the OptimizationConfig."""
        fields = {
            "average_window": self.average_window,
            "max_average_window": self.max_average_window,
            "do_average_in_cpu": self.do_average_in_cpu,
        }
        return {name: value for name, value in fields.items() if value is not None}


class Optimizer(pd.optimizers.Built):
    """Base class of the optimizers.

    `learning_rate_schedule` with its `_decay_a`, `_decay_b` and `_args` changes the rate with the
    number of samples seen; `regularization` is an L2Regularization or a list with one,
    `model_average` a ModelAverage; `gradient_clipping_threshold` clips each element of the
    gradient of a batch. `batch_size` is accepted and has no effect.

    `learning_rate` may be set during a training, and counts from the next batch. Other settings are
    a part of the step of a trainer: setting them while there is one is an AttributeError.
    """

    method = None
    buffers = ()  # the slots of the method, such as a momentum

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
        if not isinstance(model_average, (ModelAverage, type(None))):
            raise TypeError(f"model_average is a ModelAverage, not {model_average!r}")
        self._learning_rate = self._first_rate = learning_rate
        self._was_set = False
        self._settings = pd.optimizers.Settings()
        self.schedule = Schedule(
            learning_rate_schedule,
            learning_rate,
            learning_rate_decay_a,
            learning_rate_decay_b,
            learning_rate_args,
        )
        self.learning_rate_args = learning_rate_args
        self.defaults = _defaults(regularization, gradient_clipping_threshold)
        self.is_async = is_async
        self.model_average = model_average
        build.current().update_equation = self

    @property
    def learning_rate(self):
        """The learning rate at first, before its schedule."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate):
        vars(self)["schedule"] = self.schedule.of(rate)
        self._learning_rate, self._was_set = rate, True
        self._settings.change(("learning_rate",), rate)

    @property
    def rate_set(self):
        """The learning rate if it was set since the optimizer was made, else None."""
        return self._learning_rate if self._was_set else None

    def reset_rate(self, rate):
        """Go back to a `rate_set`: with None to the rate that the optimizer was made with."""
        self.learning_rate = self._first_rate if rate is None else rate
        self._was_set = rate is not None

    def unscheduled(self, parameter, prefix):
        """Return the rate of a parameter without a schedule, for a graph: it may be set later."""
        place, times = ("learning_rate",), parameter.learning_rate
        return self._settings.number(place, self.learning_rate, np.float32, prefix, times)

    def rate_at(self, samples, pass_id):
        """Return the learning rate after `samples` samples of this training, in pass `pass_id`."""
        return self.schedule.rate_at(samples, pass_id)

    def configure(self, config):
        """Set unset fields of a ParameterConfig to this optimizer's defaults; 0 counts as unset.

        As in 2017 static parameters are included, although no step reads their fields, since these
        are written to files; so is the fact that no parameter server updates rows.
        """
        for field, value in self.defaults.items():
            if getattr(config, field) == 0.0 and value:
                setattr(config, field, value)
        if config.sparse_remote_update:
            config.sparse_remote_update = False

    def enable_types(self):
        """Return the buffers of a parameter: value, gradient, and those of the method."""
        return ["value", "gradient", *self.buffers]

    def create_updater(self, is_local, num_passes, use_sparse_updater, pserver_spec, use_etcd):
        """Create the Updater of one trainer, which is the same for all arguments.

        The sessions of an MPI job exchange the gradients.
        """
        return Updater(self)

    def proto(self):
        """Return the OptimizationConfig message."""
        config = OptimizationConfig(
            batch_size=1,
            algorithm="async_sgd" if self.is_async else "sgd",
            learning_rate=self.learning_rate,
            learning_method=self.method,
            learning_rate_decay_a=self.schedule.a,
            learning_rate_decay_b=self.schedule.b,
            learning_rate_schedule=self.schedule.kind,
            learning_rate_args=self.learning_rate_args,
        )
        average = {} if self.model_average is None else self.model_average.to_setting_kwargs()
        for field, value in average.items():
            setattr(config, field, value)
        self.describe(config)
        return config

    def describe(self, config):
        """Write the method's own settings into an OptimizationConfig."""


def _defaults(regularization, clipping):
    """Return the fields of a ParameterConfig that the optimizer sets by default."""
    penalties = regularization if isinstance(regularization, (list, tuple)) else [regularization]
    fields = {"gradient_clipping_threshold": clipping}
    for r in penalties:
        if r is None:
            continue
        if not isinstance(r, L2Regularization):
            raise TypeError(f"regularization is an L2Regularization, not {r!r}")
        fields.update(r.extra_settings())
    return fields
