"""The callbacks that watch a number: stop when it gets no better, or reduce the learning rate."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from ..graph.errors import GraphError
from ..optimizers.schedules import ReduceOnPlateau
from ..run.exchange import mean_over_processes
from ..run.states import Kind, entries, integer, maybe, number, text
from .context import RunnerContext
from .item import Following, Initialize, RunnerItem

Mode = Literal["min", "max"]


class Monitor(RunnerItem):
    """Base of items that look at a number at the end of each pass.

    `monitor` is `test/cost` or another metric of tests, `cost` or another metric of the pass; by
    default the cost of tests where there are some, else that of the pass. `val_cost` and the like,
    as the history of `Module.fit` has them, are those of tests. In a job it is the mean over the
    ranks, if they have other numbers.
    """

    def __init__(self, monitor: str | None = None):
        self.monitor = monitor

    def on_pass_end(self, following: Following) -> None:
        following()
        self.context.after(self._look)  # when tests of this pass are done

    def _look(self):
        name, value = self._watched()
        # a number of an item of the user may be that of one rank alone
        self.see(name, value if self.context.ranks is None else mean_over_processes(value))

    def see(self, name: str, value: float) -> None:
        """Take the number of a pass."""

    def _watched(self):
        """The name and the value of the watched number."""
        context = self.context
        numbers = {
            **context.pass_metrics,
            **{f"test/{name}": value for name, value in context.test_metrics.items()},
        }
        name = self.monitor or ("test/cost" if "test/cost" in numbers else "cost")
        if name not in numbers and name.startswith("val_"):
            name = "test/" + name.removeprefix("val_")
        if name not in numbers:
            wanted = self.monitor or name
            raise GraphError(
                f"{type(self).__name__}: there is no {wanted!r} at the end of a pass\n"
                f"  hint: there are {', '.join(sorted(numbers)) or 'no numbers'}"
            )
        return name, numbers[name]


class Observe(Monitor):
    """A schedule that is told a number at the end of each pass, see Monitor.

    The state of `pd.schedules.ReduceOnPlateau` is in the session, and in its checkpoints.
    """

    def __init__(self, schedule: ReduceOnPlateau, monitor: str | None = None):
        super().__init__(monitor)
        self.schedule = schedule

    def see(self, name: str, value: float) -> None:
        self.schedule.observe(value, self.context.session)


class Watch(Monitor):
    """Base of items that act if a number got no better in `patience` passes, see Monitor.

    `mode` says whether less or more is better; by default more, unless it is a cost, an error or a
    loss. An improvement is one of more than `min_delta`. A resumed training that watches another
    number begins to watch it anew.
    """

    def __init__(
        self,
        monitor: str | None = None,
        patience: int = 1,
        min_delta: float = 0.0,
        mode: Mode | None = None,
    ):
        if patience < 1:
            raise ValueError(f"{type(self).__name__}: patience is at least 1, not {patience}")
        if mode not in (None, "min", "max"):
            raise ValueError(f"{type(self).__name__}: mode is 'min' or 'max', not {mode!r}")
        super().__init__(monitor)
        self.patience, self.min_delta = patience, min_delta
        self.mode = mode
        self.best: float | None = None
        self.waited = 0
        self.watched: str | None = None  # the number of which that is the best

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self.best, self.waited, self.watched = None, 0, None
        super().initialize(context, following)

    def see(self, name: str, value: float) -> None:
        if self.watched not in (name, None):
            self.best, self.waited = None, 0
        self.watched = name
        if self._is_better(name, value):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            self.act()

    def act(self) -> None:
        """Do what is due after `patience` passes without an improvement."""

    def _is_better(self, name, value):
        if self.best is None or math.isnan(self.best):
            return self.best is None or not math.isnan(value)
        less = self.mode == "min" if self.mode else _is_cost(name)
        gain = self.best - value if less else value - self.best
        return gain > self.min_delta

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited, "watched": self.watched}

    # of the state, for `entries`
    kinds: Mapping[str, Kind] = {
        "best": maybe(number),
        "waited": integer,
        "watched": maybe(text),
    }

    def check(self, state: Mapping[str, Any]) -> None:
        entries(type(self).__name__, state, self.kinds, optional=["watched"])  # which 0.2.0 lacks

    def restore(self, state: Mapping[str, Any]) -> None:
        found = entries(type(self).__name__, state, self.kinds, optional=["watched"])
        self.best, self.waited = found["best"], found["waited"]
        self.watched = found.get("watched")


def _is_cost(name):
    words = ("cost", "loss", "error", "mae", "mse", "rmse", "perplexity")
    return any(word in name.lower() for word in words)


class StopEarly(Watch):
    """The end of a training that gets no better, see Watch."""

    def act(self) -> None:
        self.context.stop()


class ReduceRate(Watch):
    """A learning rate that is multiplied by `factor` whenever the training gets no better.

    It holds for all optimizers of the runner; schedules are multiplied, too. The product of the
    factors is not less than `least`.
    """

    def __init__(
        self,
        factor: float = 0.1,
        monitor: str | None = None,
        patience: int = 1,
        min_delta: float = 0.0,
        mode: Mode | None = None,
        least: float = 1e-6,
    ):
        if not 0 < factor < 1:
            raise ValueError(f"ReduceRate: the factor is within (0, 1), not {factor}")
        super().__init__(monitor, patience, min_delta, mode)
        self.factor, self.least = factor, least

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        context.rate_factor = 1.0
        super().initialize(context, following)

    def act(self) -> None:
        factor = self.context.rate_factor or 1.0
        self.context.rate_factor = max(factor * self.factor, self.least)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "rate_factor": self.context.rate_factor}

    kinds = {**Watch.kinds, "rate_factor": maybe(number)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.context.rate_factor = state["rate_factor"]
