"""The trainer: passes over a reader, one compiled step a batch, events in between."""

from collections.abc import Iterator

import numpy as np

import pd_core as pd

from . import event as events
from .data_feeder import DataFeeder, feeds
from .evaluator import Accumulator, fetched
from .optimizer import Optimizer
from .parameters import Parameters
from .topology import Topology

__all__ = ["SGD"]


def default_event_handler(event):
    """Do nothing."""


class SGD:
    """Trains the parameters behind some cost layers with any of `paddle.optimizer`.

    Gradients are summed over the batch; the cost of an event is the sum of the cost layers'
    values over the number of samples, before the update. `extra_layers` are computed for their
    evaluators only. Of `is_local=False` only the single trainer is there.
    """

    def __init__(
        self,
        cost,
        parameters,
        update_equation,
        extra_layers=None,
        is_local=True,
        pserver_spec=None,
        use_etcd=True,
    ):
        if not isinstance(parameters, Parameters):
            raise TypeError("parameters should be parameters")
        if not isinstance(update_equation, Optimizer):
            raise TypeError("update equation parameter must be paddle.v2.optimizer.Optimizer")
        if not is_local:
            raise ValueError("SGD: is_local=False, but only local training is supported")
        self.__topology__ = Topology(cost, extra_layers)
        self._inputs = self.__topology__.data_layers()
        self.__optimizer__ = update_equation
        self.__parameters__ = parameters
        self._adopt_parameters()
        self._build()

    def get_topology_proto(self):
        """The ModelConfig of what is trained."""
        return self.__topology__.proto()

    def save_parameter_to_tar(self, f):
        """Write the parameters as a tar; see `Parameters.to_tar`.

        Of an optimizer with a ModelAverage it holds the averages, once there are any.
        """
        self._updater.catch_up()
        with self._updater.applied():
            self.__parameters__.to_tar(f)

    def train(self, reader, num_passes=1, event_handler=None, feeding=None):
        """Train for some passes over a reader of minibatches.

        `reader` is a function that gives an iterator of lists of samples; `feeding` says which
        field of a sample a data layer gets. The handler sees BeginPass, then for each batch
        BeginIteration, EndForwardBackward and EndIteration, then EndPass.
        """
        handler = event_handler or default_event_handler
        _check_arguments(reader, handler)
        feeder = self._feeder(feeding)
        batch_metrics, pass_metrics = self._accumulator(), self._accumulator(prints=False)
        updater = self._updater
        updater.start()
        for pass_id in range(num_passes):
            handler(events.BeginPass(pass_id))
            pass_metrics.reset()
            for batch_id, batch in enumerate(reader()):
                batch_metrics.reset()
                handler(events.BeginIteration(pass_id, batch_id))
                feeds = self._feeds(feeder, batch)
                feeds[updater.rate] = updater.start_batch(len(batch))
                with _Gradients(self, feeds):
                    handler(events.EndForwardBackward(pass_id, batch_id, None))
                _, total, statistics = pd.eval([self._update, *self._training_targets], feeds)
                for metrics in (batch_metrics, pass_metrics):
                    metrics.update(statistics)
                updater.finish_batch()
                cost = float(total) / len(batch)
                handler(events.EndIteration(pass_id, batch_id, cost, batch_metrics, None))
            updater.finish_pass()
            handler(events.EndPass(pass_id, pass_metrics, None))

    def test(self, reader, feeding=None):
        """Cost and metrics over a reader, in inference mode, as a TestResult."""
        if not callable(reader):
            raise TypeError(f"test: the reader is a function that gives batches, not {reader!r}")
        feeder = self._feeder(feeding)
        metrics, total, samples = self._accumulator(), 0.0, 0
        for batch in reader():
            feeds = self._feeds(feeder, batch)
            cost, statistics = pd.eval(list(self._targets), feeds, training=False)
            metrics.update(statistics)
            total, samples = total + float(cost), samples + len(batch)
        if not samples:
            raise ZeroDivisionError("test: the reader gave no samples")
        return events.TestResult(metrics, total / samples)

    def _adopt_parameters(self):
        """The pool becomes a view on the network's variables; what has no value is drawn."""
        pool, members = self.__parameters__, self.__topology__.parameters
        for config in self.__topology__.configs.values():
            self.__optimizer__.configure(config)
        pool.bind(members)
        pool.update_param_conf(self.__topology__.proto())
        pool.draw(members)
        pool.use_flat_values()

    def _build(self):
        """The update, the cost and the statistics, as targets of the core."""
        topology = self.__topology__
        costs, members = topology.outputs, topology.parameters
        self._updater = self.__optimizer__.create_updater(
            True, None, topology.use_sparse_updater(), None, False
        )
        self._updater.init(costs, members, topology.configs)
        self._update = self._updater.step.including(pd.effects(topology.layers))
        total = None
        for cost in costs:
            value = pd.reduce_sum(cost)
            total = value if total is None else total + value
        self._evaluators = [*topology.evaluators, *topology.printers]
        self._targets = total, fetched(self._evaluators)
        self._training_targets = total, fetched(self._evaluators, costs)

    def _gradient_of(self, name):
        """The gradient of a parameter as a Variable of its shape, None if it has none."""
        found = self._updater.gradients
        if isinstance(found.get(name), pd.row_sparse.RowGradient):
            variables = {p.config.name: p.variable for p in self.__topology__.parameters}
            (found[name],) = pd.gradients(self.__topology__.outputs, [variables[name]])
        return found.get(name)

    def _accumulator(self, prints=True):
        return Accumulator(self._evaluators, prints)

    def _feeder(self, feeding):
        return DataFeeder(self.__topology__.data_type(), feeding)

    def _feeds(self, feeder, batch):
        return feeds(self._inputs, feeder(batch))


class _Gradients:
    """While it is entered, `Parameters.get_grad` computes the gradients of these feeds.

    Nobody pays for them who does not ask: the step itself keeps its gradients inside.
    """

    def __init__(self, trainer, feeds):
        self.trainer, self.feeds = trainer, feeds

    def __enter__(self):
        self.trainer.__parameters__._gradient = self.of

    def __exit__(self, *exc):
        self.trainer.__parameters__._gradient = None

    def of(self, name):
        """The gradient of one parameter, flat; with the random draws of the coming step."""
        gradient = self.trainer._gradient_of(name)
        if gradient is None:
            return np.zeros(int(self.trainer.__parameters__.__param_conf__[name].size), np.float32)
        session = pd.default_session()
        draws = session.draws.copy()
        value = session.eval(gradient, self.feeds, training=True)
        session.draws = draws
        return value.reshape(-1)


def _check_arguments(reader, handler):
    if not callable(reader) or not isinstance(reader(), Iterator):
        raise TypeError("train_data_reader should be a function, which can return a iterator")
    if not callable(handler):
        raise TypeError("event handler should be a function")
