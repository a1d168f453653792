"""Callbacks that call functions, keep the best parameters, or stop at NaN."""

from itertools import pairwise

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    CallEvery,
    CheckpointWarning,
    Counter,
    Data,
    Device,
    ForwardBackward,
    Resume,
    Runner,
    RunnerItem,
    SaveBest,
    SaveEvery,
    StopAtNaN,
    StopEarly,
    TrainStep,
    Update,
    runner_of,
)

from .fit.test_fit_resume import Network, Stepping, batch
from .resuming import assert_resumes
from .test_runner_training import callbacks


def watched(costs, *items, batches=1):
    """Run passes of batches with these costs; return the context."""
    left = iter(costs)
    usual = [Counter(), Data([0] * batches), TrainStep(lambda x: next(left))]
    with runner_of([*usual, *items]) as runner:
        return runner.run(len(costs) // batches)


class Own(RunnerItem):
    """A number of each pass, `own`: the first of `numbers`, then the second, …"""

    def __init__(self, *numbers):
        self.numbers = numbers

    def on_pass_end(self, following):
        following()
        self.context.pass_metrics["own"] = self.numbers[self.context.pass_id]


class Line(pd.nn.Module):
    """A column of weights."""

    def __init__(self):
        super().__init__("line")
        self.out = pd.nn.FC(1)

    def forward(self, x):
        return self.out(x)


# ---- functions


def test_a_function_is_called_after_each_pass():
    seen = []
    watched([3, 2, 1], lambda context: seen.append((context.pass_id, context.pass_metrics["cost"])))
    assert seen == [(0, 3.0), (1, 2.0), (2, 1.0)]


@pytest.mark.parametrize(
    "every, seen",
    [({"batches": 2}, [2, 4, 6]), ({"passes": 2}, [6]), ({}, [3, 6]), ({"batches": 4}, [4])],
)
def test_a_function_is_called_every_so_often(every, seen):
    found = []
    watched(range(6), CallEvery(lambda context: found.append(context.batches), **every), batches=3)
    assert found == seen


def test_a_function_stops_a_training():
    def enough(context):
        if context.cost < 2.5:
            context.stop()

    assert watched([3, 2, 1], enough).pass_id == 1


def test_a_function_of_fit_sees_the_validation():
    x, seen = np.ones((8, 2), np.float32), []
    history = Line().fit(
        x,
        x[:, :1],
        loss="mse",
        optimizer="adam",
        epochs=3,
        validation_split=0.5,
        callbacks=[lambda context: seen.append(context.test_metrics["cost"])],
    )
    assert seen == history["val_cost"]


def test_what_is_wrong_with_a_function():
    with pytest.raises(
        TypeError, match=r"add_item: a callback is called with \(context\); <lambda>"
    ):
        Runner().add_item(lambda: None)
    with pytest.raises(TypeError, match=r"CallEvery: the function is called with \(context\)"):
        CallEvery(lambda context, logs: None)
    with pytest.raises(ValueError, match="CallEvery: batches is a positive integer, not 0"):
        CallEvery(print, batches=0)
    step = TrainStep(lambda x: 0.0)
    with (
        pytest.raises(pd.GraphError, match="CallEvery: no item counts the batches"),
        runner_of([Data([0]), step, CallEvery(print, batches=1)]) as runner,
    ):
        runner.run_one_pass()


# ---- the best parameters

KINDS = {"static": Network, "a step of the module": Stepping}


def fitted(kind, *items, epochs=5):
    """Train on images; return the module, and its parameters and buffers after each epoch."""
    pd.reset(seed=2)
    module, after = KINDS[kind](), []
    own = {} if kind != "static" else {"optimizer": "adam", "loss": pd.nn.SoftmaxCrossEntropy()}

    def note(context):
        after.append({name: v.val() for name, v in module.get_states().items()})

    module.fit(*batch(), **own, epochs=epochs, callbacks=[*items, note], batch_size=3)
    return module, after


def assert_equal(module, values):
    assert values.keys() == module.get_states().keys()
    for name, v in module.get_states().items():
        np.testing.assert_array_equal(v.val(), values[name], err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_values_come_back(kind):
    numbers = Own(3.0, 1.0, 2.0, 4.0, 0.0)
    stop = StopEarly("own", patience=2, mode="min", restore_best=True)
    module, after = fitted(kind, numbers, stop)
    assert len(after) == 4
    assert_equal(module, after[1])
    assert {name for name in after[1] if (after[1][name] != after[3][name]).any()} >= {
        "hidden.W",
        "batch_norm.mean",
    }
    module, after = fitted(kind, numbers, StopEarly("own", patience=2, mode="min"))
    assert_equal(module, after[3])


@pytest.mark.parametrize("best", [0, 2, 4])
def test_the_best_values_come_back_after_the_last_pass(best):
    numbers = [1.0 if k == best else 2.0 for k in range(5)]
    stop = StopEarly("own", patience=9, mode="min", restore_best=True)
    module, after = fitted("static", Own(*numbers), stop)
    assert len(after) == 5
    assert_equal(module, after[best])


def test_the_best_values_come_back_after_an_error():
    def fail(context):
        if context.pass_id == 3:
            raise KeyboardInterrupt

    after = []
    pd.reset(seed=2)
    module = Network()

    def note(context):
        after.append({name: v.val() for name, v in module.get_states().items()})

    stop = StopEarly("own", patience=9, mode="min", restore_best=True)
    options = {"optimizer": "adam", "loss": pd.nn.SoftmaxCrossEntropy(), "epochs": 5}
    with pytest.raises(KeyboardInterrupt):
        module.fit(*batch(), **options, callbacks=[Own(3, 1, 2, 4, 5), stop, note, fail])
    assert_equal(module, after[1])


def test_the_best_values_are_in_checkpoints(tmp_path):
    def build():
        stop = StopEarly("own", patience=2, mode="min", restore_best=True)
        return [*callbacks(), Own(2.0, 1.0, 3.0), stop]

    assert_resumes(build, tmp_path, passes=3)


@pytest.mark.parametrize("passes", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_values_of_fit_are_in_checkpoints(kind, passes, tmp_path):
    """Those of a module that is built with the first batch, too, and where no pass is left."""

    def best():
        return Own(3.0, 1.0, 2.0, 4.0), StopEarly("own", patience=9, mode="min", restore_best=True)

    save = SaveEvery(passes=1, path=tmp_path, keep=None)
    module, after = fitted(kind, *best(), save, epochs=4)
    assert_equal(module, after[1])
    checkpoint = tmp_path / f"batch-{2 * passes:05d}"
    module, _ = fitted(kind, *best(), Resume(checkpoint), epochs=4)
    if passes == 4 and kind != "static":
        module.compile([(6, 2, 3, 4)])  # whose values wait for it
    assert_equal(module, after[1])


def test_what_was_not_kept_begins_anew(tmp_path):
    values = []

    def train(*items, **settings):
        pd.reset(seed=1)
        stop = StopEarly("own", patience=9, mode="min", **settings)
        note = lambda context: values.append(pd.default_session().values())  # noqa: E731
        with runner_of([*callbacks(), Own(1.0, 2.0, 3.0), stop, note, *items]) as runner:
            runner.run(3)
        return {v.name: a for v, a in pd.default_session().values().items()}

    train(SaveEvery(passes=1, path=tmp_path, keep=None))
    found = train(Resume(sorted(tmp_path.iterdir())[0]), restore_best=True)
    after = {v.name: a for v, a in values[-2].items()}  # of the first resumed pass
    trained = [name for name in found if name.endswith(".W")]
    assert trained
    for name in trained:
        np.testing.assert_array_equal(found[name], after[name])


def test_best_values_of_another_network_are_refused():
    stop = StopEarly(restore_best=True)
    with runner_of([*callbacks(), stop]) as runner:
        runner.run(1)
        state = stop.state()
        name = next(iter(state["values"]))
        array = state["values"][name]
        for values in ({**state["values"], name: array[..., :1]}, {"other": array}):
            with pytest.raises(
                pd.GraphError, match="of the best pass are those of another network"
            ):
                stop.check({**state, "values": values})
        stop.check(state)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_values_are_saved(kind, tmp_path):
    path, seen = tmp_path / "new" / "best.safetensors", []
    look = CallEvery(lambda context: seen.append(path.stat().st_mtime_ns), passes=1)
    save = SaveBest(path, "own", mode="max")
    module, after = fitted(kind, look, save, Own(1.0, 3.0, 3.0, 2.0, np.nan))
    assert [a == b for a, b in pairwise(seen)] == [False, True, True, True]
    assert_equal(module, after[-1])
    pd.load(path, list(module.get_states().values()))
    assert_equal(module, after[1])


def test_a_resumed_training_knows_what_was_best(tmp_path):
    path = tmp_path / "best.safetensors"
    folder = tmp_path / "saved"
    numbers = Own(2.0, 1.0, 1.5, 0.5)

    def train(passes, *items):
        pd.reset(seed=1)
        with runner_of([*callbacks(), numbers, SaveBest(path, "own", mode="min"), *items]) as r:
            r.run(passes)
        return path.read_bytes() if path.exists() else None

    whole = train(4)
    assert train(2, SaveEvery(passes=1, path=folder)) != whole
    path.unlink()
    assert train(3, Resume(folder)) is None
    assert train(4, Resume(folder)) == whole


def test_a_best_file_that_cannot_be_written(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError("no space left")

    path = tmp_path / "best.safetensors"
    monkeypatch.setattr("pd_core.training.control.write_tensors", full)
    with pytest.warns(CheckpointWarning, match="best.safetensors could not be written, it is as"):
        fitted("static", SaveBest(path), epochs=1)
    with pytest.raises(IsADirectoryError, match=r"SaveBest: .* is a folder, it writes a file"):
        fitted("static", SaveBest(tmp_path), epochs=1)


@pytest.mark.parametrize("item", [lambda: StopEarly(restore_best=True), lambda: SaveBest("best")])
def test_values_that_no_step_knows(item):
    with pytest.raises(pd.GraphError, match="no item trains parameters that are known\n  hint: Tr"):
        watched([1.0], item())


def test_the_best_values_of_a_function_are_its_parameters():
    w = pd.Variable("w", data=np.zeros(1, np.float32))

    def step(x):
        pd.default_session().set(w, w.val() + 1.0)
        return float(abs(w.val() - 2.0)[0])

    step = TrainStep(step, parameters={"w": w})
    pd_items = [Device(), Counter(), Data([0]), step]
    with runner_of([*pd_items, StopEarly(patience=3, restore_best=True)]) as runner:
        assert runner.run(9).pass_id == 4
    assert w.val() == 2.0


# ---- NaN


def roots(*more, before=()):
    """Items of a training whose third batch takes the root of negative numbers."""
    pd.reset()
    x = pd.Variable("x", shape=[None, 2])
    w = pd.Variable("w", data=np.ones(2, np.float32))
    cost = pd.reduce_mean(pd.sqrt(x * w))
    data = [[np.full((4, 2), a, np.float32)] for a in (1.0, 2.0, -1.0)]
    step = [ForwardBackward(cost), Update(pd.SGDOptimizer(0.1)), *more]
    return w, [Device(), Counter(), Data(data, inputs=[x]), *before, *step]


def test_a_cost_that_is_not_finite_ends_a_training(tmp_path):
    text = r"StopAtNaN: the cost of batch 2 of pass 0 \(counted from 0\) is nan\n  the array"
    _, items = roots(StopAtNaN(), SaveEvery(1, tmp_path, keep=None))
    with pytest.raises(pd.NumericError, match=text), runner_of(items) as runner:
        runner.run(1)
    assert sorted(path.name for path in tmp_path.glob("batch*")) == ["batch-00001", "batch-00002"]
    with pytest.raises(pd.NumericError, match=r"batch 1 of pass 2 \(counted from 0\) is inf"):
        watched([1, 2, 3, 4, 5, np.inf], StopAtNaN(), batches=2)


def test_the_operator_that_is_not_finite():
    w, items = roots(before=[StopAtNaN(operators=True)])
    with pytest.raises(pd.NumericError, match="Sqrt: its output has 8 NaN") as caught:  # noqa: SIM117
        with runner_of(items) as runner:
            runner.run(1)
    assert caught.value.__notes__ == ["  in     batch 2 of pass 0 (counted from 0)"]
    assert np.isfinite(w.val()).all()
    _, items = roots(StopAtNaN(operators=True))
    with pytest.raises(pd.GraphError, match="there is one around it\n  hint: add it before the"):
        runner_of(items).__enter__()


@pytest.mark.parametrize(
    "batch, text",
    [
        ({"x": np.array([[0.0, np.nan]])}, r"x \[1, 2\] is nan at \[0, 1\]"),
        ([np.ones(2), np.array([-np.inf])], r"array 1 of the batch \[1\] is -inf at \[0\]"),
        (np.array([1, 2]), "the arrays of the batch are finite"),
    ],
)
def test_the_array_that_is_not_finite(batch, text):
    step = TrainStep(lambda *arrays: np.nan)
    items = [Counter(), Data([batch]), step, StopAtNaN()]
    with pytest.raises(pd.NumericError, match=text), runner_of(items) as runner:
        runner.run(1)
