"""Trainings with fused kernels go on from their checkpoints as if they had not stopped."""

import argparse

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.backend.fused.build import available
from pd_core.training import Counter, Data, Device, ForwardBackward, Update
from pd_v2.runner import command_line, options
from tests.core.training import resuming
from tests.v2.runner import resuming as resuming_v2

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")


def items():
    x, label = pd.Variable("x", shape=[None, 4]), pd.Variable("label", shape=[None, 1])
    hidden = pd.dropout(pd.fc(pd.fc(x, size=8, act="tanh"), size=8, act="gelu"), 0.25)
    cost = pd.reduce_mean(pd.square(pd.fc(hidden, size=1) - label))
    rng = np.random.default_rng(1)
    batches = [(rng.random((3, 4), np.float32), rng.random((3, 1), np.float32)) for _ in range(3)]
    data = Data(batches, [x, label])
    return [Device(), Counter(), data, ForwardBackward(cost), Update(pd.AdamOptimizer(1e-2))]


def test_a_runner_goes_on_to_the_bit(tmp_path):
    with pd.fused():
        resuming.assert_resumes(items, tmp_path)


def test_whether_libraries_are_there_makes_no_difference(tmp_path, monkeypatch):
    found = []
    for folder in ("first", "first", "second"):
        monkeypatch.setenv("PD_FUSED_HOME", str(tmp_path / folder))
        pd.clear_programs()
        with pd.fused():
            found.append(resuming.train(items)[0])
    resuming.assert_same_state(found[0], found[1])
    resuming.assert_same_state(found[0], found[2])


def program(checkpoint):
    """A program of 2017, which trains on lists."""
    L, A, T = paddle.layer, paddle.activation, paddle.data_type
    x, y = L.data("x", T.dense_vector(4)), L.data("y", T.dense_vector(1))
    hidden = L.fc(x, 8, act=A.Sigmoid(), layer_attr=paddle.attr.Extra(drop_rate=0.2))
    cost = L.square_error_cost(L.fc(hidden, 1, act=A.Linear()), y)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(learning_rate=0.01))
    rng, costs = np.random.default_rng(2), []
    batches = [[(rng.random(4).tolist(), [0.5]) for _ in range(3)] for _ in range(3)]

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    trainer.train(lambda: iter(batches), 2, handler, checkpoint=checkpoint)
    return costs


def test_a_program_of_2017_goes_on_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setenv("PD_FUSE", "0")
    monkeypatch.setattr(options, "_current", options.Options())
    parser = paddle_parser()
    command_line.apply(parser.parse_args(["--fused"]))
    resuming_v2.assert_resumes(program, tmp_path, is_seeded=True)
    assert pd.Session().fused


def paddle_parser():

    parser = argparse.ArgumentParser()
    command_line.add_options(parser)
    return parser


def test_fused_without_a_compiler_ends_the_program(monkeypatch, capsys):
    monkeypatch.setenv("PD_CC", "no-such-compiler")
    parser = paddle_parser()
    with pytest.raises(SystemExit):
        command_line.check(parser.parse_args(["--fused"]), parser)
    assert "--fused: PD_CC='no-such-compiler' is no command" in capsys.readouterr().err
