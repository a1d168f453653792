"""The best pass of a training: a file with its parameters, early stopping, and back at its end."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import __main__ as command
from pd_v2.runner import CallEvery, command_line
from pd_v2.runner.options import Options, current_options, set_options

from .resuming import run

L, A, T = paddle.layer, paddle.activation, paddle.data_type
NUMBERS = [3.0, 1.0, 2.0, 4.0, 5.0]


@pytest.fixture(autouse=True)
def own_options():
    before = current_options()
    yield
    set_options(before)


def options(*arguments, checkpoint=None):
    """Set options as the command line does, with a checkpoint of its own."""
    parser = command._parser()
    command_line.apply(parser.parse_args([*map(str, arguments), "-"]))
    set_options(Options(checkpoint, current_options().items))


def made_trainer(**settings):
    x, y = L.data(name="x", type=T.dense_vector(4)), L.data(name="y", type=T.dense_vector(1))
    hidden = L.batch_norm(L.fc(x, size=3, act=A.Linear()), act=A.Tanh())
    cost = L.square_error_cost(L.fc(hidden, size=1, act=A.Linear()), y)
    optimizer = paddle.optimizer.Adam(learning_rate=0.1, **settings)
    return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)


def samples(seed=3):
    rows = np.random.default_rng(seed).normal(size=(8, 5)).astype(np.float32)
    return [(row[:4], row[4:]) for row in rows]


def reader(seed=3):
    return paddle.batch(lambda: iter(samples(seed)), 4)


def values(trainer):
    pool = trainer.__parameters__
    return {name: pool.get(name).copy() for name in pool}


def averages(trainer, path):
    """The parameters as `save_parameter_to_tar` writes them."""
    with open(path, "wb") as f:
        trainer.save_parameter_to_tar(f)
    return read(path)


def read(path):
    pool = paddle.parameters.Parameters.from_tar(str(path))
    return {name: pool.get(name).reshape(-1) for name in pool}


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name].reshape(-1), wanted[name].reshape(-1))


class Watched:
    """A training whose test finds NUMBERS; what the parameters were after each pass."""

    def __init__(self, tmp_path, average=False, numbers=NUMBERS):
        settings = {}
        if average:
            settings["model_average"] = paddle.optimizer.ModelAverage(0.5, max_average_window=3)
        self.trainer, self.numbers = made_trainer(**settings), numbers
        self.path, self.average = tmp_path, average
        self.passes, self.averages = {}, {}

    def handle(self, event):
        if isinstance(event, paddle.event.EndPass):
            k, trainer = event.pass_id, self.trainer
            trainer._context.test_metrics = {"cost": self.numbers[k]}
            self.passes[k] = values(trainer)
            self.averages[k] = averages(trainer, self.path / "average.tar")

    def train(self, passes=5, **more):
        self.trainer.train(reader(), passes, self.handle, **more)
        return self


@pytest.mark.parametrize("average", [False, True])
def test_a_training_ends_with_its_best_pass(average, tmp_path):
    best = tmp_path / "best.tar"
    options("--save-best", best, "--patience", 2, "--restore-best")
    found = Watched(tmp_path, average).train()
    assert list(found.passes) == [0, 1, 2, 3]
    assert_equal(values(found.trainer), found.passes[1])
    assert_equal(averages(found.trainer, tmp_path / "end.tar"), found.averages[1])
    assert_equal(read(best), found.averages[1])
    assert any((found.passes[1][n] != found.passes[3][n]).any() for n in found.passes[1])


def test_without_patience_all_passes_are_made(tmp_path):
    options("--restore-best", "--monitor", "val_cost")
    found = Watched(tmp_path).train()
    assert list(found.passes) == [0, 1, 2, 3, 4]
    assert_equal(values(found.trainer), found.passes[1])


def test_patience_alone_leaves_the_last_pass(tmp_path):
    options("--patience", 1)
    found = Watched(tmp_path).train()
    assert list(found.passes) == [0, 1, 2]
    assert_equal(values(found.trainer), found.passes[2])


def test_the_cost_of_a_pass_without_tests(tmp_path):
    trainer, costs = made_trainer(), []
    options("--save-best", tmp_path / "best.safetensors", "--monitor", "cost")
    items = current_options().items
    kept = CallEvery(lambda context: costs.append(context.pass_metrics["cost"]))
    set_options(Options(None, lambda number: [*items(number), kept]))
    trainer.train(reader(), 3)
    assert costs == sorted(costs, reverse=True)  # each pass is better
    stored = load_file(tmp_path / "best.safetensors")
    assert_equal({name: stored[name] for name in values(trainer)}, values(trainer))


def test_several_trainings_have_files_of_their_own(tmp_path):
    options("--save-best", tmp_path / "best.tar")
    first, second = Watched(tmp_path).train(2), Watched(tmp_path, numbers=[1.0, 2.0]).train(2)
    assert_equal(read(tmp_path / "best.tar"), first.passes[1])
    assert_equal(read(tmp_path / "best-2.tar"), second.passes[0])


def test_a_training_that_fails_keeps_its_file(tmp_path):
    options("--save-best", tmp_path / "best.tar")

    def failing(event):
        raise RuntimeError("once")

    with pytest.raises(RuntimeError, match="once"):
        made_trainer().train(reader(), 1, failing)
    Watched(tmp_path).train(1)
    assert (tmp_path / "best.tar").exists() and not (tmp_path / "best-2.tar").exists()


def test_a_metric_that_is_not_there(tmp_path):
    options("--patience", 1, "--monitor", "test/accuracy")
    with pytest.raises(pd.GraphError, match="StopEarly: there is no 'test/accuracy' at the end"):
        Watched(tmp_path).train()


def test_a_tar_is_of_layers(tmp_path):
    x = pd.Variable([None, 2], name="x")
    cost = pd.reduce_mean(pd.layer.fc(x, 1))
    items = [pd.training.Device(), pd.training.Counter(), pd.training.Data([{x: np.ones((1, 2))}])]
    items += [pd.training.ForwardBackward(cost), paddle.runner.SaveBest(tmp_path / "best.tar")]
    with pytest.raises(pd.GraphError, match=r"SaveBest: .*best\.tar is for parameters of"):
        pd.training.runner_of(items).__enter__()


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("batches", [2, 5, 8])
def test_a_resumed_training_ends_with_the_same_best_pass(average, batches, tmp_path):
    """Stopped after so many of its batches, and started again."""

    class Killed(Exception):
        pass

    def program(checkpoint, dies=False):
        options(
            *("--save-best", tmp_path / "best.tar", "--patience", 2, "--restore-best"),
            checkpoint=checkpoint,
        )
        found, seen = Watched(tmp_path, average), []

        def handle(event):
            found.handle(event)
            if isinstance(event, paddle.event.EndIteration):
                seen.append(event)
                if dies and len(seen) == batches:
                    raise Killed

        found.trainer.train(reader(), 5, handle)
        return values(found.trainer), averages(found.trainer, tmp_path / "end.tar")

    *_, whole = run(program, None)
    wanted = read(tmp_path / "best.tar")
    (tmp_path / "best.tar").unlink()
    saved = paddle.Checkpoint(tmp_path / "saved", every_batches=1)
    with pytest.raises(Killed):
        run(lambda c: program(c, dies=True), saved)
    *_, again = run(program, paddle.Checkpoint(tmp_path / "saved", every_batches=1))
    for one, other in zip(again, whole, strict=True):
        assert_equal(one, other)
    if (tmp_path / "best.tar").exists():  # else it was written before
        assert_equal(read(tmp_path / "best.tar"), wanted)
