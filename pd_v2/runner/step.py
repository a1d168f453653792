"""The training step of a network: one batch forward, backward and through the optimizer."""

import functools
import operator
from math import isfinite

import numpy as np

import pd_core as pd
from pd_core.distributed.alone import add_participant, call
from pd_core.distributed.empty import update_without_batch
from pd_core.distributed.lookups import look_up
from pd_core.run.states import array, by_name, entries, integer, maybe, text
from pd_core.training.precision import Precision, lost_scale
from pd_core.training.ranks import job

from .. import event as events
from .. import settings
from ..evaluator import Accumulator, LastBatch, fetched, gradients_of_layers
from ..job.table_files import load_tables
from ..layer.resized import Networks
from ..not_finite import NotFiniteWarning, ParameterWatch, first_not_finite, quoted
from ..training.batches import Batches, converter
from ..training.gradient_machine import GradientMachine
from ..warning import warn


class NetworkStep:
    """The steps of a network with its parameters, and the tests in between.

    Without an optimizer, a step computes the costs and the moving statistics, and trains nothing.
    `check_numerics` and `precision` None leave it to `paddle.init`; `scales_rates` says that
    `rate_factor`s may be given. After a step, `batch_metrics` and `pass_metrics` have what the
    evaluators found.

    All ranks of an MPI job take their steps together. With `is_local` they read the same batches,
    and each computes its part of the samples; else each reads batches of its own, and those whose
    pass has ended take part without samples until all have ended. Either way the gradients are
    added up, and costs and metrics are of the samples of all ranks. Moving statistics are the means
    over the ranks, by numbers of samples.
    """

    def __init__(
        self,
        topology,
        parameters,
        optimizer=None,
        check_numerics=None,
        scales_rates=False,
        is_local=True,
        precision=None,
    ):
        if pd.distributed.world_size() > 1 and pd.distributed.reduction() != "sum":
            raise ValueError(
                'SGD: trainers of 2017 add gradients up, but init(reduce="mean") was called\n'
                '  hint: pd.distributed.init(reduce="sum"), or start the script by pd-v2'
            )
        topology.check_fit()
        self.topology, self.parameters, self.optimizer = topology, parameters, optimizer
        self.is_local, self._check_numerics = is_local, check_numerics
        flags = settings.current().flags
        self.precision = Precision(precision or flags.get("precision", "float32"))
        self._is_first = pd.distributed.rank() == 0  # where evaluators that are printers print
        self._is_warned = False
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
        topology, cast = self.topology, self.precision.cast
        if self.precision.dtype is not None:
            self.precision.check(self.session)
        costs, members = cast(topology.costs), topology.parameters
        self.updater = None
        update = pd.Update(training=True)
        if self.optimizer is not None:
            self.updater = self.optimizer.create_updater(
                True, None, topology.use_sparse_updater(), None, False
            )
            scales = scales_rates, self.precision.scales
            self.updater.init(costs, members, topology.configs, self.session, *scales)
            update = self.updater.step
        learned = [] if self.updater is None else self.updater.learned
        networks = Networks(topology)
        self.machine = GradientMachine(topology, self.parameters, learned, networks)
        self._watch = ParameterWatch(self.machine)
        self._asked = set()  # the parameters whose gradients handlers have asked for
        self._gradients = {}  # those of the started batch, by name
        effects = pd.effects(cast(topology.layers))
        self.update = update.including(effects)
        assigned = dict.fromkeys(a.variable for a in effects)
        self._moving = [v for v in assigned if v.dtype.kind == "f"]
        values = [pd.reduce_sum(x) for x in cast([x for x in topology.outputs if not x.holds_ids])]
        total = functools.reduce(operator.add, values) if values else pd.constant(np.float32(0.0))
        self.tables = [p.table for p in members if p.table is not None]
        # what reads rows of tables, the same for all ranks and steps
        outer = [x for x in topology.costs if x.within is None]
        self._reading = [*topology.layers, *outer] if self.tables else []
        names = ", ".join(table.name for table in self.tables)
        if self.tables and pd.distributed.local_steps() > 1:
            raise pd.GraphError(
                f"SGD: local steps: the rows of {quoted([t.name for t in self.tables])} are spread "
                "over the ranks, and their gradients travel in every step\n"
                "  hint: without --local-steps, or without sparse_update=True"
            )
        self._key = add_participant(self, f"trainer of {names}") if self.tables else None
        self.evaluators = [*topology.evaluators, *topology.printers]
        self.targets = total, [cast(each) for each in fetched(self.evaluators)]
        layers = list(dict.fromkeys(x for e in self.evaluators for x in e.gradients))
        printed = gradients_of_layers(layers, topology.costs)
        trained = fetched(self.evaluators, printed)
        is_plain = self.precision.dtype is None and not self.tables
        # no method: the machine does not keep the step alive
        networks.complete = functools.partial(
            _complete, topology.costs, self.updater, printed, is_plain
        )
        self.training_targets = total, [cast(each) for each in trained]
        self._step_targets = [self.update, *self.training_targets, []]  # the last ones of others

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
        """Begin to train: schedules and metrics begin anew, all ranks from the values of rank 0."""
        if pd.distributed.world_size() > 1:
            with self.session:
                pd.distributed.broadcast(self._whole_variables().values())
        self.batch_metrics = LastBatch(self.evaluators, self._is_first)
        self.pass_metrics = self.new_metrics()
        self._is_warned = False
        if self.updater is not None:
            self.updater.start()

    def new_metrics(self):
        """Return an Accumulator of the evaluators, of no batches."""
        return Accumulator(self.evaluators, prints=False)

    def start_batch(self, batch, samples, ranks=None, keep_rows=False, rate_factor=None):
        """Start the step of a batch, None for one of other ranks; of all `samples` in it.

        `keep_rows` copies the tables that are updated in place, for who asks for a layer later.
        """
        self.batch_metrics.reset()
        self._batch, self._ranks, self._found = batch, ranks, None
        self._gradients = {}
        self._feeds = None if batch is None else batch.to_feeds()
        if self.tables:  # before the rate, for ranks that save meanwhile
            self._look_up(self._feeds, training=True)
        self._rates = {}
        if self.updater is not None:
            self.updater.start_batch(samples)
            self._rates = self.updater.feeds(rate_factor)
        if self._feeds is not None:
            self._feeds.update(self._rates)
        if batch is not None:
            shared = ranks if self.is_local else None
            with batch.named():
                self.machine.begin(self._feeds, training=True, keep_rows=keep_rows, ranks=shared)

    def _look_up(self, feeds, training, attached=()):
        """Add the rows of tables to the feeds of a batch, from the ranks that own them.

        All ranks take part, those without samples with None. From then on the batch is computed
        without the others, from the rows as they are now.
        """
        if not self.tables:
            return
        targets = [self._reading, [e.targets for e in attached]]
        rows = look_up(self.session, targets, feeds, training)
        if feeds is not None:
            feeds.update(rows)

    def run(self, attached=()):
        """Run the started step; return its cost per sample of this rank, before the update.

        `attached`, of Evaluate, receive the values of their `targets`.
        """
        cost, own, arrays = 0.0, None, [None] * len(attached)
        if self._feeds is not None:
            targets = self._step_targets
            if attached:
                targets = [*targets[:-1], [e.targets for e in attached]]
            _, total, own, arrays = self._evaluated(self._batch, self.machine.step, targets)
            total = total.item()
            if not (isfinite(total) or self._is_warned):
                self._warn(total)
            cost = total / self._own_samples()
        elif self.updater is not None:
            with self.session:
                if self.tables:  # it has taken part in the lookups
                    update_without_batch([self.update], self._rates)
                else:
                    pd.distributed.empty_step(self._update_without_feeds(), self._rates)
        if self.updater is not None:
            self.updater.finish_batch()
        joins = self._ranks is not None
        if joins:  # `join` follows
            self._found = own
        else:
            self._add(own)
        if attached:
            for each, received in zip(attached, arrays, strict=True):
                each.receive(received, joins)
        return cost

    def _update_without_feeds(self):
        """The update of the other ranks, who may have read this batch, with images of any size."""
        if self._batch is None:
            return self.update
        return self.machine.networks.of(self._batch.no_feeds()).of(self.update)

    def _own_samples(self):
        return len(self._batch) if self._ranks is None else self._ranks.samples

    def finish_pass(self, pass_id):
        """All batches of a pass were trained on."""
        if self.tables and pd.distributed.world_size() > 1:
            pd.distributed.barrier()  # another rank may save what the last batch has left
        if self.updater is not None:
            self.updater.finish_pass()
        if self._is_first or self.tables:  # parameters are the same on all ranks, tables are not
            self._check_parameters(pass_id)

    # ---- files

    def saving(self, write):
        """Call `write` while the pool has what a file of the trained parameters has.

        A rank may do it alone: the others take part where they next wait for it.
        """
        call(self._key, "save_parameter_to_tar", "", lambda: self._save(write))

    def take_part(self, what, name):
        """Send the rows of this rank for a file that another one writes."""
        self._save(lambda: self.parameters.take_part("to_tar", ""))

    def _save(self, write):
        self.updater.catch_up()
        with self.updater.applied():
            write()

    # ---- the evaluators' part of it, as the Runner has it of Evaluate

    def counted(self):
        """Return samples, statistics and moving statistics of this rank, None for no samples."""
        if self._found is None:
            return None
        return self._own_samples(), self._found, [self.session.get(v) for v in self._moving]

    def join(self, counted):
        """Take what all ranks have counted in the last batch."""
        parts = [part for part in counted if part is not None]
        total = sum(samples for samples, _, _ in parts)
        for k, v in enumerate(self._moving):
            mean = sum(values[k].astype(np.float64) * (n / total) for n, _, values in parts)
            self.session.set(v, mean.astype(v.dtype))
        for _, statistics, _ in parts:
            self._add(statistics)

    def _add(self, statistics):
        self.batch_metrics.update(statistics)
        self.pass_metrics.update(statistics)

    def batch_results(self):
        """Return the metrics of the last batch."""
        return self.batch_metrics.metrics()

    # ---- tests

    def test(self, reader, feeding=None, attached=()):
        """Compute cost and metrics over a reader, in inference mode, as a TestResult.

        `attached` receive the values of their `targets`, too. Ranks with batches of their own test
        alone.
        """
        if not callable(reader):
            raise TypeError(f"test: the reader is a function that gives batches, not {reader!r}")
        ranks = job(splits=True) if self.is_local else None
        others = job() if self.tables and not self.is_local else None
        if ranks is not None:
            ranks.settle(self.session)
        metrics, total, samples = Accumulator(self.evaluators, self._is_first), 0.0, 0
        with Batches(reader, converter(self.topology, feeding, ranks)) as batches:
            for batch in batches if others is None else _with_others(batches, others):
                feeds = None if batch is None else batch.to_feeds()
                self._look_up(feeds, False, attached)
                if batch is None:
                    continue
                batches.read_ahead()
                with batch.named():
                    self.machine.begin(feeds, training=False, ranks=ranks)
                own = None if feeds is None else self._test(batch, feeds, attached)
                parts = [own] if ranks is None else ranks.gather_parts(len(batch), own)
                for cost, found, arrays in parts:
                    metrics.update(found)
                    for each, of_batch in zip(attached, arrays, strict=True):
                        each.receive(of_batch)
                    total += cost
                samples += len(batch)
            if ranks is not None:
                ranks.end(batches.count)
        if not samples:
            raise ZeroDivisionError("test: the reader gave no samples")
        return events.TestResult(metrics, total / samples)

    def _test(self, batch, feeds, attached):
        """The sum of the costs, statistics, and arrays for what is attached, of a batch."""
        targets = [*self.targets, [e.targets for e in attached]]
        cost, found, arrays = self._evaluated(batch, self.machine.test, targets)
        return float(cost), found, arrays

    def _evaluated(self, batch, function, *args, **options):
        """Return what a function that evaluates a batch returns; check its values if asked to."""
        checked = self._check_numerics
        if checked is None:
            checked = settings.current().flags.get("check_numerics", False)
        try:
            if not checked:
                return function(*args, **options)
            with pd.check_numerics():
                return function(*args, **options)
        except pd.NumericError as error:
            error.add_note(f"  in {batch.place}")
            raise

    # ---- values that are not finite

    def _warn(self, cost):
        """Warn, once per training, of a cost that is NaN or infinite."""
        first = first_not_finite(self.machine, self._feeds)
        names = self._watch.names()
        lines = [f"train: the cost is {cost} in {self._batch.place}"]
        lines += [] if first is None else [f"the first value that is not finite: {first}"]
        lines += [f"parameters that are not finite after it: {quoted(names)}"] if names else []
        self._warn_once(lines)

    def _check_parameters(self, pass_id):
        """Warn of parameters that are not finite; once per pass, since it reads all of them."""
        names = [] if self._is_warned else self._watch.names()
        if self.tables:
            names = sorted(set().union(*pd.distributed.allgather(names)))
        lost = [*filter(None, map(lost_scale, self.loss_scales()))]
        what = f"parameters are not finite: {quoted(names)}" if names else next(iter(lost), None)
        if what is not None and self._is_first and not self._is_warned:
            self._warn_once([f"train: at the end of pass {pass_id} {what}"])

    def loss_scales(self):
        """Return the scales of the costs of mixed_float16, none of another precision."""
        scale = None if self.updater is None else self.updater.loss_scale
        return [] if scale is None else [float(self.session.get(scale))]

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
        """Compute {name: gradient} of all trained parameters for this rank's started batch.

        Of tables whose rows are spread over ranks, of the rows that the batch reads.
        """
        found = {} if self.updater is None else self.updater.gradients
        if self._feeds is None:
            return {name: self._no_gradient(name) for name in found}
        by_name = {name: self._gradient_of(name) for name in found}
        arrays = self.machine.gradients(
            g.values if isinstance(g, pd.optimizers.RowGradient) else g for g in by_name.values()
        )
        return dict(zip(by_name, arrays, strict=True))

    def _gradient_value(self, name):
        """Return the gradient of a parameter, flat, for the random draws of the coming step."""
        gradient = None if self._feeds is None else self._gradient_of(name)
        value = self._no_gradient(name)
        if isinstance(gradient, pd.optimizers.RowGradient):
            rows, values = self.machine.gradients([gradient.rows, gradient.values])
            value.reshape(-1, values[0].size if len(values) else 1)[rows] = values
        elif gradient is not None:
            value = self._dense_gradient(name).reshape(-1).copy()
        is_shared = self._ranks is not None and self.is_local
        return pd.distributed.allreduce(value) if is_shared else value

    def _dense_gradient(self, name):
        """Return the gradient of a parameter from those at hand, which are computed together.

        Who asks for a second one, in any batch, is given all from then on.
        """
        if name not in self._gradients:
            self._asked.add(name)
            names = [*self.updater.gradients] if len(self._asked) > 1 else [name]
            found = {n: self._gradient_of(n) for n in names}
            found = {n: g for n, g in found.items() if isinstance(g, pd.Variable)}
            self._gradients = dict(zip(found, self.machine.gradients(found.values()), strict=True))
        return self._gradients[name]

    def _no_gradient(self, name):
        return np.zeros(int(self.parameters.__param_conf__[name].size), np.float32)

    def _gradient_of(self, name):
        """Return the gradient of a parameter as a Variable of its shape, or None.

        Of a table whose rows are spread over ranks it is a RowGradient.
        """
        found = {} if self.updater is None else self.updater.gradients
        variables = {p.config.name: p.variable for p in self.topology.parameters}
        is_by_rows = isinstance(found.get(name), pd.optimizers.RowGradient)
        if is_by_rows and not variables[name].is_shard:
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
        tables = {name: v.name for name, v in self.variables().items() if v.is_shard}
        return {
            "method": None if self.optimizer is None else type(self.optimizer).__name__,
            "seed": session.seed,
            "draws": {str(stream): count for stream, count in session.draws.items()},
            "values": {name: session.get(v) for name, v in self._whole_variables().items()},
            "updater": None if self.updater is None else self.updater.state(),
            **({"tables": tables} if tables else {}),
        }

    def _whole_variables(self):
        """The `variables` that a checkpoint has with the state, without rows of tables."""
        return {name: v for name, v in self.variables().items() if not v.is_shard}

    def check(self, state, where):
        """Raise a GraphError if a `state` is not one of the same network."""
        found = entries("the step", state, _KINDS, _LATER)
        variables, values = self.variables(), found["values"]
        kept = set(found.get("tables", ()))  # beside the state
        lacking = kept - variables.keys()
        variables = {name: v for name, v in variables.items() if name not in kept}
        method = None if self.optimizer is None else type(self.optimizer).__name__
        errors = [] if found["method"] == method else [f"trained by {found['method']}: {method}"]
        errors += [f"{name} is rows of a table: nothing" for name in sorted(lacking)]
        for name in sorted(variables.keys() | values.keys()):
            here = there = "nothing"
            if name in variables:
                here = f"{variables[name].dtype}{_whole_dims(variables[name])}"
            if name in values:
                there = f"{values[name].dtype}{list(values[name].shape)}"
            errors += [] if here == there else [f"{name} is {there}: {here}"]
        if errors:
            listed = "\n  ".join(errors[:8])
            raise pd.GraphError(f"{where} is of another network; in it, and here:\n  {listed}")
        if self.updater is not None:
            self.updater.check(found["updater"])

    def restore(self, state, where=None):
        """Go back to a `state` of the same network; its tables are in the checkpoint `where`."""
        session, found = self.session, entries("the step", state, _KINDS, _LATER)
        session.seed = found["seed"]
        session.draws.clear()
        session.draws.update(found["draws"])
        variables, values = self.variables(), found["values"]
        session.load_values(
            {v: _part_of(values[name], v) for name, v in variables.items() if name in values}
        )
        if found.get("tables"):
            load_tables(where, found["tables"], variables, session)
        if self.updater is not None:
            self.updater.restore(state["updater"])

    def undoing(self):
        """Return a function that takes back what `restore` changes outside of the session."""
        if self.updater is None:
            return lambda: None
        state = self.updater.state()
        return lambda: self.updater.restore(state)


def _complete(costs, updater, printed, is_plain, network):
    """Give a network for images of another size the gradients of its own costs.

    All else that a step evaluates is built on these and on layers.
    """
    if not is_plain:
        raise pd.GraphError(
            f"images {network.shown}: the data layer declares another size, which can differ "
            "with precision='float32' and without tables that are spread over ranks only"
        )
    costs = network.of(costs)
    if updater is not None:
        for old, new in updater.gradients_for(costs):
            network.replace(old, new)
    found = gradients_of_layers([network.layer(x) for x in printed], costs)
    for old, new in zip(printed.values(), found.values(), strict=True):
        network.replace(old, new)


def _with_others(batches, ranks):
    """Yield batches; None as long as other ranks have some and this one has not."""
    batches = iter(batches)
    while True:
        batch = next(batches, None)
        if not any(ranks.gather(batch is not None)):
            return
        yield batch


def _whole_dims(v):
    """The sizes that a value has where one process has all of it."""
    return [v.storage.table.height, *v.dims[1:]] if v.is_shard else list(v.dims)


def _part_of(value, v):
    """What a Variable holds of a value that one process has saved."""
    return v.storage.table.own_part(value) if v.is_shard else value


def _draws(counts):
    """The numbers of random draws by stream."""
    return {int(stream): n for stream, n in by_name(integer)(counts).items()}


_KINDS = {"method": maybe(text), "seed": integer, "draws": _draws, "values": by_name(array)}
_KINDS |= {"updater": maybe(dict), "tables": by_name(text)}
_LATER = ("tables",)  # what older checkpoints lack
