"""Evaluation of a training: metrics of each batch, tests in between."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..graph.errors import GraphError
from ..graph.handlers import check_takes
from ..graph.variable import Variable
from ..optimizers.averaging import MovingAverage
from .batches import Reader, batch_size_of
from .context import RunnerContext
from .generators import generators_state, set_generators
from .item import Following, Initialize, RunnerItem
from .metrics import FunctionMetric, Metric, metric_by_name
from .metrics.function import parts_of
from .ranks import Ranks

# one, or several: a name, a Metric, or a function (y_true, y_pred) -> number
Metrics = str | Metric | Callable[..., Any] | Sequence[str | Metric | Callable[..., Any]]


class Tallies:
    """Metrics over batches of `targets`: prediction and label, perhaps weight."""

    def __init__(self, targets: list[Variable], metrics: Mapping[str, Metric]):
        self.targets, self.metrics = targets, metrics

    def receive(self, arrays: Sequence[Any]) -> None:
        """Add a batch."""
        for metric in self.metrics.values():
            metric.update(*arrays)

    def counted(self) -> dict[str, Any]:
        """Return the sums of the metrics, by name."""
        return {name: metric.sums for name, metric in self.metrics.items()}

    def join(self, counted: Sequence[Mapping[str, Any]]) -> None:
        """Become the metrics over what several ranks have counted, in their order."""
        for name, metric in self.metrics.items():
            metric.reset()
            for sums in counted:
                metric.add(sums[name])

    def results(self, of_batches: bool = False) -> dict[str, float]:
        """Return the metrics of all batches so far, or those that are of use for one batch."""
        chosen = {k: m for k, m in self.metrics.items() if m.of_batches or not of_batches}
        return {name: float(metric.result()) for name, metric in chosen.items()}


def tested(
    batches: Iterable[Any],
    compute: Callable[[Any], tuple[Mapping[str, float], Sequence[Any]]],
    tests: Sequence[Any] = (),
    ranks: Ranks | None = None,
    who: str = "a test",
) -> dict[str, float]:
    """Return the means over the samples of batches, and what `tests`, such as Tallies, have found.

    `compute(batch)` returns the means of numbers over a batch, and arrays for each of the tests. Of
    all `ranks`, each computes its part, and all get the same.
    """
    totals: dict[str, float] = {}
    samples = 0
    for batch in batches:
        part, size = (batch, batch_size_of(batch)) if ranks is None else ranks.part(batch)
        numbers, arrays = compute(part)
        if not size:
            continue
        samples += size
        for name, value in numbers.items():
            totals[name] = totals.get(name, 0.0) + value * size
        for test, values in zip(tests, arrays, strict=True):
            test.receive(values)
    return means_of(totals, samples, tests, ranks, who)


def means_of(
    totals: Mapping[str, float],
    samples: int,
    tests: Sequence[Any] = (),
    ranks: Ranks | None = None,
    who: str = "a test",
) -> dict[str, float]:
    """Return the means of a test, of all ranks, from sums over samples; and what `tests` found."""
    if ranks is not None:
        totals, samples = ranks.all_reduce_test(totals, samples, tests)
    if not samples:
        raise ValueError(f"{who}: the reader gives no batches")
    means = {name: total / samples for name, total in totals.items()}
    for test in tests:
        means.update(test.results())
    return means


class Evaluate(RunnerItem):
    """Metrics of a prediction and a label: of each batch, of the pass, and of tests.

    `metrics` are names, such as `accuracy`, instances of `pd.metrics.Metric`, or functions
    (y_true, y_pred) -> number, see `pd.metrics.FunctionMetric`, alone or in a list.
    `context.metrics` are those of the last batch, `context.pass_metrics` at the end of a pass those
    of all its batches. They are computed from the values of the training step: with dropout, and
    before the update. `weight` are weights of the samples. In a job they are those of all ranks. A
    step that computes arrays itself hands them over by `receive`; prediction and label are None
    then.
    """

    def __init__(
        self,
        prediction: Variable | None,
        label: Variable | None,
        metrics: Metrics = "accuracy",
        weight: Variable | None = None,
    ):
        targets = [prediction, label]
        self.targets: list[Any] = targets if weight is None else [*targets, weight]
        given = several(metrics)
        self._make = [_maker(metric) for metric in given]
        self.names = [make().name for make in self._make]
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"Evaluate: two metrics of one name among {', '.join(self.names)}")

    def begin_test(self) -> Tallies:
        """Return new tallies of the same metrics."""
        metrics = {name: make() for name, make in zip(self.names, self._make, strict=True)}
        return Tallies(self.targets, metrics)

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        if getattr(context.forward, "evaluators", None) is None:
            raise GraphError("Evaluate: there is no ForwardBackward before it")
        context.forward.evaluators.append(self)
        self._batch, self._pass = self.begin_test(), self.begin_test()
        super().initialize(context, following)

    def receive(self, arrays: Sequence[Any] | None, joins: bool = False) -> None:
        """Take the values of a training step, None for no samples; `joins` if `join` follows."""
        batch = self._batch
        for metric in batch.metrics.values():
            metric.reset()
        if arrays is not None:
            batch.receive(arrays)
        if not joins:
            self._add_batch()

    def counted(self) -> dict[str, Any]:
        """Return the sums of the metrics of the last batch, by name."""
        return self._batch.counted()

    def join(self, counted: Sequence[Mapping[str, Any]]) -> None:
        """Take what the metrics of all ranks have counted in the last batch."""
        self._batch.join(counted)
        self._add_batch()

    def _add_batch(self):
        for name, metric in self._pass.metrics.items():
            metric.merge(self._batch.metrics[name])

    def batch_results(self) -> dict[str, float]:
        """Return the metrics of the last batch, without those of whole passes."""
        return self._batch.results(of_batches=True)

    def on_pass_begin(self, following: Following) -> None:
        if self.context.batch_id < 0:  # else a resumed training goes on in the middle
            self._pass = self.begin_test()
        following()

    def on_pass_end(self, following: Following) -> None:
        self.context.pass_metrics.update(self._pass.results())
        following()

    def state(self) -> dict[str, Any]:
        return {name: metric.state() for name, metric in self._pass.metrics.items()}

    def check(self, state: Mapping[str, Any]) -> None:
        if state.keys() != set(self.names):
            raise GraphError(
                f"Resume: the checkpoint has the metrics {', '.join(state)}, not "
                f"{', '.join(self.names)}"
            )
        self._restored(state)

    def restore(self, state: Mapping[str, Any]) -> None:
        self._pass = self._restored(state)

    def _restored(self, state):
        tallies = self.begin_test()
        for name, metric in tallies.metrics.items():
            metric.restore(state[name])
        return tallies


def several(metrics: Metrics) -> list[Any]:
    """Return metrics as a list, which may be one alone; those of a collection are its parts."""
    if isinstance(metrics, (str, Metric)) or callable(metrics):
        return parts_of(metrics)
    return [part for metric in metrics for part in parts_of(metric)]


def _maker(metric):
    """A function that returns new metrics of a kind."""
    if callable(metric) and not isinstance(metric, Metric):
        metric = FunctionMetric(metric)
    if not isinstance(metric, (str, Metric)):
        raise TypeError(
            f"Evaluate: a metric is a name, a Metric or a function (y_true, y_pred), not {metric!r}"
        )
    empty = metric_by_name(metric) if isinstance(metric, str) else copy.deepcopy(metric)
    empty.reset()
    if np.ndim(empty.result()):
        raise TypeError(
            f"Evaluate: {empty.name} is an array, and takes metrics that are one number\n"
            "  hint: update the metric by hand with arrays from pd.eval"
        )
    return lambda: copy.deepcopy(empty)


class TestEvery(RunnerItem):
    """A test over another reader after every so many batches, or passes.

    The test changes nothing of the training: it is in inference mode, and global random generators
    go on as if it had not been. Its result, `cost` and metrics, is in `context.test_metrics`;
    `on_result(context, result)` is called with it. In a job each rank tests on batches of its own,
    or on its rows of them where `Data` splits batches, and the result is that of all. With an
    `average` the parameters have their averages during the test.
    """

    __test__ = False  # the name looks like a test case to pytest

    def __init__(
        self,
        batches: int | None = None,
        reader: Reader | None = None,
        on_result: Callable[[RunnerContext, "TestResult"], None] | None = None,
        passes: int | None = None,
        average: MovingAverage | None = None,
    ):
        if reader is None:
            raise TypeError("TestEvery: needs a reader of batches to test on")
        if on_result is not None:
            check_takes("TestEvery: on_result", on_result, "context", "result")
        self.batches, self.passes = every("TestEvery", batches, passes)
        self.reader, self.on_result, self.average = reader, on_result, average

    def on_batch_end(self, following: Following) -> Any:
        result = following()
        if self.batches and self.context.batches % self.batches == 0:
            self._test()
        return result

    def on_pass_end(self, following: Following) -> None:
        if self.passes and (self.context.pass_id + 1) % self.passes == 0:
            self._test()
        following()

    def _test(self):
        context = self.context
        if context.forward is None:
            raise GraphError("TestEvery: there is no cost\n  hint: add a ForwardBackward")
        generators = generators_state()
        average = self.average
        try:
            with nullcontext() if average is None else average.applied(context.session):
                metrics = context.forward.test(self.reader)
        finally:
            set_generators(generators)
        context.test_metrics = metrics
        if self.on_result is not None:
            self.on_result(context, TestResult(metrics))


class TestResult:
    """The result of a test: `cost` per sample, and `metrics` by name."""

    __test__ = False

    def __init__(self, metrics: Mapping[str, float]):
        self.cost = metrics["cost"]
        self.metrics = {name: value for name, value in metrics.items() if name != "cost"}

    def __repr__(self) -> str:
        return f"TestResult(cost={self.cost!r}, metrics={self.metrics!r})"


def every(who: str, batches: int | None, passes: int | None) -> tuple[int | None, int | None]:
    """Return two periods after a check that at least one is given; by default each pass."""
    for what, n in (("batches", batches), ("passes", passes)):
        if n is not None and (not isinstance(n, int) or n < 1):
            raise ValueError(f"{who}: {what} is a positive integer, not {n!r}")
    return batches, 1 if batches is None and passes is None else passes
