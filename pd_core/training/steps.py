"""The callbacks that compute: costs with their updates, and inference."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..distributed import empty_step
from ..gradients import gradients
from ..graph.errors import GraphError
from ..graph.site import warn
from ..graph.update import Update as Assignments
from ..graph.update import effects
from ..graph.variable import Variable
from ..optimizers.base import Optimizer
from ..optimizers.loss_scaling import LossScaler
from ..run.parameters import stored_variables
from ..run.states import Kind, by_name, each, entries, integer, number, text
from .batches import batch_size_of, tested_batches
from .context import RunnerContext
from .evaluate import means_of, tested
from .item import Following, Initialize, RunnerItem
from .precision import Precision, lost_scale
from .ranks import is_writer

Cost = Variable | Sequence[Variable]


class Forward(RunnerItem):
    """The values of Variables for each batch, in inference mode.

    `collect` is a list that gets them: an array for one target, a list of arrays for several.
    """

    def __init__(self, targets: Any, collect: list[Any] | None = None):
        self.targets, self.collect = targets, collect

    def on_batch_begin(self, following: Following) -> Any:
        context = self.context
        if following():
            return True
        values = context.session.eval(self.targets, context.feeds, training=False)
        has_none = context.ranks is not None and context.ranks.samples == 0
        if self.collect is not None and not has_none:
            self.collect.append(values)
        return False


class Step(RunnerItem):
    """Base of the items that train: the numbers of each batch, their means over a pass, and tests.

    A subclass defines `train_batch`, and `test_batch` for tests; in a job this base makes of their
    numbers those of all ranks.
    """

    # whether a batch without samples of this rank is told apart: `context.ranks.samples` is 0
    takes_empty = False
    # whether its state has the values of the session
    saves_values = False
    # whether its updates multiply their rates by `context.rate_factor`
    scales_rate = True
    # names of parameters and statistics that are built with the next batch of a resumed training
    unbuilt: Sequence[str] = ()
    # of Evaluate, which attach themselves; None for a step that gives them no arrays
    evaluators: Any = None

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self._sums: dict[str, float] = {}
        self._samples = 0
        super().initialize(context, following)

    def every_evaluator(self) -> list[Any]:
        """Return what counts metrics of the arrays of a batch."""
        return self.evaluators or []

    # ---- batches

    def on_batch_begin(self, following: Following) -> Any:
        context = self.context
        if following():
            return True
        numbers = self.train_batch()
        if context.ranks is not None:
            every, own = self.every_evaluator(), context.batch_size
            numbers, context.batch_size = context.ranks.all_reduce(numbers, every, own)
        self.count(numbers)
        context.cost = numbers["cost"]
        context.metrics = partial(self.batch_metrics, numbers)  # called when they are read
        if context.wants_gradients:
            context.wants_gradients = False
        return False

    def train_batch(self) -> dict[str, float]:
        """Take a training step; return its numbers, `cost` among them."""
        raise NotImplementedError(f"{type(self).__name__} does not define train_batch()")

    def batch_metrics(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics of the last batch, which had these numbers."""
        found = {name: value for name, value in numbers.items() if name != "cost"}
        for evaluator in self.every_evaluator():
            found.update(evaluator.batch_results())
        return found

    def variables(self) -> dict[str, Variable]:
        """Return by name what inference needs: what is trained, and what the costs depend on."""
        found = {v.name: v for v in stored_variables(self.context.costs)}
        return {**self.context.parameters, **found}

    def has_updated(self) -> bool:
        """Return whether the last batch was one that updates, not one that adds to gradients."""
        return True

    def loss_scales(self) -> list[float]:
        """Return the scales of the costs of mixed_float16, none of another precision."""
        return []

    # ---- tests

    def test(self, reader: Any) -> dict[str, float]:
        """Return `cost` and the metrics over a reader of batches, in inference mode."""
        if self.context.ranks is not None:
            self.context.ranks.settle(self.context.session)
        tests = [e.begin_test() for e in self.every_evaluator()]
        return tested(self.test_batches(reader), self.test_batch, tests, self.context.ranks)

    def test_batches(self, reader: Any) -> Iterable[Any]:
        """Return the batches of a test."""
        return tested_batches(reader)

    def test_batch(self, batch: Any) -> tuple[Mapping[str, float], Sequence[Any]]:
        """Return the numbers of a batch of a test, and arrays for each evaluator."""
        raise NotImplementedError(f"{type(self).__name__} does not define test_batch()")

    # ---- passes

    def count(self, numbers: Mapping[str, float]) -> None:
        """Add the numbers of a batch, such as its cost."""
        size, sums = self.context.batch_size, self._sums
        for name, value in numbers.items():
            sums[name] = sums.get(name, 0.0) + value * size
        self._samples += size

    def means(self) -> dict[str, float]:
        """Return the means over the samples of the pass."""
        return {name: total / self._samples for name, total in self._sums.items()}

    def on_pass_begin(self, following: Following) -> None:
        if self.context.batch_id < 0:  # else a resumed training goes on in the middle
            self._sums, self._samples = {}, 0
        following()

    def on_pass_end(self, following: Following) -> None:
        self.context.pass_metrics.update(self.means())
        if self.context.ranks is not None:
            self.context.ranks.settle(self.context.session)
        following()

    def state(self) -> dict[str, Any]:
        return {"sums": self._sums, "samples": self._samples}

    # of the state, for `entries`
    kinds: Mapping[str, Kind] = {"sums": by_name(number), "samples": integer}
    optional: Sequence[str] = ()  # those that older checkpoints lack

    def check(self, state: Mapping[str, Any]) -> None:
        found = entries(type(self).__name__, state, self.kinds, self.optional)
        if found["samples"] and "cost" not in found["sums"]:
            names = ", ".join(found["sums"]) or "none"
            raise GraphError(
                f"{type(self).__name__}: the sums of {found['samples']} samples lack the cost, "
                f"there are {names}"
            )

    def restore(self, state: Mapping[str, Any]) -> None:
        found = entries(type(self).__name__, state, self.kinds, self.optional)
        self._sums, self._samples = found["sums"], found["samples"]

    # ---- names of 0.2.0, for one more release

    def joined(
        self, numbers: Mapping[str, float], evaluators: Sequence[Any] = ()
    ) -> dict[str, float]:
        """Return the numbers of a batch over all ranks of a job; deprecated for `train_batch`."""
        _warn_of("joined", "train_batch")
        ranks, context = self.context.ranks, self.context
        if ranks is None:
            return dict(numbers)
        means, context.batch_size = ranks.all_reduce(numbers, evaluators, context.batch_size)
        return means

    def part(self, batch: Any) -> tuple[Any, int]:
        """Return this rank's part of a batch of a test; deprecated for `test_batch`."""
        _warn_of("part", "test_batch")
        ranks = self.context.ranks
        return (batch, batch_size_of(batch)) if ranks is None else ranks.part(batch)

    def tested(
        self, totals: Mapping[str, float], samples: int, tests: Sequence[Any] = ()
    ) -> dict[str, float]:
        """Return the means of a test, from its sums; deprecated for `test_batch`."""
        _warn_of("tested", "test_batch")
        return means_of(totals, samples, tests, self.context.ranks)


def _warn_of(name, new):
    message = f"Step.{name}() is deprecated\n  hint: a Step defines {new}(), see its docs"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class ForwardBackward(Step):
    """The cost of each batch; with an Update inside, a training step.

    `cost` is a Variable, or several whose sum is trained. `context.cost` is its mean over all
    elements, before the update. What the items inside attach is computed with it in one
    evaluation.

    `precision="mixed_float16"` computes products in float16: the cost is that of `pd.autocast`, and
    the gradients of an Update are scaled, see `pd.LossScaler`. Parameters, slots and checkpoints
    are float32. `"mixed_bfloat16"` is for devices that have it: DTypeError on others.

    Several of these in a runner take turns with each batch, in their order; each Update belongs to
    the one before it. `context.cost` is then the sum of their costs.
    """

    takes_empty = True

    def __init__(self, cost: Cost, precision: str = "float32"):
        self.costs: list[Any] = list(cost) if isinstance(cost, (list, tuple)) else [cost]
        self._given = self.costs  # before products are cast
        self.precision = Precision(precision)

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        if self.precision.dtype is not None:
            self.precision.check(context.session)
        self._begin(self._given)
        self.updates: list[Assignments] = []
        self.evaluators = []
        self.inputs: dict[Variable, Callable[[], Any]] = {}
        self._trained: dict[Variable, None] = {}
        self._gradients: dict[str, Variable] | None = None
        self._leader = context.forward._leader if context.forward is not None else self
        self._steps, self._is_due = [self], False
        self._tells_of_scale = False
        if self._leader is not self:
            self._leader._steps.append(self)
        context.costs = [*context.costs, *self.costs]
        context.forward = self
        super().initialize(context, following)
        context.forward = self._leader
        self._set_targets()

    def _begin(self, costs):
        """Compute costs in the precision."""
        self._given, self.precision = list(costs), self.precision.again()
        self.costs = self.precision.cast(self._given)

    def _set_targets(self):
        """Note what is evaluated for a batch."""
        updates = self.updates or [Assignments(effects(self.costs), training=True)]
        self._total = _mean(self.costs)
        self._targets = [self._total, updates, self.evaluated()]

    def evaluated(self) -> list[list[Variable]]:
        """Return what is computed for each evaluator, in the precision of the costs."""
        return [self.precision.cast(e.targets) for e in self.evaluators]

    def fed(self, batch: Any) -> Mapping[Variable | str, Any]:
        """Return the feeds of an evaluation for those of a batch; a subclass may build for them."""
        feeds: Mapping[Variable | str, Any] = batch
        return feeds

    def train(self, update: Assignments, variables: Iterable[Variable]) -> None:
        """Apply an update with each batch; `variables` are the parameters that it trains."""
        self.updates.append(update)
        self._trained.update(dict.fromkeys(variables))
        self.context.parameters.update({v.name: v for v in variables})

    # ---- batches

    def on_batch_begin(self, following: Following) -> Any:
        self._is_due = True
        return super().on_batch_begin(following) if self is self._leader else following()

    def train_batch(self) -> dict[str, float]:
        costs = [step._run() for step in self._steps if step._is_due]
        return {"cost": costs[0] if len(costs) == 1 else sum(costs)}

    def every_evaluator(self) -> list[Any]:
        return [e for step in self._steps for e in step.evaluators]

    def _run(self):
        """Compute the batch; return the cost."""
        context, self._is_due = self.context, False
        if context.ranks is not None and context.ranks.samples == 0:
            return self._run_empty()
        if context.feeds is None:
            raise GraphError(
                "ForwardBackward: the batches are no feeds\n"
                "  hint: Data(reader, inputs=[x, y]), or batches that are dicts"
            )
        feeds, targets = self.fed(context.feeds), self._targets
        if self.inputs:
            feeds = {**feeds, **{v: value() for v, value in self.inputs.items()}}
        if context.wants_gradients:
            targets = [*targets, self._gradient_targets()]
        values = context.session.eval(targets, feeds, training=True)
        for evaluator, arrays in zip(self.evaluators, values[2], strict=True):
            evaluator.receive(arrays, context.ranks is not None)
        if context.wants_gradients:
            context.gradients = {**context.gradients, **values[3]}
        return values[0].item()

    def _run_empty(self):
        """Take part in the updates of other ranks; return a cost that has no weight."""
        if self.context.feeds is not None:
            self.fed(self.context.feeds)  # which may build for the sizes that the others have
        if self.updates:
            empty_step(self.updates, {v: value() for v, value in self.inputs.items()})
        for evaluator in self.evaluators:
            evaluator.receive(None, joins=True)
        return 0.0

    def has_updated(self) -> bool:
        session, updates = self.context.session, [u for step in self._steps for u in step.updates]
        due = [u.is_due for u in updates if u.is_due is not None]
        # what they depend on is the number of batches in the sums: 0 after an update
        counts = [[session.get(v).item() for v in stored_variables([each])] for each in due]
        return len(due) < len(updates) or not updates or any(not any(each) for each in counts)

    def loss_scales(self) -> list[float]:
        scales = [v for step in self._steps for v in step.precision.loss_scales]
        return [float(self.context.session.get(v)) for v in scales]

    def on_pass_end(self, following: Following) -> None:
        super().on_pass_end(following)
        lost = [] if self._tells_of_scale else [*filter(None, map(lost_scale, self.loss_scales()))]
        if lost and is_writer(self.context.ranks):
            self._tells_of_scale = True
            warn(
                RuntimeWarning(
                    f"{lost[0]}\n  hint: StopAtNaN() ends such a training; with "
                    "precision='float32' StopAtNaN(operators=True) names the operator"
                )
            )

    def _gradient_targets(self):
        """{name of a parameter: its gradient} of all that the updates train."""
        if self._gradients is None:
            found = gradients(self.costs, list(self._trained))
            pairs = zip(self._trained, found, strict=True)
            self._gradients = {v.name: g for v, g in pairs if g is not None}
        return self._gradients

    # ---- tests

    def test_batches(self, reader: Any) -> Iterable[Any]:
        return map(self.context.data.feeds, super().test_batches(reader))

    def test_batch(self, batch: Any) -> tuple[Mapping[str, float], Sequence[Any]]:
        feeds, costs = self.fed(batch), [step._total for step in self._steps]
        targets = [costs, [each for step in self._steps for each in step.evaluated()]]
        values, arrays = self.context.session.eval(targets, feeds, training=False)
        return {"cost": sum([cost.item() for cost in values])}, arrays


class TrainStep(Step):
    """A function of ours that takes the training step of each batch: a Module, a dynamic graph.

    `function(*batch)` for a batch that is a tuple or list, `function(batch)` for another, returns
    the cost, a number or a Variable with a value, or a dict of such numbers with `cost` among them.
    `test`, which TestEvery needs, is such a function that trains nothing. `parameters` by name are
    what logs show; a checkpoint has all values of the session anyway. A rank that has no part of a
    batch calls the function with other rows of its own, whose gradients and cost have no weight.
    """

    scales_rate = False  # of an optimizer that it does not know

    def __init__(
        self,
        function: Callable[..., Any],
        test: Callable[..., Any] | None = None,
        parameters: Mapping[str, Variable] | None = None,
    ):
        self._function, self._test = function, test
        self._parameters = dict(parameters or {})

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        if context.forward is not None:
            raise GraphError("TrainStep: there is another step around it")
        context.forward = self
        context.parameters.update(self._parameters)
        super().initialize(context, following)

    def train_batch(self) -> dict[str, float]:
        return _numbers("TrainStep", _called(self._function, self.context.batch))

    def test_batch(self, batch: Any) -> tuple[Mapping[str, float], Sequence[Any]]:
        if self._test is None:
            raise GraphError("TestEvery: TrainStep(function, test=...) says how to test")
        return _numbers("TrainStep: test", _called(self._test, batch)), []


def _called(function, batch):
    return function(*batch) if isinstance(batch, (tuple, list)) else function(batch)


def _numbers(who, result):
    """The result of a step as a dict of numbers."""
    results = result if isinstance(result, dict) else {"cost": result}
    if "cost" not in results:
        raise TypeError(f"{who}: the function returned no 'cost', but {', '.join(results)}")
    try:
        return {name: float(value) for name, value in results.items()}
    except (TypeError, ValueError) as error:
        raise TypeError(f"{who}: the function returns a cost, not {result!r}: {error}") from None


def _mean(costs):
    """The sum of the costs, each the mean of its elements."""
    means = [c if c.rank == 0 else ops.reduce_mean(c) for c in costs]
    total = means[0]
    for mean in means[1:]:
        total = total + mean
    return ops.identity(total) if total.node is None else total


class Update(RunnerItem):
    """The update of the ForwardBackward around it, by an optimizer.

    `var_list` are the parameters to train, by default all that the cost depends on. A `LossScaler`
    around the optimizer says how a cost of precision="mixed_float16" is scaled, which needs none.
    """

    def __init__(
        self, optimizer: Optimizer | LossScaler, var_list: Sequence[Variable] | None = None
    ):
        if not isinstance(optimizer, Optimizer | LossScaler):
            raise TypeError(f"Update: an optimizer, not {optimizer!r}")
        self.scaler = optimizer if isinstance(optimizer, LossScaler) else None
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else optimizer.optimizer
        self.var_list = var_list

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        forward = context.forward
        if not isinstance(forward, ForwardBackward):
            raise GraphError("Update: there is no cost\n  hint: add a ForwardBackward before it")
        super().initialize(context, following)
        self.attach(forward)

    def attach(self, forward: ForwardBackward) -> None:
        """Update the parameters of a step with each batch."""
        optimizer, self.precision = self.optimizer, forward.precision
        if self.context.rate_factor is not None:
            optimizer = _scaled(optimizer, forward.inputs, self.context)
        self.update = self.minimized(optimizer, forward.costs)
        forward.train(self.update, [w for w, _ in self.update.gradients])

    def minimized(self, optimizer: Optimizer, costs: Sequence[Variable]) -> Assignments:
        """Return the update of the parameters; the optimizer may have its rate scaled."""
        return self.precision.minimize(optimizer, costs, self.var_list, scaler=self.scaler)

    def state(self) -> dict[str, Any]:
        return {
            "optimizer": type(self.optimizer).__name__,
            "trained": [w.name for w, _ in self.update.gradients],
            "variables": [v.name for v in self.update.variables()],
            "settings": self.optimizer.settings.numbers_set(self.optimizer),
        }

    def check(self, state: Mapping[str, Any]) -> None:
        own, listed = self.state(), each(text)
        kinds = {"optimizer": text, "trained": listed, "variables": listed}
        kinds["settings"] = by_name(number)
        found = entries("Update", state, kinds, ("settings",))  # older checkpoints have none
        if state["optimizer"] != own["optimizer"]:
            raise GraphError(
                f"Resume: the checkpoint was trained by {state['optimizer']}, not by "
                f"{own['optimizer']}"
            )
        for what, names in (("parameters", "trained"), ("state of the optimizer", "variables")):
            there, here = set(state[names]), set(own[names])
            if there != here:
                raise GraphError(
                    f"Resume: the checkpoint is of another network\n"
                    f"  {what} only in it: {_listed(there - here)}\n"
                    f"  {what} only here: {_listed(here - there)}"
                )
        for name, value in found.get("settings", {}).items():
            if not self.optimizer.settings.has(self.optimizer, name, value):
                raise GraphError(
                    f"Resume: the checkpoint sets {name} to {value}, which is no number of this "
                    f"{own['optimizer']}"
                )

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, value in state.get("settings", {}).items():
            self.optimizer.settings.set_number(self.optimizer, name, float(value))

    def undoing(self) -> Callable[[], Any]:
        return self.optimizer.settings.undoing(self.optimizer)


def _listed(names):
    """Some names, sorted, for an error."""
    return ", ".join(sorted(map(str, names))[:8]) or "none"


def _scaled(optimizer, inputs, context):
    """The same optimizer with the learning rate times `context.rate_factor`."""
    factor = Variable.of((), np.dtype(np.float32), "rate_factor")
    inputs[factor] = lambda: np.array(context.rate_factor, np.float32)
    return optimizer.scaled(factor)
