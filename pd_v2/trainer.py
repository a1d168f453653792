"""The trainer: passes over a reader, one compiled step per batch, and events in between."""

from collections.abc import Iterator
from contextlib import nullcontext
from math import isfinite

import numpy as np

import pd_core as pd

from . import event as events
from . import settings
from .data_feeder import DataFeeder, feed_dict
from .deprecated_keywords import deprecated_keywords
from .evaluator import Accumulator, LastBatch, fetched
from .not_finite import NotFiniteWarning, ParameterWatch, first_not_finite, quoted
from .optimizer import Optimizer
from .parameters import Parameters
from .topology import Topology
from .training.batches import Batches
from .training.gradient_machine import GradientMachine
from .warning import warn

__all__ = ["SGD"]


def default_event_handler(event):
    """Do nothing."""


class SGD:
    """Trainer of the network behind some cost layers, with any optimizer of `paddle.optimizer`.

    Gradients are summed over the batch. The cost of an event is the sum of the cost layers' values,
    before the update, divided by the number of samples. `extra_layers` are computed as well, for
    their evaluators; those that are costs are also trained on, but are not part of the reported
    cost. `is_local=False` is accepted for a job with one trainer, and is the same as local
    training; there are no parameter servers.

    With `check_numerics`, which 2017 did not have, `train` and `test` raise a pd.NumericError at
    the first operator that makes a NaN or an infinity, before anything is stored; by default
    `paddle.init(check_numerics=...)` decides. Otherwise a warning tells that a cost or a parameter
    is not finite.
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
        *,
        check_numerics=None,
    ):
        if not isinstance(parameters, Parameters):
            raise TypeError("parameters should be parameters")
        if not isinstance(update_equation, Optimizer):
            raise TypeError("update equation parameter must be paddle.v2.optimizer.Optimizer")
        if not is_local:
            _check_single_trainer(pserver_spec)
        self.__topology__ = Topology(cost, extra_layers)
        self.__topology__.check_fit()
        self._inputs = self.__topology__.data_layers()
        self.__optimizer__ = update_equation
        self.__parameters__ = parameters
        self._check_numerics = check_numerics
        self._adopt_parameters()
        self._build()

    def get_topology_proto(self):
        """Return the ModelConfig of the trained network."""
        return self.__topology__.proto()

    def save_parameter_to_tar(self, f):
        """Write the parameters as a tar; see `Parameters.to_tar`.

        With a ModelAverage the averages are written, as soon as there are any.
        """
        self._updater.catch_up()
        with self._updater.applied():
            self.__parameters__.to_tar(f)

    @deprecated_keywords(reader_dict="feeding")
    def train(self, reader, num_passes=1, event_handler=None, feeding=None):
        """Train for some passes over a reader of minibatches.

        `reader` is a function that returns an iterator of lists of samples; `feeding` maps data
        layers to fields of a sample. The handler sees BeginPass, then for each batch
        BeginIteration, EndForwardBackward and EndIteration, then EndPass.
        """
        handler = default_event_handler if event_handler is None else event_handler
        _check_arguments(reader, handler)
        convert = self._converter(feeding)
        batch_metrics = LastBatch(self._evaluators)
        pass_metrics = Accumulator(self._evaluators, prints=False)
        gm = self.__gradient_machine__
        # a handler may ask gm for a layer for the first time after the first update
        keep_rows = handler is not default_event_handler
        self._updater.start()
        self._is_warned = False
        for pass_id in range(num_passes):
            handler(events.BeginPass(pass_id))
            pass_metrics.reset()
            with Batches(reader, convert, pass_id) as batches:
                for batch_id, batch in enumerate(batches):
                    batch_metrics.reset()
                    handler(events.BeginIteration(pass_id, batch_id))
                    feeds = self._started(batch, keep_rows)
                    keep_rows = False
                    self._handle_backward(handler, events.EndForwardBackward(pass_id, batch_id, gm))
                    batches.read_ahead()
                    cost, statistics = self._step(feeds, batch)
                    for metrics in (batch_metrics, pass_metrics):
                        metrics.update(statistics)
                    cost /= len(batch)
                    handler(events.EndIteration(pass_id, batch_id, cost, batch_metrics, gm))
            self._updater.finish_pass()
            self._check_parameters(pass_id)
            handler(events.EndPass(pass_id, pass_metrics, gm))

    @deprecated_keywords(reader_dict="feeding")
    def test(self, reader, feeding=None):
        """Compute cost and metrics over a reader, in inference mode, as a TestResult."""
        if not callable(reader):
            raise TypeError(f"test: the reader is a function that gives batches, not {reader!r}")
        convert, gm = self._converter(feeding), self.__gradient_machine__
        metrics, total, samples = Accumulator(self._evaluators), 0.0, 0
        with Batches(reader, convert) as batches:
            for batch in batches:
                feeds = batch.to_feeds()
                batches.read_ahead()
                gm.begin(feeds, training=False)
                cost, statistics = self._eval(list(self._targets), feeds, batch, training=False)
                metrics.update(statistics)
                total, samples = total + float(cost), samples + len(batch)
        if not samples:
            raise ZeroDivisionError("test: the reader gave no samples")
        return events.TestResult(metrics, total / samples)

    def _adopt_parameters(self):
        """Make the pool a view of the network's variables; draw the values that it lacks."""
        pool, members = self.__parameters__, self.__topology__.parameters
        pool.check_read("SGD", members)
        self.__topology__.update_from_default(self.__optimizer__)
        pool.bind(members)
        self._session = pool.session
        pool.update_param_conf(self.__topology__.proto())
        pool.draw(members)
        pool.use_flat_values()

    def _build(self):
        """Build the targets of a step: the update, the cost and the evaluators' statistics."""
        topology = self.__topology__
        costs, members = topology.costs, topology.parameters
        self._updater = self.__optimizer__.create_updater(
            True, None, topology.use_sparse_updater(), None, False
        )
        self._updater.init(costs, members, topology.configs, self._session)
        learned = self._updater.learned
        self.__gradient_machine__ = GradientMachine(topology, self.__parameters__, learned)
        self._parameter_watch = ParameterWatch(self.__gradient_machine__)
        self._update = self._updater.step.including(pd.effects(topology.layers))
        total = None
        for cost in topology.outputs:
            value = pd.reduce_sum(cost)
            total = value if total is None else total + value
        self._evaluators = [*topology.evaluators, *topology.printers]
        self._targets = total, fetched(self._evaluators)
        self._training_targets = total, fetched(self._evaluators, costs)

    def _started(self, batch, keep_rows):
        """Start the training step of a batch; return its feeds."""
        feeds = batch.to_feeds()
        feeds[self._updater.rate] = self._updater.start_batch(len(batch))
        self.__gradient_machine__.begin(feeds, training=True, keep_rows=keep_rows)
        return feeds

    def _step(self, feeds, batch):
        """Run the training step of a batch; return its cost and its evaluators' statistics."""
        gm = self.__gradient_machine__
        fetches = gm.fetches
        targets = [self._update, *self._training_targets, fetches]
        _, total, statistics, values = self._eval(targets, feeds, batch)
        gm.end_step(fetches, values)
        cost = float(total)
        if not (isfinite(cost) or self._is_warned):
            self._warn(cost, batch, feeds)
        self._updater.finish_batch()
        return cost, statistics

    def _eval(self, targets, feeds, batch, training=None):
        """Evaluate targets for a batch, checked if it was asked for."""
        checked = self._check_numerics
        if checked is None:
            checked = settings.current().flags.get("check_numerics", False)
        try:
            with pd.check_numerics() if checked else nullcontext():
                return self._session.eval(targets, feeds, training)
        except pd.NumericError as error:
            error.add_note(f"  in {batch.place}")
            raise

    def _warn(self, cost, batch, feeds):
        """Warn, once per call of `train`, of a cost that is NaN or infinite."""
        first = first_not_finite(self.__gradient_machine__, feeds)
        names = self._parameter_watch.names()
        lines = [f"train: the cost is {cost} in {batch.place}"]
        lines += [] if first is None else [f"the first value that is not finite: {first}"]
        lines += [f"parameters that are not finite after it: {quoted(names)}"] if names else []
        self._warn_once(lines)

    def _check_parameters(self, pass_id):
        """Warn of parameters that are not finite; once per pass, since it reads all of them."""
        names = [] if self._is_warned else self._parameter_watch.names()
        if names:
            what = f"parameters are not finite: {quoted(names)}"
            self._warn_once([f"train: at the end of pass {pass_id} {what}"])

    def _warn_once(self, lines):
        self._is_warned = True
        hint = "hint: SGD(..., check_numerics=True) stops at the operator where it begins"
        warn(NotFiniteWarning("\n  ".join([*lines, hint])))

    def _handle_backward(self, handler, event):
        """Call the handler; meanwhile `Parameters.get_grad` computes the gradients of the batch.

        They are computed on request only: the step itself does not output its gradients.
        """
        with self.__parameters__.gradients_from(self._gradient_value):
            handler(event)

    def _gradient_value(self, name):
        """Return the gradient of a parameter, flat, for the random draws of the coming step."""
        gradient = self._gradient_of(name)
        if gradient is None:
            return np.zeros(int(self.__parameters__.__param_conf__[name].size), np.float32)
        return self.__gradient_machine__.gradient(gradient).reshape(-1)

    def _gradient_of(self, name):
        """Return the gradient of a parameter as a Variable of its shape, or None."""
        found = self._updater.gradients
        if isinstance(found.get(name), pd.optimizers.RowGradient):
            variables = {p.config.name: p.variable for p in self.__topology__.parameters}
            (found[name],) = pd.gradients(self.__topology__.costs, [variables[name]])
        return found.get(name)

    def _converter(self, feeding):
        """Return the function that converts the samples of a batch to feeds."""
        feeder = DataFeeder(self.__topology__.data_type(), feeding)
        inputs = self._inputs  # so that the converting thread does not keep the trainer alive
        return lambda samples: feed_dict(inputs, feeder(samples))


def _check_arguments(reader, handler):
    if not callable(reader) or not isinstance(reader(), Iterator):
        raise TypeError("train_data_reader should be a function, which can return a iterator")
    if not callable(handler):
        raise TypeError("event handler should be a function")


def _check_single_trainer(pserver_spec):
    """Check that `is_local=False` describes a job with a single trainer."""
    flags = settings.current().flags
    trainers, number = flags.get("num_gradient_servers", 1), flags.get("trainer_id", 0)
    if pserver_spec is not None:
        raise ValueError(f"SGD: pserver_spec={pserver_spec!r}, but there are no parameter servers")
    if trainers != 1 or number != 0:
        raise ValueError(
            f"SGD: is_local=False for trainer {number} of {trainers}, but only a single trainer is "
            "supported\n  hint: paddle.init(num_gradient_servers=1, trainer_id=0)"
        )
