"""Progress of a training in a terminal."""

import os
import sys
from time import perf_counter
from typing import Any, TextIO

from tqdm import tqdm

from .context import RunnerContext
from .item import Following, Initialize, RunnerItem

_SECONDS = 0.1  # between two drawings
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_FORMAT_UNKNOWN = "{desc}: {n_fmt} batches [{elapsed}{postfix}]"
_LONGEST_TIMES = "0:00:00<0:00:00"


class Progress(RunnerItem):
    """A bar for each pass: batches, cost, metrics, samples per second, time left.

    It is drawn ten times a second at most, or after each `every` batches, to `file`, by default
    stderr; nothing is printed if that is no terminal, unless `disable=False` asks for it. The
    line of a pass stays when the pass ends, with the means of the pass and the test in it; it ends
    whenever the training does. The bar keeps a fifth of the line: numbers that do not fit beside it
    are left out, and follow in a line of their own at the end of the pass.

    While there is a bar, what others print to stdout on a terminal is written above it. What they
    write to stderr, such as warnings, goes next to the bar, which is drawn again below.
    """

    first_rank_only = True

    def __init__(
        self, every: int | None = None, file: TextIO | None = None, disable: bool | None = None
    ):
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"Progress: every is a positive integer, not {every!r}")
        self.every, self.file, self.disable = every, file, disable

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self._bar: Any = None
        super().initialize(context, following)

    def finalize(self, following: Following) -> None:
        self._close()
        following()

    def on_pass_begin(self, following: Following) -> None:
        following()
        self._close()  # of a pass that an error ended
        file = sys.stderr if self.file is None else self.file
        if not _is_disabled(self.disable, file):
            self._open(file)

    def on_batch_end(self, following: Following) -> Any:
        result = following()
        if self._bar is not None:
            if self.every is None:
                now = perf_counter()
                if now >= self._due:
                    self._draw(now)
            elif (self.context.batch_id + 1) % self.every == 0:
                self._draw(perf_counter())
        return result

    def on_pass_end(self, following: Following) -> None:
        try:
            following()
            if self._bar is not None:
                self._end_print()
                left_out = self._draw(perf_counter(), self._of_pass())
                file = self._bar.fp
                self._close()
                if left_out:
                    print(f"  {', '.join(left_out)}", file=file, flush=True)
        finally:
            self._close()

    def _of_pass(self):
        """Return the means of the pass, in the order of those of a batch, and its test."""
        context = self.context
        order = ["cost", *context.metrics]
        numbers = _ordered(context.pass_metrics, order)
        if context.test_metrics is not self._tests:
            tests = _ordered(context.test_metrics, [*order, *numbers])
            numbers.update((f"test {name}", value) for name, value in tests.items())
        return numbers

    def _open(self, file):
        context = self.context
        done = context.batch_id + 1  # not 0 in a pass that is resumed
        of = "" if context.num_passes is None else f"/{context.num_passes}"
        total = context.pass_batches
        columns, lines = _size(file)
        self._bar = _Bar(
            desc=f"pass {context.pass_id + 1}{of}",
            total=total,
            initial=done,
            file=file,
            mininterval=0.0,
            miniters=0,
            bar_format=_FORMAT if total else _FORMAT_UNKNOWN,
            ncols=columns,
            nrows=lines,
        )
        self._tests = context.test_metrics
        self._first_samples, self._began = context.samples, perf_counter()
        self._due = self._began + _SECONDS
        self._above = _Above(sys.stdout, self._bar) if _is_terminal(sys.stdout) else None
        if self._above is not None:
            sys.stdout = self._above

    def _draw(self, now, metrics=None):
        """Draw the bar with the numbers of the last batch, or these; return those left out."""
        self._due = now + _SECONDS
        if self._above is not None and not self._above.is_at_line_start:
            return []
        context, bar = self.context, self._bar
        numbers = {"cost": context.cost, **context.metrics} if metrics is None else metrics
        words = [f"{name} {value:.4g}" for name, value in numbers.items()]
        seconds = now - self._began
        if seconds > 0:
            words.append(f"{(context.samples - self._first_samples) / seconds:,.0f} samples/s")
        if bar.total is not None and context.batch_id + 1 > bar.total:
            bar.total = None  # the pass is longer than the one before
            bar.bar_format = _FORMAT_UNKNOWN
        fitting = words if bar.ncols is None else _fitting(words, _room(bar))
        more = [] if fitting == words else ["…"]
        bar.set_postfix_str(", ".join([*fitting, *more]), refresh=False)
        bar.update(context.batch_id + 1 - bar.n)
        return words[len(fitting) :]

    def _close(self):
        """End the line of the bar, and let stdout be as it was."""
        bar, self._bar = self._bar, None
        if bar is None:
            return
        self._end_print()
        if self._above is not None and sys.stdout is self._above:
            sys.stdout = self._above.file
        bar.close()

    def _end_print(self):
        """End a line of others that the bar would overwrite."""
        if self._above is not None and not self._above.is_at_line_start:
            self._above.write("\n")


class _Bar(tqdm):
    """A bar without a thread that watches it."""

    monitor_interval = 0


class _Above:
    """stdout of a terminal, written above a bar: the bar is drawn again when it is due."""

    def __init__(self, file: TextIO, bar: tqdm):
        self.file, self.bar = file, bar
        self.is_at_line_start = True

    def write(self, text: str) -> int:
        """Write, in place of the bar."""
        if self.is_at_line_start and text:
            self.bar.clear()
        if text:
            self.is_at_line_start = text.endswith("\n")
        return self.file.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def _ordered(numbers, order):
    """Return numbers by name, first those of an order."""
    return {name: numbers[name] for name in dict.fromkeys([*order, *numbers]) if name in numbers}


def _room(bar):
    """Return how many columns numbers may have, so that the bar itself keeps a fifth of them."""
    if bar.total is None:
        fixed = f"{bar.desc}: {bar.n} batches [{_LONGEST_TIMES}, ]"
        return bar.ncols - len(fixed)
    fixed = f"{bar.desc}: 100%|| {bar.total}/{bar.total} [{_LONGEST_TIMES}, ]"
    return bar.ncols - len(fixed) - bar.ncols // 5


def _fitting(words, room):
    """Return the first of some words, as many as fit into a room with commas and an ellipsis."""
    count = len(words)
    while count and len(", ".join([*words[:count], *("…",) * (count < len(words))])) > room:
        count -= 1
    return words[:count]


def _is_disabled(disable, file):
    return not _is_terminal(file) if disable is None else disable


def _size(file):
    """Columns and lines of a terminal, 80 and 24 if it has none; None lets tqdm decide."""
    try:
        size = os.get_terminal_size(file.fileno())
    except (AttributeError, OSError, ValueError):  # no terminal, or a file that is closed
        return None, None
    return size.columns or 80, size.lines or 24


def _is_terminal(file):
    return file is not None and getattr(file, "isatty", bool)()
