"""Log: what its event files hold."""

import math

import numpy as np
import pytest
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.graph_pb2 import GraphDef
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

import pd_core as pd
from pd_core.optimizers.schedules import ExponentialDecay
from pd_core.training import (
    Counter,
    Data,
    Device,
    ForwardBackward,
    ReduceRate,
    Resume,
    Runner,
    RunnerItem,
    SaveEvery,
    TestEvery,
    Update,
)
from pd_core.training import log as log_module
from pd_core.training.event_files import find_event_files, read_events
from pd_core.training.log import Log, LogWarning
from pd_core.training.report.runs import read_runs

FEEDS = {"x": np.array([[1.0], [3.0]], np.float32)}


class Settings(RunnerItem):
    """Settings, a metric, and NaN as the cost of a batch; keeps the gradients that it sees."""

    def __init__(self, nan_at=None):
        self.nan_at, self.gradients = nan_at, {}

    def initialize(self, context, following):
        context.settings.update({"layers": 3, "optimizer": "SGD", "fast": True})
        super().initialize(context, following)

    def on_batch_end(self, following):
        context = self.context
        context.metrics["half"] = context.batches / 2
        self.gradients[context.batches] = {k: v.copy() for k, v in context.gradients.items()}
        if context.batches == self.nan_at:
            context.cost = math.nan
        return following()


def train(log, passes=1, batches=20, rate=0.1, others=(), settings=None):
    """Minimize the mean of (w x)^2 from w = 1; return the costs by number of batches."""
    costs = {}

    class Costs(RunnerItem):
        def on_batch_end(self, following):
            costs[self.context.batches] = self.context.cost
            return following()

    pd.reset(seed=0)
    x = pd.Variable([None, 1], name="x")
    w = pd.Variable(data=np.ones((1, 1), np.float32), name="w")
    cost = pd.reduce_mean(pd.square(x @ w))
    runner = Runner()
    items = [
        *(Device(), Counter(), Data([FEEDS] * batches), ForwardBackward(cost)),
        *(settings or Settings(), Costs(), *others, log, Update(pd.SGDOptimizer(rate))),
    ]
    for item in items:
        runner.add_item(item)
    with runner:
        runner.run(passes)
    return costs


def curve(folder, tag):
    """{step: value} of a tag."""
    (run,) = read_runs([folder])
    return dict(run.curves[tag].points()) if tag in run.curves else {}


def events(folder, kind):
    """The events of a kind, of all files in their order."""
    damages = []
    paths = find_event_files(folder)[str(folder)]
    found = [
        e for p in paths for e in read_events(p, damages.append) if e.WhichOneof("what") == kind
    ]
    assert damages == []
    return found


def test_numbers_of_batches(tmp_path):
    costs = train(Log(tmp_path, every=4), passes=2)
    found = curve(tmp_path, "train/cost")
    assert list(found) == list(range(4, 41, 4))
    assert found == {k: np.float32(costs[k]) for k in found}
    assert curve(tmp_path, "train/half") == {k: k / 2 for k in found}
    assert all(v > 0 for v in curve(tmp_path, "samples_per_second").values())
    parts = [curve(tmp_path, f"time/{part}") for part in ("reading", "step", "other")]
    assert all(list(part) == list(found) and min(part.values()) >= 0 for part in parts)


def test_samples_and_times_by_the_clock(tmp_path, monkeypatch):
    """Each look at the clock takes a second: the parts of a batch and its speed are known."""
    looks = iter(range(10**6))
    monkeypatch.setattr(log_module, "perf_counter", lambda: float(next(looks)))
    train(Log(tmp_path, every=1, graph=False), batches=3)
    assert curve(tmp_path, "time/step") == {1: 1000.0, 2: 1000.0, 3: 1000.0}
    assert curve(tmp_path, "time/reading") == {1: 1000.0, 2: 1000.0, 3: 1000.0}
    # the first one without the time that writing took
    assert curve(tmp_path, "time/other") == {1: 1000.0, 2: 2000.0, 3: 2000.0}
    assert curve(tmp_path, "samples_per_second") == pytest.approx({1: 2 / 3, 2: 0.5, 3: 0.5})


def test_passes_and_tests(tmp_path):
    test = TestEvery(batches=8, reader=lambda: [FEEDS], passes=1)
    costs = train(Log(tmp_path, every=50), passes=2, others=[test])
    means = {k: np.float32(np.mean([costs[b] for b in range(k - 19, k + 1)])) for k in (20, 40)}
    assert curve(tmp_path, "train_mean/cost") == pytest.approx(means)
    tests = curve(tmp_path, "test/cost")
    assert list(tests) == [8, 16, 20, 24, 32, 40]
    # the cost before an update is that of a test after the update before
    assert tests[24] == pytest.approx(costs[25])
    assert curve(tmp_path, "train/cost") == {}


def test_numbers_of_others(tmp_path):
    log = Log(tmp_path)

    class Item(RunnerItem):
        def on_pass_end(self, following):
            log.log_scalars(7, {"odd name: <é>": 1.5, "test/error": -0.0})
            following()

    train(log, others=[Item()])
    assert curve(tmp_path, "odd name: <é>") == {7: 1.5}
    assert curve(tmp_path, "test/error") == {7: 0.0}


def test_a_cost_that_is_nan(tmp_path):
    train(Log(tmp_path, every=5), settings=Settings(nan_at=10))
    found = curve(tmp_path, "train/cost")
    assert [step for step, value in found.items() if math.isnan(value)] == [10]


def test_learning_rates(tmp_path):
    train(Log(tmp_path / "number", every=10), rate=0.25)
    assert curve(tmp_path / "number", "learning_rate") == {10: 0.25, 20: 0.25}
    train(Log(tmp_path / "schedule", every=10), rate=ExponentialDecay(0.25, 0.5, every=10))
    found = curve(tmp_path / "schedule", "learning_rate")
    assert found == pytest.approx({10: 0.25 * 0.5**0.9, 20: 0.25 * 0.5**1.9})
    reduce = ReduceRate(0.5, "cost", patience=1, min_delta=100.0)
    train(Log(tmp_path / "reduced", every=20), passes=4, rate=0.25, others=[reduce])
    assert curve(tmp_path / "reduced", "learning_rate") == {
        20: 0.25,
        40: 0.25,
        60: 0.125,
        80: 0.0625,
    }


def test_histograms(tmp_path):
    settings = Settings()
    train(Log(tmp_path, histograms_every=8), batches=17, settings=settings)
    (run,) = read_runs([tmp_path])
    assert set(run.histograms) == {"parameters/w", "gradients/w"}
    gradients = run.histograms["gradients/w"]["mean"].points()
    assert [step for step, _ in gradients] == [8, 16]
    for step, value in gradients:
        assert value == pytest.approx(settings.gradients[step]["w"].item())
    assert run.histograms["parameters/w"]["max"].last[1] < 1.0
    assert min(k for k, v in settings.gradients.items() if v) == 8


def test_settings_and_graph(tmp_path):
    train(Log(tmp_path, settings={"rate": 0.25, "data": "two rows"}))
    (run,) = read_runs([tmp_path])
    assert run.settings.pop("data") == "two rows"
    assert run.settings == {"layers": 3.0, "optimizer": "SGD", "rate": 0.25, "fast": True}
    plugins = [
        HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for event in events(tmp_path, "summary")
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "hparams"
    ]
    assert {p.WhichOneof("data") for p in plugins} == {"experiment", "session_start_info"}
    (event,) = events(tmp_path, "graph_def")
    assert {"MatMul", "Placeholder", "VariableV2"} <= {
        node.op for node in GraphDef.FromString(event.graph_def).node
    }
    train(Log(tmp_path / "none", graph=False))
    assert events(tmp_path / "none", "graph_def") == []


def test_a_resumed_run_purges_what_it_repeats(tmp_path):
    """Killed after 25 batches, resumed after 20: the curves are those of one run."""
    whole = tmp_path / "whole"
    train(Log(whole, every=2), passes=2)

    class Kill(RunnerItem):
        def on_batch_end(self, following):
            if self.context.batches == 25:
                raise KeyboardInterrupt
            return following()

    killed, saves = tmp_path / "killed", tmp_path / "saves"
    with pytest.raises(KeyboardInterrupt):
        train(Log(killed, every=2), passes=2, others=[SaveEvery(10, saves), Kill()])
    assert max(curve(killed, "train/cost")) == 24
    train(Log(killed, every=2), passes=2, others=[SaveEvery(10, saves), Resume(saves)])
    assert curve(killed, "train/cost") == curve(whole, "train/cost")
    assert curve(killed, "train_mean/cost") == pytest.approx(curve(whole, "train_mean/cost"))
    assert [e.step for e in events(killed, "session_log")] == [0, 21]


def test_a_run_that_begins_anew_hides_the_old_one(tmp_path):
    train(Log(tmp_path, every=1), batches=8)
    train(Log(tmp_path, every=1), batches=3)
    assert len(find_event_files(tmp_path)[str(tmp_path)]) == 2
    assert list(curve(tmp_path, "train/cost")) == [1, 2, 3]


def test_a_file_system_that_fails_ends_the_log(tmp_path, monkeypatch):
    write = EventsWriter.write_event

    def fail(self, event):
        if event.step == 3:
            raise OSError(28, "No space left on device")
        write(self, event)

    expected = train(Log(tmp_path / "whole", every=1))
    monkeypatch.setattr(EventsWriter, "write_event", fail)
    with pytest.warns(LogWarning, match=r"the log in .* ends, .*No space left") as warned:
        costs = train(Log(tmp_path, every=1))
    assert len(warned) == 1 and costs == expected
    assert [e.step for e in events(tmp_path, "summary")][-1] == 2


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        train(Log(tmp_path / "file"))


@pytest.mark.parametrize("options", [{"every": 0}, {"histograms_every": -1}, {"every": 2.5}])
def test_a_wrong_period(options, tmp_path):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is a positive integer"):
        Log(tmp_path, **options)


def test_times_are_those_of_a_log_inside_of_the_data(tmp_path):
    runner = Runner()
    x = pd.Variable([None, 1], name="x")
    cost = ForwardBackward(pd.reduce_mean(x))
    for item in (Log(tmp_path, every=1), Device(), Counter(), Data([FEEDS] * 3), cost):
        runner.add_item(item)
    with runner:
        runner.run(1)
    (run,) = read_runs([tmp_path])
    assert set(run.curves) == {"train/cost", "samples_per_second", "train_mean/cost"}
    assert run.curves["train/cost"].points() == [(1, 2.0), (2, 2.0), (3, 2.0)]
