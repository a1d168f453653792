"""Progress: what a terminal shows."""

import io
import re
import sys

import numpy as np
import pytest

from pd_core.training import Counter, Data, Runner, RunnerItem, progress
from pd_core.training.progress import Progress


class Terminal(io.StringIO):
    """A file that is a terminal; `draws` counts what was written."""

    draws = 0

    def isatty(self):
        return True

    def write(self, text):
        self.draws += 1
        return super().write(text)

    def lines(self):
        """What the screen shows: a carriage return goes back to the start of the line."""
        screen = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for part in line.split("\r"):
                shown = part + shown[len(part) :]
            screen.append(shown.rstrip())
        return screen


class Work(RunnerItem):
    """The cost 1/2, 1/3, …, its mean in the second pass and a test; calls `on_end`."""

    def __init__(self, on_end=lambda batches: None):
        self.on_end = on_end

    def on_batch_begin(self, following):
        is_over = following()
        self.context.cost = 1 / (self.context.batches + 2)
        self.context.metrics["error"] = 0.25
        return is_over

    def on_batch_end(self, following):
        self.on_end(self.context.batches)
        return following()

    def on_pass_end(self, following):
        self.context.pass_metrics = {"cost": 0.125}
        if self.context.pass_id == 1:
            self.context.test_metrics = {"cost": 0.75}
        following()


def train(item, passes=2, batches=4, work=None):
    batch = {"x": np.zeros((8, 1), np.float32)}
    runner = Runner()
    for each in (Counter(), Data(lambda: [batch] * batches), item, work or Work()):
        runner.add_item(each)
    with runner:
        runner.run(passes)


@pytest.fixture
def clock(monkeypatch):
    """A clock that every look at it puts forward by `clock.step`."""

    class Clock:
        now, step = 100.0, 1.0

        def __call__(self):
            self.now += self.step
            return self.now

    clock = Clock()
    monkeypatch.setattr(progress, "perf_counter", clock)
    return clock


def test_a_line_for_each_pass(clock):
    screen = Terminal()
    train(Progress(file=screen))
    first, second, rest = screen.lines()
    # 32 samples; the clock was looked at when the bar began, after each batch, and at the end
    assert re.match(r"pass 1/2: 4 batches \[\d\d:\d\d, cost 0.125, 6 samples/s\]$", first)
    assert re.match(r"pass 2/2: 100%\|.*\| 4/4 \[.*, cost 0.125, test cost 0.75, ", second)
    assert rest == ""


def test_the_bar_has_the_numbers_of_the_last_batch(clock):
    screen, seen = Terminal(), []
    train(Progress(file=screen), 1, work=Work(lambda batches: seen.append(screen.lines()[-1])))
    assert "1 batches" in seen[1] and "cost 0.5, error 0.25, 8 samples/s" in seen[1]
    assert "2 batches" in seen[2] and "cost 0.3333, error 0.25" in seen[2]


class Many(RunnerItem):
    """Six metrics of a batch; those of the pass and of its test come in another order."""

    names = [f"metric_{k}" for k in range(6)]

    def on_batch_begin(self, following):
        is_over = following()
        self.context.metrics = dict.fromkeys(self.names, 0.25)
        return is_over

    def on_pass_end(self, following):
        following()
        means = dict.fromkeys([*reversed(self.names), "cost"], 0.5)
        self.context.pass_metrics.update(means)
        self.context.test_metrics = dict(means)


@pytest.mark.parametrize("columns, bars", [(100, 20), (60, 12), (400, 20)])
def test_the_bar_keeps_its_width(columns, bars, monkeypatch):
    monkeypatch.setattr(progress, "_size", lambda file: (columns, 24))
    screen = Terminal()
    train(Progress(file=screen, every=1), 2, batches=12, work=Many())
    drawn = re.findall(r"\r(pass 2[^|]*\|([^|]*)\| \d+/12 \[[^\r\n]*)", screen.getvalue())
    assert len(drawn) > 10
    assert all(len(line) <= columns and len(bar) >= bars for line, bar in drawn)
    last, rest = screen.lines()[-3:-1] if columns < 400 else (screen.lines()[-2], "")
    shown = re.findall(r"(?:test )?(?:cost|metric_\d)(?= )", last + rest)
    order = ["cost", *Many.names]
    assert shown == [*order, *(f"test {name}" for name in order)]
    assert ("…" in last, "samples/s" in rest) == ((columns < 400,) * 2)


def test_it_is_drawn_ten_times_a_second(clock):
    clock.step = 0.001
    screen, few = Terminal(), Terminal()
    train(Progress(file=screen), 1, batches=1000)
    train(Progress(file=few), 1, batches=10)
    assert few.draws < screen.draws
    assert len(re.findall(r"\rpass", screen.getvalue())) <= 10 + 4


def test_it_is_drawn_after_every_few_batches(clock):
    clock.step = 1e-6
    screen = Terminal()
    train(Progress(every=3, file=screen), 1, batches=8)
    assert re.findall(r"(\d) batches", screen.getvalue()) == ["0", "3", "6", "8", "8"]


def test_a_resumed_pass_begins_in_the_middle(clock):
    class Resumed(RunnerItem):
        def initialize(self, context, following):
            context.pass_id, context.batch_id, context.is_in_pass = 0, 2, True
            context.pass_batches = 7
            super().initialize(context, following)

    screen = Terminal()
    runner = Runner()
    batch = {"x": np.zeros((8, 1), np.float32)}
    for each in (Resumed(), Counter(), Data(lambda: [batch] * 4), Progress(file=screen), Work()):
        runner.add_item(each)
    with runner:
        runner.run(1)
    assert "43%" in screen.getvalue() and "7/7" in screen.lines()[0]


def test_a_pass_that_is_longer_than_expected(clock):
    lengths = iter([2, 5])
    batch = {"x": np.zeros((8, 1), np.float32)}
    screen = Terminal()
    runner = Runner()
    data = Data(lambda: [batch] * next(lengths))
    for each in (Counter(), data, Progress(file=screen), Work()):
        runner.add_item(each)
    with runner:
        runner.run(2)
    assert "pass 2/2: 5 batches [" in screen.lines()[1]


def test_nothing_is_printed_without_a_terminal(clock, capsys):
    train(Progress())
    train(Progress(disable=True, file=Terminal()))
    assert capsys.readouterr() == ("", "")
    file = io.StringIO()
    train(Progress(file=file))
    assert file.getvalue() == ""
    train(Progress(file=file, disable=False))
    assert "pass 2/2: 100%" in file.getvalue()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_line_ends_when_the_training_does(clock, error, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)

    def fail(batches):
        if batches == 3:
            raise error

    with pytest.raises(error):
        train(Progress(file=screen), 1, work=Work(fail))
    assert sys.stdout is screen
    assert screen.getvalue().endswith("\n")
    assert screen.lines()[0].startswith("pass 1/1: 2 batches [")


def test_prints_are_above_the_bar(clock, monkeypatch):
    """Whole lines, in pieces and not, on the terminal that shows the bar."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)

    def talk(batches):
        print("batch", batches, end=" is done\n" if batches % 2 else "; ")

    train(Progress(file=screen), 1, work=Work(talk))
    assert sys.stdout is screen
    *said, bar, rest = screen.lines()
    assert said == ["batch 1 is done", "batch 2; batch 3 is done", "batch 4;"]
    assert bar.startswith("pass 1/1: 4 batches [") and rest == ""


def test_a_redirection_of_the_user_stays(clock, monkeypatch):
    screen, other = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    train(Progress(file=screen), 1, work=Work(lambda batches: setattr(sys, "stdout", other)))
    assert sys.stdout is other


@pytest.mark.parametrize("every", [0, 1.5])
def test_a_wrong_period(every):
    with pytest.raises(ValueError, match=f"every is a positive integer, not {every}"):
        Progress(every=every)
