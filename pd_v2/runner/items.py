"""The rings of a network of 2017's layers: its data, its step, and inference."""

from contextlib import nullcontext

import pd_core as pd
from pd_core.run.states import maybe
from pd_core.training import RunnerItem
from pd_core.training.checkpoint import checking
from pd_core.training.generators import (
    check_generators,
    encoded,
    generators_state,
    set_generators,
)

from .. import event as events
from ..data_feeder import feed_dict
from ..optimizer import Optimizer
from ..parameters import Parameters
from ..reader.protocol import require_reader
from ..topology import Topology
from ..training.batches import Batches
from ..training.layer_outputs import fields_of
from ..warning import warn
from .job_step import runner_step


class Data(RunnerItem):
    """The minibatches of a reader, lists of samples, converted for the network inside.

    `feeding` maps data layers to fields of a sample. A checkpoint has the place in the data, if it
    `tracks` that, and the states of Python's and NumPy's global random generators.
    """

    meets_ranks = True  # with the steps of `job_step`

    def __init__(self, reader, feeding=None, tracks=True):
        require_reader("Data", reader)
        self.reader, self.feeding = reader, feeding
        # what is read from the network, say, goes on with what comes next
        self._tracks = tracks and not getattr(reader, "unrepeatable", False)
        self._batches = self._resumed = None

    def initialize(self, context, following):
        context.data = self
        self._batches = self._resumed = None
        super().initialize(context, following)
        if context.forward is None:
            raise pd.GraphError("Data: there is no network\n  hint: add a ForwardBackward")
        if hasattr(self.reader, "attach"):  # one that takes commands for the training
            self.reader.attach(context, context.forward.feeder(self.feeding), self.feeding)
        self._convert = context.forward.converter(self.feeding)

    def on_pass_begin(self, following):
        following()
        state, self._resumed = self._resumed, None
        number = self.context.pass_id
        position = None if state is None else state["position"]
        if position is not None and self.context.forward.has_own_data:
            self._batches = Batches(self.reader, self._convert, number, self._tracks)
            self._batches.skip(position["batches"])
            return
        resumes = checking("Resume: the place in the data", pd.GraphError)
        with nullcontext() if position is None else resumes:
            self._batches = Batches(self.reader, self._convert, number, self._tracks, position)
        if position is not None:
            set_generators(state["generators"], but=self._batches.draws_ahead)

    def on_batch_begin(self, following):
        context = self.context
        batch = context.forward.admit(next(self._batches, None))
        if batch is None:
            return True
        context.batch = batch
        return following()

    def read_ahead(self):
        """Start to read the next batches, as far as the reader has them buffered."""
        self._batches.read_ahead()

    def on_pass_end(self, following):
        self._close()
        following()

    def finalize(self, following):
        self._close()
        following()

    def _close(self):
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()

    def state(self):
        if self._resumed is not None:  # the pass that it belongs to has not begun again
            return self._resumed
        position = self._batches.state() if self._batches is not None and self._tracks else None
        return encoded({"position": position, "generators": generators_state()})

    def check(self, state):
        check_generators(state["generators"])
        if state.keys() != {"position", "generators"}:
            raise KeyError(f"the place in the data has {', '.join(state)}")

    def restore(self, state):
        self._resumed = state
        if state["position"] is None and not self.context.forward.has_own_data:
            set_generators(state["generators"])


def _pool(parameters, topology):
    """The given Parameters, or a view of what the session in force holds of the network."""
    if parameters is None:
        parameters = Parameters()
        parameters.bind(topology.parameters, pd.default_session())
    return parameters


class TrainNetwork(pd.training.Step):
    """The steps of a NetworkStep; see ForwardBackward.

    `keeps_rows` is for handlers that ask for layers of the first batch. With `saves_network` a
    checkpoint has the state of the step; else another item saves it.
    """

    def __init__(self, step, keeps_rows=False, saves_network=True):
        self.step, self.keeps_rows, self.saves_network = step, keeps_rows, saves_network

    def initialize(self, context, following):
        if context.forward is not None:
            raise pd.GraphError(
                "ForwardBackward: there is another one around it\n"
                "  hint: a runner trains one network; several run in turn, pass by pass"
            )
        context.forward = self
        self.evaluators = []  # Evaluate items inside
        super().initialize(context, following)
        self._prepare()

    def _prepare(self):
        """Begin the training of the step."""
        step, context = self.step, self.context
        context.session, context.costs = step.session, step.topology.costs
        context.parameters.update({v.name: v for v in step.machine.learned})
        context.settings.update(step.settings())
        step.start_training()
        step.attached = self.evaluators
        self._keeps_rows = self.keeps_rows

    def converter(self, feeding):
        """Return the function that converts the samples of a batch to feeds, for Data."""
        return self.step.converter(feeding)

    def feeder(self, feeding):
        """Return the DataFeeder of the network."""
        return self.step.feeder(feeding)

    @property
    def has_own_data(self):
        """Whether other processes of a job train with it on data of their own."""
        return self.step.has_own_data

    def admit(self, batch):
        """Return the batch to train on for one that was read, None for none: the pass ends."""
        return self.step.admit(batch)

    def on_pass_begin(self, following):
        self.step.start_pass()
        if self.context.batch_id < 0:  # else a resumed training goes on in the middle
            self.step.pass_metrics.reset()
        super().on_pass_begin(following)

    def on_batch_begin(self, following):
        context, step = self.context, self.step
        batch = context.batch
        feeds = step.start_batch(batch, self._keeps_rows, context.rate_factor)
        self._keeps_rows, context.batch_size = False, len(batch)
        if following():
            return True
        if context.wants_gradients:
            context.gradients = step.gradients()
            context.wants_gradients = False
        context.data.read_ahead()
        context.cost = cost = step.run(batch, feeds)
        context.metrics = self._metrics  # called when they are read
        self.count({"cost": cost})
        return False

    def learning_rate(self):
        """Return the learning rate of the last batch, for logs."""
        rate = self.step.updater.last_rate if self.step.updater is not None else 0.0
        factor = self.context.rate_factor
        return rate if factor is None else rate * factor

    def _metrics(self):
        """The metrics of the last batch."""
        metrics = self.step.batch_metrics.metrics()
        for each in self.evaluators:
            metrics.update(each.batch_results())
        return metrics

    def on_pass_end(self, following):
        self.step.finish_pass(self.context.pass_id)
        self.context.pass_metrics.update(self.step.pass_metrics.metrics())
        super().on_pass_end(following)

    def test(self, reader):
        """Return `cost` and metrics over a reader of minibatches, in inference mode."""
        tests = [e.begin_test() for e in self.evaluators]
        result = self.step.test(reader, self.context.data.feeding, tests)
        metrics = {name: value for test in tests for name, value in test.results().items()}
        return {**result.metrics, **metrics, "cost": result.cost}

    def state(self):
        metrics = self.step.pass_metrics.state() if self.context.is_in_pass else None
        state = {**super().state(), "metrics": metrics}
        return {**state, "network": self.step.state()} if self.saves_network else state

    @property
    def kinds(self):
        """What is in its state."""
        kinds = {**super().kinds, "metrics": maybe(list)}
        return {**kinds, "network": dict} if self.saves_network else kinds

    def check(self, state):
        super().check(state)
        if self.saves_network:
            self.step.check(state["network"], "Resume: the checkpoint")
        if state["metrics"] is not None:
            self.step.new_metrics().restore(state["metrics"])

    def restore(self, state):
        if self.saves_network:
            self.step.restore(state["network"])
        super().restore(state)
        if state["metrics"] is not None:
            self.step.pass_metrics.restore(state["metrics"])

    def undoing(self):
        step, sums, metrics = self.step, super().state(), self.step.pass_metrics.state()
        network = step.undoing()
        restore_sums = super().restore

        def undo():
            network()
            restore_sums(sums)
            step.pass_metrics.restore(metrics)

        return undo


class ForwardBackward(TrainNetwork):
    """The cost of each batch; with an Update inside, a training step.

    `cost` is a cost layer or several, `extra_layers` are computed as well, for their evaluators.
    `parameters` are those of the network; without them the session in force holds their values,
    and `paddle.parameters.create(cost)` shows them.
    """

    def __init__(self, cost, extra_layers=None, parameters=None):
        super().__init__(None)
        self.topology, self.parameters = Topology(cost, extra_layers), parameters
        self._optimizer = None

    def initialize(self, context, following):
        self._optimizer = None
        super().initialize(context, following)

    def update_by(self, optimizer):
        """Train with an optimizer, that of an Update inside."""
        if self._optimizer is not None:
            raise pd.GraphError("Update: there is another one for this cost")
        self._optimizer = optimizer

    def _prepare(self):
        if self.step is None:
            pool = _pool(self.parameters, self.topology)
            self.step = runner_step(self.topology, pool, self._optimizer, scales_rates=True)
        super()._prepare()


class Update(RunnerItem):
    """The update of the ForwardBackward around it, by an optimizer of `paddle.optimizer`."""

    def __init__(self, optimizer):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"Update: an optimizer of paddle.optimizer, not {optimizer!r}")
        self.optimizer = optimizer

    def initialize(self, context, following):
        if context.forward is None:
            raise pd.GraphError("Update: there is no cost\n  hint: add a ForwardBackward before it")
        context.forward.update_by(self.optimizer)
        super().initialize(context, following)


class Forward(RunnerItem):
    """The values of output layers for each batch, in inference mode.

    `collect` is a list that gets them: an array for one layer, a list of arrays for several.
    """

    has_own_data = False

    def __init__(self, output_layer, collect=None, parameters=None):
        self.topology = Topology(output_layer)
        self.collect, self.parameters = collect, parameters

    def initialize(self, context, following):
        context.forward = self
        self.topology.check_fit()
        super().initialize(context, following)
        pool, topology = _pool(self.parameters, self.topology), self.topology
        self._session = pool.session
        self._values = pool.values_of(topology.parameters)
        outputs = [fields_of(x) for x in topology.outputs]
        self._targets = [x["id"] if x["value"] is None else x["value"] for x in outputs]

    def converter(self, feeding):
        """Return the function that converts the samples of a batch to feeds, for Data."""
        feeder, layers = self.feeder(feeding), self.topology.data_layers()
        return lambda samples: feed_dict(layers, feeder(samples))

    def feeder(self, feeding):
        """Return the DataFeeder of the network."""
        return self.topology.feeder(feeding)

    def admit(self, batch):
        """Return the batch."""
        return batch

    def on_batch_begin(self, following):
        context = self.context
        feeds, context.batch_size = context.batch.to_feeds(), len(context.batch)
        if following():
            return True
        values = self._session.eval(self._targets, {**self._values, **feeds}, training=False)
        if self.collect is not None:
            self.collect.append(values[0] if len(values) == 1 else values)
        return False


class Device(pd.training.Device):
    """The session whose values the items inside use: by default the one in force.

    A checkpoint has the values of the network with those of its ForwardBackward.
    """

    def state(self):
        return None


class PassEvents(RunnerItem):
    """The events of passes and batches of a trainer, for its event handler."""

    def __init__(self, handler, step):
        self.handler, self.step = handler, step

    def on_pass_begin(self, following):
        self.handler(events.BeginPass(self.context.pass_id))
        following()

    def on_batch_begin(self, following):
        context = self.context
        self.handler(events.BeginIteration(context.pass_id, context.batch_id))
        return following()

    def on_batch_end(self, following):
        result = following()
        context, step = self.context, self.step
        event = events.EndIteration(
            context.pass_id, context.batch_id, context.cost, step.batch_metrics, step.machine
        )
        self.handler(event)
        return result

    def on_pass_end(self, following):
        following()
        step = self.step
        streams = getattr(self.context.data.reader, "unrepeatable", False)
        if self.context.batch_id < 0 and not streams:  # a stream may be stopped at any time
            number = self.context.pass_id
            warn(f"train: the reader gave no batches in pass {number}, so it trained nothing")
        self.handler(events.EndPass(self.context.pass_id, step.pass_metrics, step.machine))


class BackwardEvent(RunnerItem):
    """The event EndForwardBackward of a trainer; its ForwardBackward is around it."""

    def __init__(self, handler, step):
        self.handler, self.step = handler, step

    def on_batch_begin(self, following):
        context, step = self.context, self.step
        with step.gradients_at_hand():
            self.handler(events.EndForwardBackward(context.pass_id, context.batch_id, step.machine))
        return following()
