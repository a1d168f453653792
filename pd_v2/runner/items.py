"""The items of a network of 2017's layers: its data, its step, and inference."""

from zlib import crc32

import pd_core as pd
from pd_core import training
from pd_core.run.states import maybe
from pd_core.training import RunnerItem
from pd_core.training.generators import (
    check_generators,
    encoded,
    generators_state,
    set_generators,
)
from pd_core.training.precision import checked_precision

from .. import event as events
from ..job.joining import is_joined, share_folder
from ..optimizer import Optimizer
from ..parameters import Parameters
from ..reader.protocol import require_reader
from ..topology import Topology
from ..training.batches import Batches, converter
from ..training.layer_outputs import fields_of
from ..warning import warn
from .step import NetworkStep

_HINT = (
    "  hint: with is_local=True every rank reads all samples, in the same order; is_local=False is "
    "for readers that give each trainer samples of its own"
)


class Data(training.Data):
    """The minibatches of a reader, lists of samples, converted for the network inside.

    `feeding` maps data layers to fields of a sample. A checkpoint has the place in the data, if it
    `tracks` that, and the states of Python's and NumPy's global random generators. With `split` all
    ranks of a job read the same batches, of which each converts its samples, else batches of their
    own; by default as the program was started.
    """

    def __init__(self, reader, feeding=None, tracks=True, split=None):
        require_reader("Data", reader)
        super().__init__(reader, split=is_joined() if split is None else split)
        self.feeding = feeding
        # what is read from the network, say, goes on with what comes next
        self._tracks = tracks and not getattr(reader, "unrepeatable", False)

    def initialize(self, context, following):
        super().initialize(context, following)
        forward = context.forward
        if forward is None:
            raise pd.GraphError("Data: there is no network\n  hint: add a ForwardBackward")
        if hasattr(self.reader, "attach"):  # one that takes commands for the training
            self.reader.attach(context, forward.topology.feeder(self.feeding), self.feeding)
        ranks = context.ranks if self.split and forward.takes_empty else None
        self._convert = converter(forward.topology, self.feeding, ranks)

    def opened(self, position=None):
        number = self.context.pass_id
        return Batches(self.reader, self._convert, number, self._tracks, position)

    def resumed(self, state):
        if state["position"] is None:
            return self.begun()
        if self.context.ranks is not None and not self.split:  # the position is that of rank 0
            batches = self.begun()
            batches.skip(self.context.batch_id + 1)
            return batches
        batches = self.opened(state["position"])
        set_generators(state["generators"], but=batches.draws_ahead)
        return batches

    def measured(self, batch):
        if self.context.ranks is not None:  # else the step names a batch that is no list
            batch.check()
        return batch, len(batch)

    def digest(self, feeds):
        return trace(feeds.samples)

    def rows(self, batch, samples, rows):
        return batch  # which converts those of this rank

    def on_batch_begin(self, following):
        try:
            return super().on_batch_begin(following)
        except pd.GraphError as error:
            if "the ranks disagree" in str(error):
                error.add_note(_HINT)
            raise

    def read_ahead(self):
        """Start to read the next batches, as far as the reader has them buffered."""
        self._iterator.read_ahead()

    def state(self):
        if self._resumed is not None:  # the pass that it belongs to has not begun again
            return self._resumed
        is_placed = self._iterator is not None and self._tracks
        position = self._iterator.state() if is_placed else None
        return encoded({"position": position, "generators": generators_state()})

    def check(self, state):
        check_generators(state["generators"])
        if state.keys() != {"position", "generators"}:
            raise KeyError(f"the place in the data has {', '.join(state)}")

    def restore(self, state):
        self._resumed = state
        if state["position"] is None and (self.split or self.context.ranks is None):
            set_generators(state["generators"])


def trace(samples):
    """Return a number that tells other samples apart, None if they have no text of their own."""
    text = repr(samples[0]) if isinstance(samples, list | tuple) else ""
    return None if " at 0x" in text else crc32(text.encode(errors="surrogatepass"))


def _pool(parameters, topology):
    """The given Parameters, or a view of what the session in force holds of the network."""
    if parameters is None:
        parameters = Parameters()
        parameters.bind(topology.parameters, pd.default_session())
    return parameters


class TrainNetwork(training.Step):
    """The steps of a NetworkStep; see ForwardBackward.

    `keeps_rows` is for handlers that ask for layers of the first batch. With `saves_network` a
    checkpoint has the state of the step; else another item saves it.
    """

    takes_empty = saves_values = True

    def __init__(self, step, keeps_rows=False, saves_network=True):
        self.step, self.keeps_rows, self.saves_network = step, keeps_rows, saves_network
        self._tables_in = None
        self.topology = step.topology

    def initialize(self, context, following):
        if context.forward is not None:
            raise pd.GraphError(
                "ForwardBackward: there is another one around it\n"
                "  hint: a runner trains one network; several run in turn, pass by pass"
            )
        context.forward = self
        self.evaluators = []
        super().initialize(context, following)
        self._prepare()

    def _prepare(self):
        """Begin the training of the step."""
        step, context = self.step, self.context
        context.session, context.costs = step.session, step.topology.costs
        context.parameters.update({v.name: v for v in step.machine.learned})
        context.settings.update(step.settings())
        if step.tables:  # each rank writes its rows to checkpoints
            for item in context.runner.items:
                if isinstance(item, training.SaveEvery):
                    share_folder(item.path)
        step.start_training()
        self._keeps_rows = self.keeps_rows

    def every_evaluator(self):
        return [self.step, *self.evaluators]

    def on_pass_begin(self, following):
        if self.context.batch_id < 0:  # else a resumed training goes on in the middle
            self.step.pass_metrics.reset()
        super().on_pass_begin(following)

    def on_batch_begin(self, following):
        c, keeps_rows = self.context, self._keeps_rows
        self.step.start_batch(c.batch, c.batch_size, c.ranks, keeps_rows, c.rate_factor)
        self._keeps_rows = False
        return super().on_batch_begin(following)

    def train_batch(self):
        context, step = self.context, self.step
        if context.wants_gradients:
            context.gradients = step.gradients()
        context.data.read_ahead()
        return {"cost": step.run(self.evaluators)}

    def loss_scales(self):
        return self.step.loss_scales()

    def learning_rate(self):
        """Return the learning rate of the last batch, for logs."""
        rate = self.step.updater.last_rate if self.step.updater is not None else 0.0
        factor = self.context.rate_factor
        return rate if factor is None else rate * factor

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

    def load_tables(self, path, ranks):
        """Note the checkpoint that has the tables of a state, which `restore` loads."""
        self._tables_in = path

    def check(self, state):
        super().check(state)
        if self.saves_network:
            self.step.check(state["network"], "Resume: the checkpoint")
        if state["metrics"] is not None:
            self.step.new_metrics().restore(state["metrics"])

    def restore(self, state):
        if self.saves_network:
            self.step.restore(state["network"], self._tables_in)
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
    and `paddle.parameters.create(cost)` shows them. `precision="mixed_float16"` computes products
    in float16, as in `pd_core.training.ForwardBackward`; by default `paddle.init(precision=...)`
    decides.
    """

    def __init__(self, cost, extra_layers=None, parameters=None, precision=None):
        if precision is not None:
            checked_precision(precision)
        self._precision = precision
        self.step, self.keeps_rows, self.saves_network = None, False, True
        self._tables_in = None
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
            self.step = NetworkStep(
                self.topology,
                pool,
                self._optimizer,
                scales_rates=True,
                is_local=is_joined(),
                precision=self._precision,
            )
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

    takes_empty = False  # all rows are computed on all ranks

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

    def on_batch_begin(self, following):
        feeds = self.context.batch.to_feeds()
        if following():
            return True
        values = self._session.eval(self._targets, {**self._values, **feeds}, training=False)
        if self.collect is not None:
            self.collect.append(values[0] if len(values) == 1 else values)
        return False


class PassEvents(RunnerItem):
    """The events of passes and batches of a trainer, for its event handler."""

    def __init__(self, handler, step):
        self.handler, self.step = handler, step

    def on_pass_begin(self, following):
        self.handler(events.BeginPass(self.context.pass_id))
        following()

    def on_batch_begin(self, following):
        context = self.context
        if context.batch is not None:  # else it is one of other trainers alone
            self.handler(events.BeginIteration(context.pass_id, context.batch_id))
        return following()

    def on_batch_end(self, following):
        result = following()
        context, step = self.context, self.step
        if context.batch is not None:
            numbers = context.pass_id, context.batch_id, context.cost
            self.handler(events.EndIteration(*numbers, step.batch_metrics, step.machine))
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
        self._gradients_at_hand = step.gradients_at_hand()

    def on_batch_begin(self, following):
        context, step = self.context, self.step
        if context.batch is not None:
            event = events.EndForwardBackward(context.pass_id, context.batch_id, step.machine)
            with self._gradients_at_hand:
                self.handler(event)
        return following()
