"""The settings that all optimizers share: learning rate, decay, clipping and averages."""

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


class Optimizer:
    """Base class of the optimizers.

    `learning_rate_schedule` with its `_decay_a`, `_decay_b` and `_args` changes the rate with the
    number of samples seen; `regularization` is an L2Regularization or a list with one,
    `model_average` a ModelAverage; `gradient_clipping_threshold` clips each element of the
    gradient of a batch. `batch_size` is accepted and has no effect.
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
        self.learning_rate = learning_rate
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
