"""The training step of a network: one batch forward, backward and through the optimizer."""

import functools
import operator
from contextlib import nullcontext
from math import isfinite
from typing import NamedTuple

import numpy as np

import pd_core as pd
from pd_core.run.states import array, by_name, entries, integer, maybe, text

from .. import event as events
from .. import settings
from ..data_feeder import feed_dict
from ..evaluator import Accumulator, LastBatch, fetched
from ..not_finite import NotFiniteWarning, ParameterWatch, first_not_finite, quoted
from ..training.batches import Batches
from ..training.gradient_machine import GradientMachine
from ..warning import warn


class Result(NamedTuple):
    """Results of a batch or a part of it: the sum of its costs, and fetched arrays.

    `statistics` are those of the evaluators, `arrays` those of what is attached to the step.
    """

    cost: float
    statistics: list
    arrays: list


class NetworkStep:
    """The steps of a network with its parameters, and the tests in between.

    Without an optimizer, a step computes the costs and the moving statistics, and trains nothing.
    `check_numerics` None leaves it to `paddle.init`; `scales_rates` says that `rate_factor`s may
    be given. After a step, `batch_metrics` and
    `pass_metrics` have what the evaluators found.
    """

    prints = True  # whether evaluators that are printers print
    has_own_data = False  # whether other processes of a job train with it on data of their own

    def __init__(
        self, topology, parameters, optimizer=None, check_numerics=None, scales_rates=False
    ):
        topology.check_fit()
        self.topology, self.parameters, self.optimizer = topology, parameters, optimizer
        self._inputs = topology.data_layers()
        self._check_numerics = check_numerics
        self._is_warned = False
        self.attached = []  # of Evaluate: `targets`, computed with each step for `receive`
        self._adopt_parameters()
        self._build(scales_rates)
        self._warn_of_no_costs()

    def _adopt_parameters(self):
        """Make the pool a view of the network's variables; draw the values that it lacks."""
        pool, members = self.parameters, self.topology.parameters
        pool.check_read("SGD", members)
        if self.optimizer is not None:
            self.topology.update_from_default(self.optimizer)
        pool.bind(members)
        self.session = pool.session
        pool.update_param_conf(self.topology.proto())
        pool.draw(members)
        pool.use_flat_values()

    def _build(self, scales_rates):
        """Build the targets of a step: the update, the cost and the evaluators' statistics."""
        topology = self.topology
        costs, members = topology.costs, topology.parameters
        self.updater = None
        update = pd.Update(training=True)
        if self.optimizer is not None:
            self.updater = self.optimizer.create_updater(
                True, None, topology.use_sparse_updater(), None, False
            )
            self.updater.init(costs, members, topology.configs, self.session, scales_rates)
            update = self.updater.step
        learned = [] if self.updater is None else self.updater.learned
        self.machine = self._machine(learned)
        self._watch = ParameterWatch(self.machine)
        self.update = update.including(pd.effects(topology.layers))
        values = [pd.reduce_sum(x) for x in topology.outputs if not x.holds_ids]
        total = functools.reduce(operator.add, values) if values else pd.constant(np.float32(0.0))
        self.evaluators = [*topology.evaluators, *topology.printers]
        self.targets = total, fetched(self.evaluators)
        self.training_targets = total, fetched(self.evaluators, costs)

    def _warn_of_no_costs(self):
        """Warn of outputs that count in the reported cost but have no gradient."""
        names = [x.name for x in self.topology.no_costs] if self.optimizer is not None else []
        if names:
            costs = [x.name for x in self.topology.costs]
            warn(
                f"SGD: {quoted(names)} counts in the reported cost only; as in 2017 what is "
                f"minimized are the cost layers themselves: {quoted(costs)}\n"
                "  hint: coeff= of a cost layer scales its gradient"
            )

    def _machine(self, learned):
        return GradientMachine(self.topology, self.parameters, learned)

    def feeder(self, feeding=None):
        """Return the DataFeeder of the network."""
        return self.topology.feeder(feeding)

    def converter(self, feeding=None):
        """Return the function that converts the samples of a batch to feeds."""
        feeder = self.feeder(feeding)
        inputs = self._inputs  # so that the converting thread does not keep the network alive
        return lambda samples: feed_dict(inputs, feeder(samples))

    def settings(self):
        """Return the settings of the optimizer and the size of the network, for logs."""
        sizes = [int(p.config.size) for p in self.topology.parameters]
        found = {"parameters": sum(sizes)}
        if self.optimizer is not None:
            config = {f.name: value for f, value in self.optimizer.proto().ListFields()}
            given = {**config, **self.optimizer.defaults}
            found.update({name: value for name, value in given.items() if value})
            for name in ("batch_size", "algorithm"):  # the same in all trainings
                del found[name]
        return found

    # ---- training

    def start_training(self):
        """Begin to train: schedules and metrics begin anew."""
        self.batch_metrics = LastBatch(self.evaluators, self.prints)
        self.pass_metrics = self.new_metrics()
        self._is_warned = False
        if self.updater is not None:
            self.updater.start()

    def start_pass(self):
        """Begin a pass: its reader is called next."""

    def admit(self, batch):
        """Return the batch to train on for one that was read, None for none: the pass ends."""
        return batch

    def new_metrics(self):
        """Return an Accumulator of the evaluators, of no batches."""
        return Accumulator(self.evaluators, prints=False)

    def start_batch(self, batch, keep_rows, rate_factor=None):
        """Start the step of a batch; return its feeds.

        `keep_rows` copies the tables that are updated in place, for who asks for a layer later.
        """
        self.batch_metrics.reset()
        feeds = batch.to_feeds()
        if self.updater is not None:
            self.updater.start_batch(len(batch))
            feeds.update(self.updater.feeds(rate_factor))
        self.machine.begin(feeds, training=True, keep_rows=keep_rows)
        return feeds

    def run(self, batch, feeds):
        """Run the step of a batch; return its cost per sample, before the update."""
        result = self._train(batch, feeds)
        self._receive(result.arrays)
        return self._count([result]) / len(batch)

    def _train(self, batch, feeds):
        """Run the step of a batch; return its Result."""
        machine = self.machine
        fetches = machine.fetches
        targets = [self.update, *self.training_targets, fetches, self._attached_targets()]
        _, total, statistics, values, arrays = self._eval(targets, feeds, batch)
        machine.end_step(fetches, values)
        cost = float(total)
        if not (isfinite(cost) or self._is_warned):
            self._warn(cost, batch, feeds)
        return Result(cost, statistics, arrays)

    def _attached_targets(self):
        return [e.targets for e in self.attached]

    def _receive(self, arrays):
        """Give the attached evaluations their arrays of a batch."""
        for each, of_batch in zip(self.attached, arrays, strict=True):
            each.receive(of_batch)

    def _count(self, results):
        """Finish a step with the Results of the parts of its batch; return the sum of the costs."""
        if self.updater is not None:
            self.updater.finish_batch()
        for result in results:
            self.batch_metrics.update(result.statistics)
            self.pass_metrics.update(result.statistics)
        return sum(result.cost for result in results)

    def finish_pass(self, pass_id):
        """All batches of a pass were trained on."""
        if self.updater is not None:
            self.updater.finish_pass()
        self._check_parameters(pass_id)

    def test(self, reader, feeding=None, attached=()):
        """Compute cost and metrics over a reader, in inference mode, as a TestResult.

        `attached` receive the values of their `targets`, too.
        """
        if not callable(reader):
            raise TypeError(f"test: the reader is a function that gives batches, not {reader!r}")
        convert = self.converter(feeding)
        metrics, total, samples = Accumulator(self.evaluators, self.prints), 0.0, 0
        with Batches(reader, convert) as batches:
            for batch, results in self._tested(batches, attached):
                for cost, statistics, arrays in results:
                    metrics.update(statistics)
                    for each, of_batch in zip(attached, arrays, strict=True):
                        each.receive(of_batch)
                    total += cost
                samples += len(batch)
        if not samples:
            raise ZeroDivisionError("test: the reader gave no samples")
        return events.TestResult(metrics, total / samples)

    def _tested(self, batches, attached):
        """Yield each batch with a list of the Results of its parts, in inference mode."""
        for batch in batches:
            feeds = batch.to_feeds()
            batches.read_ahead()
            yield batch, [self._test(batch, feeds, attached)]

    def _test(self, batch, feeds, attached):
        self.machine.begin(feeds, training=False)
        targets = [*self.targets, [e.targets for e in attached]]
        cost, statistics, arrays = self._eval(targets, feeds, batch, training=False)
        return Result(float(cost), statistics, arrays)

    def _eval(self, targets, feeds, batch, training=None):
        """Evaluate targets for a batch, checked if it was asked for."""
        checked = self._check_numerics
        if checked is None:
            checked = settings.current().flags.get("check_numerics", False)
        try:
            with pd.check_numerics() if checked else nullcontext():
                return self.session.eval(targets, feeds, training)
        except pd.NumericError as error:
            error.add_note(f"  in {batch.place}")
            raise

    # ---- values that are not finite

    def _warn(self, cost, batch, feeds):
        """Warn, once per training, of a cost that is NaN or infinite."""
        first = first_not_finite(self.machine, feeds)
        names = self._watch.names()
        lines = [f"train: the cost is {cost} in {batch.place}"]
        lines += [] if first is None else [f"the first value that is not finite: {first}"]
        lines += [f"parameters that are not finite after it: {quoted(names)}"] if names else []
        self._warn_once(lines)

    def _check_parameters(self, pass_id):
        """Warn of parameters that are not finite; once per pass, since it reads all of them."""
        names = [] if self._is_warned else self._watch.names()
        if names:
            what = f"parameters are not finite: {quoted(names)}"
            self._warn_once([f"train: at the end of pass {pass_id} {what}"])

    def _warn_once(self, lines):
        self._is_warned = True
        hint = "hint: SGD(..., check_numerics=True) stops at the operator where it begins"
        warn(NotFiniteWarning("\n  ".join([*lines, hint])))

    # ---- gradients

    def gradients_at_hand(self):
        """Return a context in which `Parameters.get_grad` computes those of the started batch.

        They are computed on request only: the step itself does not output its gradients.
        """
        return self.parameters.gradients_from(self._gradient_value)

    def gradients(self):
        """Compute {name: gradient} of all trained parameters for the started batch."""
        found = {} if self.updater is None else self.updater.gradients
        by_name = {name: self._gradient_of(name) for name in found}
        return dict(zip(by_name, self.machine.gradients(by_name.values()), strict=True))

    def _gradient_value(self, name):
        """Return the gradient of a parameter, flat, for the random draws of the coming step."""
        gradient = self._gradient_of(name)
        if gradient is None:
            return np.zeros(int(self.parameters.__param_conf__[name].size), np.float32)
        return self.machine.gradients([gradient])[0].reshape(-1)

    def _gradient_of(self, name):
        """Return the gradient of a parameter as a Variable of its shape, or None."""
        found = {} if self.updater is None else self.updater.gradients
        if isinstance(found.get(name), pd.optimizers.RowGradient):
            variables = {p.config.name: p.variable for p in self.topology.parameters}
            (found[name],) = pd.gradients(self.topology.costs, [variables[name]])
        return found.get(name)

    # ---- checkpoints

    def variables(self):
        """Return {name: Variable} of parameters and of the optimizer's state."""
        named = {f"parameters/{p.config.name}": p.variable for p in self.topology.parameters}
        if self.updater is not None:
            named.update({f"optimizer/{k}": v for k, v in self.updater.variables().items()})
        return named

    def state(self):
        """Return all that later steps depend on, for `restore`."""
        session = self.session
        return {
            "method": None if self.optimizer is None else type(self.optimizer).__name__,
            "seed": session.seed,
            "draws": {str(stream): count for stream, count in session.draws.items()},
            "values": {name: session.get(v) for name, v in self.variables().items()},
            "updater": None if self.updater is None else self.updater.state(),
        }

    def check(self, state, where):
        """Raise a GraphError if a `state` is not one of the same network."""
        found = entries("the step", state, _KINDS)
        variables, values = self.variables(), found["values"]
        method = None if self.optimizer is None else type(self.optimizer).__name__
        errors = [] if found["method"] == method else [f"trained by {found['method']}: {method}"]
        for name in sorted(variables.keys() | values.keys()):
            here = there = "nothing"
            if name in variables:
                here = f"{variables[name].dtype}{list(variables[name].dims)}"
            if name in values:
                there = f"{values[name].dtype}{list(values[name].shape)}"
            errors += [] if here == there else [f"{name} is {there}: {here}"]
        if errors:
            listed = "\n  ".join(errors[:8])
            raise pd.GraphError(f"{where} is of another network; in it, and here:\n  {listed}")
        if self.updater is not None:
            self.updater.check(found["updater"])

    def restore(self, state):
        """Go back to a `state` of the same network."""
        session, found = self.session, entries("the step", state, _KINDS)
        session.seed = found["seed"]
        session.draws.clear()
        session.draws.update(found["draws"])
        session.load_values({v: found["values"][name] for name, v in self.variables().items()})
        if self.updater is not None:
            self.updater.restore(state["updater"])

    def undoing(self):
        """Return a function that takes back what `restore` changes outside of the session."""
        if self.updater is None:
            return lambda: None
        state = self.updater.state()
        return lambda: self.updater.restore(state)


def _draws(counts):
    """The numbers of random draws by stream."""
    return {int(stream): n for stream, n in by_name(integer)(counts).items()}


_KINDS = {"method": maybe(text), "seed": integer, "draws": _draws, "values": by_name(array)}
_KINDS["updater"] = maybe(dict)
