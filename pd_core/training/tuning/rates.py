"""Learning rates to begin with: a range test over rates that grow from step to step."""

import copy
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import GraphError
from ...graph.recording import not_recording
from ...graph.variable import Variable
from ...graph.whole import Whole
from ...layers.layer import Layer
from ...optimizers.base import Optimizer
from ...optimizers.named import optimizer_named
from ...run.session import default_session
from .. import Counter, Data, Device, ForwardBackward, RunnerContext, RunnerItem, Update, runner_of
from ..batches import Reader
from ..fit.arrays import float_type
from ..fit.criterion import Criterion, Loss, loss_named
from ..fit.data import source_of
from ..fit.kept_update import KeptUpdate
from ..fit.modes import modes_kept
from ..fit.steps import SourceData, StaticStep
from ..generators import generators_state, set_generators
from ..item import Following, Initialize

_WHO = "find_learning_rate"
_DIVERGED = 4.0  # times the lowest smoothed cost: the end of the test


class RateTest:
    """The result of a range test: `rates`, the `costs` before the step of each, and them smoothed.

    `smoothed` is an exponential moving average without the bias of its beginning. `suggestion` is
    the rate at which it falls fastest along the logarithm of the rate, after the first tenth, whose
    averages are of few costs.
    """

    def __init__(self, rates: ArrayLike, costs: ArrayLike, smoothing: float):
        self.rates, self.costs = np.array(rates), np.array(costs)
        self.smoothed = _smoothed(self.costs, smoothing)

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed cost falls fastest, None if it never falls."""
        first = len(self.rates) // 10
        if len(self.rates) < first + 2:
            return None
        rates = self.rates[first:]
        slopes = np.gradient(self.smoothed[first:], np.log(rates))
        steepest = int(np.argmin(slopes))
        return float(rates[steepest]) if slopes[steepest] < 0 else None

    def __repr__(self) -> str:
        if not len(self.rates):
            return "RateTest(no rates)"
        ends = f"{self.rates[0]:.3g} to {self.rates[-1]:.3g}"
        found = self.suggestion
        text = "none" if found is None else f"{found:.3g}"
        return f"RateTest({len(self.rates)} rates from {ends}, suggestion {text})"


class _Over(Exception):
    """The test has ended, and what it has changed is to be taken back."""


def find_learning_rate(
    model: Layer | Variable,
    x: Any,
    y: Any = None,
    *,
    optimizer: str | Optimizer,
    loss: Loss | None = None,
    inputs: Sequence[Variable] | None = None,
    lowest: float = 1e-7,
    highest: float = 10.0,
    steps: int = 100,
    batch_size: int | None = None,
    seed: int | None = None,
    smoothing: float = 0.9,
) -> RateTest:
    """Train for some steps with a rate that grows from each to the next, and take them back.

    A range test (Smith 2017): rates are a geometric sequence, one for each step; where the cost
    falls fastest is a rate to begin with. It ends early when the smoothed cost is four times its
    lowest, or not finite. All is then as it was before: parameters, moving statistics, the
    optimizer, seeds and random draws, generators of Python and NumPy, and layers that were not
    built yet.

    `model` is a layer, with x, y, loss, batch_size and seed as `Module.fit` has them; or a cost,
    with x a reader of batches as `pd.training.Data` takes it, and the `inputs` that it feeds. Data
    that end sooner are read again. Schedules of the optimizer are left out; groups of parameters
    with rates of their own keep their ratio to its `learning_rate`.

    Args:
        model: a layer, or a cost.
        x: arrays [N, ...] or a reader of batches (x, y); for a cost a reader of its inputs.
        y: arrays [N, ...]; None with a reader.
        optimizer: an optimizer or its name.
        loss: as in `Module.fit`; None for a cost.
        inputs: what a reader of arrays feeds, for a cost.
        lowest: the rate of the first step, above 0.
        highest: the rate of the last step.
        steps: how many rates, 2 or more.
        batch_size: the samples of a step, of arrays; by default 32.
        seed: of the order of the samples, of arrays; by default 0.
        smoothing: the share of the average in the next one, from 0 to below 1.

    Returns:
        A RateTest.

    Raises:
        TypeError: optimizer, loss or model is missing or of another kind.
        ValueError: the rates do not grow, there are fewer than 2 steps, or the smoothing is not
            from 0 to below 1.
    """
    if not 0 < lowest < highest:
        raise ValueError(f"{_WHO}: rates grow from above 0, not from {lowest} to {highest}")
    if steps < 2:
        raise ValueError(f"{_WHO}: needs 2 steps or more, not {steps}")
    if not 0 <= smoothing < 1:
        raise ValueError(f"{_WHO}: the smoothing is from 0 to below 1, not {smoothing}")
    optimizer = optimizer_named(_WHO, optimizer) if isinstance(optimizer, str) else optimizer
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"{_WHO}: needs an optimizer, such as pd.AdamOptimizer(), not {optimizer!r}"
        )
    if isinstance(model, Variable):
        if loss is not None or y is not None:
            raise TypeError(f"{_WHO}: a cost has its loss and labels, so there is no y and no loss")
        train = _of_cost(model, x, inputs)
    elif isinstance(model, Layer):
        train = _of_layer(model, x, y, loss, inputs, batch_size=batch_size, seed=seed)
    else:
        raise TypeError(f"{_WHO}: takes a layer or a cost, not {model!r}")
    rates = np.geomspace(lowest, highest, steps)
    test = _GrowingRate(rates, smoothing)
    session, generators = default_session(), generators_state()
    state = session.state()
    try:
        with not_recording(), Whole():
            tried, base = _based(optimizer)
            train(tried, base, test)
            raise _Over
    except _Over:
        pass
    finally:
        _go_back(session, state)
        set_generators(generators)
    return RateTest(rates[: len(test.costs)], test.costs, smoothing)


class _GrowingRate(RunnerItem):
    """The rate of each step, and the cost before it; the end after the last, or if it diverges."""

    def __init__(self, rates: np.ndarray, smoothing: float):
        self.rates, self.smoothing = rates, smoothing
        self.base = 1.0  # the rate that factors of the optimizer are relative to
        self.costs: list[float] = []

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        context.rate_factor = 1.0  # so that there is one
        super().initialize(context, following)
        for v in context.parameters.values():
            if v.is_shard:
                raise GraphError(
                    f"{_WHO}: the rows of the sharded table {v.name} would stay trained"
                )

    def on_batch_begin(self, following: Following) -> Any:
        self.context.rate_factor = self.rates[len(self.costs)] / self.base
        if following():
            return True
        self.costs.append(self.context.cost)
        smoothed = _smoothed(np.array(self.costs), self.smoothing)
        if len(self.costs) == len(self.rates) or self._diverges(smoothed):
            self.context.stop()
        return False

    def _diverges(self, smoothed):
        if not isfinite(self.costs[-1]):
            self.costs.pop()  # no number to look at
            return True
        lowest = smoothed.min()
        return lowest > 0 and smoothed[-1] > _DIVERGED * lowest


# of an optimizer, its rate, and the item that sets the rates
Train = Callable[[Optimizer, float, _GrowingRate], None]


def _of_cost(cost: Variable, reader: Reader, inputs: Sequence[Variable] | None) -> Train:
    """Return a function that trains a cost."""

    def train(optimizer, base, test):
        test.base = base
        _run(Data(reader, inputs=inputs), test, ForwardBackward(cost), Update(optimizer))

    return train


def _of_layer(
    layer: Layer, x: Any, y: Any, loss: Any, inputs: Sequence[Variable] | None, **options: Any
) -> Train:
    """Return a function that trains a layer with a loss, in training mode."""
    if inputs is not None:
        raise TypeError(f"{_WHO}: inputs are for a cost; a layer is called with x")
    criterion = Criterion(loss_named(_WHO, loss), ())
    criterion.check(_WHO)
    if y is not None:
        options["shuffle"] = True  # costs in the order of sorted data say nothing of the rate
    source = source_of(_WHO, x, y, is_weighted=True, **options)

    def train(optimizer, base, test):
        test.base = base
        with modes_kept(layer):
            if not layer.training:
                layer.train()
            update = KeptUpdate(optimizer)
            step = StaticStep(layer, criterion, source, update, float_type=float_type(layer))
            _run(SourceData(source, True), test, step, update)

    return train


def _run(data, test, *steps):
    with runner_of([Device(), Counter(), data, test, *steps]) as runner:
        runner.run(len(test.rates))  # passes, each of one batch or more


def _based(optimizer):
    """A copy of an optimizer, and the rate that the factors of its steps are relative to."""
    tried, base = copy.copy(optimizer), optimizer.learning_rate
    if isinstance(base, (int, float, np.number)):
        if not base > 0:
            raise ValueError(f"{_WHO}: the optimizer has the learning rate {base}, not above 0")
        return tried, float(base)
    if any("learning_rate" in dict(g.settings) for g in optimizer.groups):
        raise ValueError(
            f"{_WHO}: groups have rates of their own, whose ratio to {base!r} is not known\n"
            "  hint: an optimizer whose learning_rate is a number"
        )
    tried.learning_rate = 1.0
    return tried, 1.0


def _go_back(session, state):
    """Restore a state of a session, in which other variables had no value yet."""
    with session.lock:
        fresh = [v for v in session.store.variables() if v.name not in state["values"]]
        session.store.put_back(dict.fromkeys(fresh))
        session.restore(state)


def _smoothed(costs, smoothing):
    """The exponential moving average, divided by the weight that it has so far."""
    average, found = 0.0, []
    for k, cost in enumerate(costs, 1):
        average = average * smoothing + cost * (1.0 - smoothing)
        found.append(average / (1.0 - smoothing**k))
    return np.array(found)
