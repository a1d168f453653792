"""The callbacks that watch a number: they stop, reduce the learning rate, keep what was best."""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..graph.errors import GraphError
from ..graph.site import warn
from ..graph.variable import Variable
from ..optimizers.averaging import MovingAverage
from ..optimizers.schedules import ReduceOnPlateau
from ..run.exchange import mean_over_processes
from ..run.states import Kind, array, by_name, entries, integer, maybe, number, text
from ..storage.tensors import write_tensors
from .checkpoint import CheckpointWarning
from .context import RunnerContext
from .item import Following, Initialize, RunnerItem
from .ranks import is_writer, on_first

Mode = Literal["min", "max"]


class Monitor(RunnerItem):
    """Base of items that look at a number at the end of each pass.

    `monitor` is `test/cost` or another metric of tests, `cost` or another metric of the pass; by
    default the cost of tests where there are some, else that of the pass. `val_cost` and the like,
    as the history of `Module.fit` has them, are those of tests; `loss` and `val_loss` are the costs
    where nothing else has that name. In a job it is the mean over the ranks, if they have other
    numbers.
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
        if name not in numbers and name in _LOSSES:
            name = _LOSSES[name]
        if name not in numbers:
            wanted = self.monitor or name
            raise GraphError(
                f"{type(self).__name__}: there is no {wanted!r} at the end of a pass\n"
                f"  hint: there are {', '.join(sorted(numbers)) or 'no numbers'}"
            )
        return name, numbers[name]


_LOSSES = {"loss": "cost", "test/loss": "test/cost"}


class Observe(Monitor):
    """A schedule that is told a number at the end of each pass, see Monitor.

    The state of `pd.schedules.ReduceOnPlateau` is in the session, and in its checkpoints.
    """

    def __init__(self, schedule: ReduceOnPlateau, monitor: str | None = None):
        super().__init__(monitor)
        self.schedule = schedule

    def see(self, name: str, value: float) -> None:
        self.schedule.observe(value, self.context.session)


class PruneTrial(Monitor):
    """A trial of Optuna that is told a number after each pass, and may end the training.

    `optuna.TrialPruned` is raised where the study's pruner says so: the trial is over, and the
    study goes on with the next one. In a job the trial is that of rank 0, and may be None on the
    others.
    """

    def __init__(self, trial: Any, monitor: str | None = None):
        if trial is not None and not hasattr(trial, "should_prune"):
            raise TypeError(f"PruneTrial: takes a trial of Optuna, not {trial!r}")
        super().__init__(monitor)
        self.trial = trial

    def see(self, name: str, value: float) -> None:
        def is_over() -> bool:
            self.trial.report(value, self.context.pass_id)
            return bool(self.trial.should_prune())

        if on_first(self.context.ranks, is_over):
            import optuna

            raise optuna.TrialPruned(f"{name} {value:.6g} after pass {self.context.pass_id}")


class Best(Monitor):
    """Base of items that act when a number is better than in all passes before, see Monitor.

    `mode` says whether less or more is better; by default more, unless the name is one of a cost,
    an error, a loss, a distance or the like: `loss`, `nll`, `cross_entropy`, `rmse`, `wer`. An
    improvement is one of more than `min_delta`. A resumed training that watches another number
    begins to watch it anew.
    """

    def __init__(
        self, monitor: str | None = None, min_delta: float = 0.0, mode: Mode | None = None
    ):
        who = type(self).__name__
        if mode not in (None, "min", "max"):
            raise ValueError(f"{who}: mode is 'min' or 'max', not {mode!r}")
        if not min_delta >= 0:
            raise ValueError(f"{who}: min_delta is 0 or more, not {min_delta!r}")
        super().__init__(monitor)
        self.min_delta, self.mode = min_delta, mode
        self.begin()

    def begin(self) -> None:
        """Begin to watch a number."""
        self.best: float | None = None
        self.watched: str | None = None  # the number of which that is the best

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self.begin()
        super().initialize(context, following)

    def see(self, name: str, value: float) -> None:
        if self.watched not in (name, None):
            self.begin()
        self.watched = name
        if self._is_better(name, value):
            self.best = value
            self.improve()
        else:
            self.miss()

    def improve(self) -> None:
        """Do what is due after a pass that is better than all before."""

    def miss(self) -> None:
        """Do what is due after a pass that is no better."""

    def kept(self, may_be_unbuilt: bool = False) -> dict[str, Variable]:
        """Return by name the parameters and statistics that the runner trains.

        Before the first batch those of a module may not be built. GraphError if they are unknown,
        or if there is a sharded table.
        """
        who, forward = type(self).__name__, self.context.forward
        found: dict[str, Variable] = {} if forward is None else forward.variables()
        if not found and not may_be_unbuilt and not self._unbuilt():
            raise GraphError(
                f"{who}: no item trains parameters that are known\n"
                "  hint: TrainStep(function, parameters={name: variable})"
            )
        for v in found.values():
            if v.is_shard:
                raise GraphError(
                    f"{who}: each process has other rows of the sharded table {v.name}\n"
                    "  hint: SaveEvery writes them"
                )
        return found

    def kept_values(self, average: MovingAverage | None = None) -> dict[str, np.ndarray]:
        """Return the values of what is `kept` by name; of parameters their averages, if given."""
        if average is not None:
            if not average.averages:
                raise GraphError(
                    f"{type(self).__name__}: the average has no parameters\n"
                    "  hint: an item Average(average) records it"
                )
            with average.applied(self.context.session):
                return self.kept_values()
        session, found = self.context.session, self.kept()
        if found:
            return {name: session.get(v) for name, v in found.items()}
        waiting = session.state()["values"]
        return {name: waiting[name] for name in self._unbuilt() if name in waiting}

    def _unbuilt(self):
        """The names of what a resumed training trains, and has not built again."""
        forward = self.context.forward
        return () if forward is None else forward.unbuilt

    def check_kept(self) -> None:
        """Raise the errors of `kept`."""
        self.kept()

    def _is_better(self, name, value):
        if self.best is None or math.isnan(self.best):
            return self.best is None or not math.isnan(value)
        less = self.mode == "min" if self.mode else _is_cost(name)
        gain = self.best - value if less else value - self.best
        return gain > self.min_delta

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "watched": self.watched}

    # of the state, for `entries`, and those that older checkpoints lack
    kinds: Mapping[str, Kind] = {"best": maybe(number), "watched": maybe(text)}
    optional: tuple[str, ...] = ("watched",)

    def check(self, state: Mapping[str, Any]) -> None:
        entries(type(self).__name__, state, self.kinds, self.optional)

    def restore(self, state: Mapping[str, Any]) -> None:
        found = entries(type(self).__name__, state, self.kinds, self.optional)
        self.best, self.watched = found["best"], found.get("watched")


# Names of numbers of which less is better.
_LESS = re.compile(
    r"cost|loss|error|mae|mse|perplexity|cross_?entropy|deviance|divergence|distance|hinge|brier"
    r"|negative_log|(?<![a-z])(nll|ppl|kl|bpc|bpd|s?mape|rmsle|[wct]er|fid|eer|ece|emd|lpips|crps)"
    r"(?![a-z])"
)


def _is_cost(name):
    return _LESS.search(name.lower()) is not None


class Watch(Best):
    """Base of items that act if a number got no better in `patience` passes, see Best."""

    def __init__(
        self,
        monitor: str | None = None,
        patience: int = 1,
        min_delta: float = 0.0,
        mode: Mode | None = None,
    ):
        who = type(self).__name__
        if isinstance(patience, bool) or not isinstance(patience, (int, np.integer)):
            raise TypeError(f"{who}: patience is a number of passes, not {patience!r}")
        if patience < 1:
            raise ValueError(f"{who}: patience is at least 1, not {patience}")
        super().__init__(monitor, min_delta, mode)
        self.patience = patience

    def begin(self) -> None:
        super().begin()
        self.waited = 0

    def improve(self) -> None:
        self.waited = 0

    def miss(self) -> None:
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            self.act()

    def act(self) -> None:
        """Do what is due after `patience` passes without an improvement."""

    def state(self) -> dict[str, Any]:
        return {**super().state(), "waited": self.waited}

    kinds = {**Best.kinds, "waited": integer}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.waited = integer(state["waited"])


class StopEarly(Watch):
    """The end of a training that gets no better, see Watch.

    With `restore_best` the parameters and moving statistics of the best pass come back when the
    runner ends, however it ends. The optimizer's state stays that of the last pass. Until then
    everything goes on as without it, so that a checkpoint is one of the pass that it follows; it
    has the best values, too. With an `average` the parameters that come back are their averages:
    those that `TestEvery(average=...)` has tested.
    """

    def __init__(
        self,
        monitor: str | None = None,
        patience: int = 1,
        *,
        min_delta: float = 0.0,
        mode: Mode | None = None,
        restore_best: bool = False,
        average: MovingAverage | None = None,
    ):
        super().__init__(monitor, patience, min_delta, mode)
        if average is not None and not restore_best:
            raise ValueError("StopEarly: an average is for restore_best=True")
        self.restore_best, self.average = restore_best, average

    def begin(self) -> None:
        super().begin()
        self._values: dict[str, np.ndarray] | None = None  # of the best pass

    def on_pass_begin(self, following: Following) -> None:
        following()
        if self.restore_best:
            self.context.after(self.check_kept)  # an error with the first batch

    def finalize(self, following: Following) -> None:
        values, self._values = self._values, None
        if values is not None:
            state = self.context.session.state()
            state["values"].update(values)
            self.context.session.restore(state)  # which knows variables that are not built yet
        super().finalize(following)

    def improve(self) -> None:
        super().improve()
        if self.restore_best:
            self._values = self.kept_values(self.average)

    def act(self) -> None:
        self.context.stop()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "values": self._values} if self.restore_best else super().state()

    kinds = {**Watch.kinds, "values": maybe(by_name(array))}
    optional = (*Watch.optional, "values")

    def check(self, state: Mapping[str, Any]) -> None:
        super().check(state)
        values = state.get("values")
        if not self.restore_best or values is None:
            return
        there = {name: (a.shape, a.dtype) for name, a in values.items()}
        variables = self.kept(may_be_unbuilt=True)
        here = {name: (v.dims, v.dtype) for name, v in variables.items()}
        different = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
        if here and different:
            raise GraphError(
                "StopEarly: the values of the best pass are those of another network; it has "
                f"other parameters or shapes: {', '.join(different[:8])}"
            )

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        if self.restore_best:
            self._values = state.get("values")
            if self._values is None:  # of a training without: the next pass is the best so far
                self.begin()


class SaveBest(Best):
    """A file with the parameters and moving statistics of the best pass so far, see Best.

    It is written after each pass that is better than all before, in the format safetensors, and
    replaced as a whole: `pd.load(path, output)` reads it. A file system that is full, or fails
    otherwise, costs the new file and a CheckpointWarning. A resumed training knows what was best.
    In a job rank 0 writes. With an `average` the parameters in the file are their averages.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        monitor: str | None = None,
        min_delta: float = 0.0,
        mode: Mode | None = None,
        *,
        average: MovingAverage | None = None,
    ):
        super().__init__(monitor, min_delta, mode)
        self.path = Path(path).absolute()  # a program may change its folder
        self.average = average

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        on_first(context.ranks, self._prepare)
        super().initialize(context, following)

    def on_pass_begin(self, following: Following) -> None:
        following()
        self.context.after(self.check_kept)  # an error with the first batch

    def _prepare(self):
        if self.path.is_dir():
            raise IsADirectoryError(f"SaveBest: {self.path} is a folder, it writes a file")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def improve(self) -> None:
        if not is_writer(self.context.ranks):
            return
        try:
            self.write()
        except OSError as error:
            text = f"{self.path} could not be written, it is as it was: {error}"
            warn(CheckpointWarning(text))

    def write(self) -> None:
        """Write the file."""
        write_tensors(self.path, self.kept_values(self.average), {})


class ReduceRate(Watch):
    """A learning rate that is multiplied by `factor` whenever the training gets no better.

    It holds for all optimizers of the runner; schedules are multiplied, too. The product of the
    factors is not less than `least`. A function of TrainStep, and `train_one_batch` of a Module,
    have optimizers of their own, which it does not reach: with them it is a GraphError.
    """

    def __init__(
        self,
        factor: float = 0.1,
        monitor: str | None = None,
        patience: int = 1,
        *,
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
        if context.forward is not None and not context.forward.scales_rate:
            raise GraphError(
                f"ReduceRate: {type(context.forward).__name__} has an optimizer of its own, whose "
                "rate it does not reach\n"
                "  hint: pd.schedules.ReduceOnPlateau(rate) as its learning rate, and "
                "Observe(schedule) in the place of this item"
            )

    def act(self) -> None:
        factor = self.context.rate_factor or 1.0
        self.context.rate_factor = max(factor * self.factor, self.least)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "rate_factor": self.context.rate_factor}

    kinds = {**Watch.kinds, "rate_factor": maybe(number)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.context.rate_factor = state["rate_factor"]
