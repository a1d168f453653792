"""Logs of trainings as event files, for TensorBoard and `python -m pd_v2 report`."""

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np

from ..graph.variable import Variable
from .context import RunnerContext
from .event_files import find_event_files
from .graph_def import graph_def
from .item import Following, Initialize, RunnerItem
from .steps import Update
from .summaries import histogram_summary, scalar_summary, settings_summaries

_FLUSH_SECONDS = 10.0


class LogWarning(UserWarning):
    """A log that could not be written; the training goes on without it."""


class Log(RunnerItem):
    """TensorBoard's event files in a folder; the step of its curves is `context.batches`.

    After each `every` batches: `train/cost` and the other metrics, `learning_rate`,
    `samples_per_second`, and if the item is added inside of a Data the milliseconds of a batch
    `time/reading`, `time/step` and `time/other` (items inside of this one). At the end of a pass
    `train_mean/cost` and its other metrics; `test/…` for each test. After each `histograms_every`
    batches `parameters/…` and `gradients/…`; the step that gives gradients, too, is compiled
    apart. Once, the `graph` of the costs, the name of the script, and
    `context.settings`, which `settings` are added to.

    A training that is resumed appends to the same folder, and hides what its predecessor wrote
    after the checkpoint; one that is not resumed hides all that is there. An item like this one
    takes no part in the training: if the disk is full, it ends with a LogWarning.
    """

    first_rank_only = True

    def __init__(
        self,
        logdir: str | os.PathLike,
        every: int = 10,
        histograms_every: int | None = None,
        graph: bool = True,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ):
        for name, n in (("every", every), ("histograms_every", histograms_every or 1)):
            if not isinstance(n, int) or n < 1:
                raise ValueError(f"Log: {name} is a positive integer, not {n!r}")
        self.logdir = os.path.abspath(logdir)  # a program may change its folder
        self.every, self.graph = every, graph
        self.histograms_every, self.settings = histograms_every, dict(settings or {})

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        os.makedirs(self.logdir, exist_ok=True)
        context.settings.update(self.settings)
        self._writer: Any = None
        self._is_open = self._wants_gradients = False
        self._tests: Mapping[str, float] = context.test_metrics
        self._measures_time = context.data is not None
        super().initialize(context, following)

    def finalize(self, following: Following) -> None:
        try:
            following()
        finally:
            self._log_test()
            writer, self._writer = self._writer, None
            if writer is not None:
                self._try(writer.close)

    # ---- passes and batches

    def on_pass_begin(self, following: Following) -> None:
        if not self._is_open:
            self._is_open = True
            self._rates = self._find_rates()
            self._try(self._open)
        following()
        self._restart_clocks(perf_counter())
        self._idle_since = self._since

    def on_batch_begin(self, following: Following) -> Any:
        if self._tests is not self.context.test_metrics:
            self._log_test()
        self._begin = perf_counter()
        if self.histograms_every and (self.context.batches + 1) % self.histograms_every == 0:
            self.context.wants_gradients = self._wants_gradients = True
        return following()

    def on_batch_end(self, following: Following) -> Any:
        end = perf_counter()
        result = following()
        now = perf_counter()
        self._reading += self._begin - self._idle_since
        self._step += end - self._begin
        self._other += now - end
        if self.context.batches % self.every == 0:
            self._log_batch(now)
        if self._wants_gradients:
            self._wants_gradients = False
            self._log_histograms()
        self._idle_since = perf_counter()
        self._other += self._idle_since - now  # of writing, which the next means show
        return result

    def on_pass_end(self, following: Following) -> None:
        following()
        context = self.context
        means = {f"train_mean/{name}": value for name, value in context.pass_metrics.items()}
        self.log_scalars(context.batches, means)
        self._log_test()
        self._flush()

    # ---- what is written

    def log_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers of a step by tag, such as `test/error`."""
        if values:
            self._write(step, scalar_summary(values))

    def _log_batch(self, now):
        """Write the numbers of the last batch, and means since the last ones were written."""
        context = self.context
        values = {"train/cost": context.cost}
        values.update((f"train/{name}", value) for name, value in context.metrics.items())
        values.update(self._learning_rates())
        batches = context.batches - self._since_batches
        if batches > 0 and now > self._since:
            speed = (context.samples - self._since_samples) / (now - self._since)
            values["samples_per_second"] = speed
            if self._measures_time:
                for part in ("reading", "step", "other"):
                    values[f"time/{part}"] = getattr(self, f"_{part}") * 1000.0 / batches
        self.log_scalars(context.batches, values)
        if now > self._flushed + _FLUSH_SECONDS:
            self._flush()
        self._restart_clocks(now)

    def _restart_clocks(self, now):
        self._since, self._reading, self._step, self._other = now, 0.0, 0.0, 0.0
        self._since_batches, self._since_samples = self.context.batches, self.context.samples

    def _find_rates(self):
        """Return {tag: function of the number of steps that returns a learning rate}."""
        optimizers = [i.optimizer for i in self.context.runner.items if isinstance(i, Update)]
        several = len(optimizers) > 1
        rates = ((k, _rate(o.learning_rate, self.context)) for k, o in enumerate(optimizers))
        return {f"learning_rate/{k}" if several else "learning_rate": r for k, r in rates if r}

    def _learning_rates(self):
        """Return the learning rates of the last batch; schedules count an update a batch."""
        context = self.context
        factor = 1.0 if context.rate_factor is None else context.rate_factor
        rates = {tag: rate(context.batches - 1) * factor for tag, rate in self._rates.items()}
        own = getattr(context.forward, "learning_rate", None)  # of steps that know theirs
        return rates if own is None else {**rates, "learning_rate": own()}

    def _log_test(self):
        """Write the numbers of the last test, unless they were written before."""
        context = self.context
        if self._tests is not context.test_metrics:
            self._tests = context.test_metrics
            self.log_scalars(context.batches, {f"test/{k}": v for k, v in self._tests.items()})

    def _log_histograms(self):
        context = self.context
        values = {name: context.session.get(v) for name, v in context.parameters.items()}
        for kind, arrays in (("parameters", values), ("gradients", context.gradients)):
            for name, array in arrays.items():
                if array.size:
                    self._write(context.batches, histogram_summary(f"{kind}/{name}", array))

    # ---- the file

    def _open(self):
        """Begin a file; hide what the folder has of steps that are to come."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        context = self.context
        files = find_event_files(self.logdir).get(self.logdir, [])
        # A name ends with second and host; files are read in the order of their names.
        suffix = f".{len(files):05d}.{os.getpid()}"
        self._event, self._flushed = Event, perf_counter()
        self._writer = EventsWriter(os.path.join(self.logdir, "events"), suffix)
        step = context.batches + 1 if context.batches else 0
        start = SessionLog(status=SessionLog.START)
        self._write_event(Event(wall_time=time.time(), step=step, session_log=start))
        settings = {"script": os.path.basename(sys.argv[0]), **context.settings}
        for summary in settings_summaries(settings, ["train/cost", "test/cost"]):
            self._write(step, summary)
        if self.graph and context.costs:
            graph = graph_def(context.costs).SerializeToString()
            self._write_event(Event(wall_time=time.time(), graph_def=graph))

    def _write(self, step, summary):
        if self._writer is not None:
            self._write_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def _write_event(self, event):
        if self._writer is not None:
            self._try(self._writer.write_event, event)

    def _flush(self):
        self._flushed = perf_counter()
        if self._writer is not None:
            self._try(self._writer.flush)

    def _try(self, function, *arguments):
        """Call a function that writes; end the log if the file system fails."""
        try:
            function(*arguments)
        except OSError as error:
            writer, self._writer = self._writer, None
            if writer is not None:
                with suppress(OSError):
                    writer.close()
            text = f"the log in {self.logdir} ends, it could not be written: {error}"
            warnings.warn(text, LogWarning, stacklevel=3)


def _rate(rate: Any, context: RunnerContext) -> Callable[[int], float] | None:
    """Return a learning rate as a function of the number of steps; None if it is computed."""
    session = context.session
    if isinstance(rate, Real):
        return lambda steps: float(rate)
    if isinstance(rate, Variable):
        return (lambda steps: session.get(rate).item()) if rate.is_persistent else None
    t = Variable.of((), np.dtype(np.float32), "steps")
    scheduled = rate(t)
    return lambda steps: session.eval(scheduled, {t: np.float32(steps)}).item()
