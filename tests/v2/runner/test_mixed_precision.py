"""Mixed precision of trainers: by an argument, by `paddle.init`, by the command line."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.graph.node import ancestors
from pd_v2 import __main__ as command
from pd_v2 import build, settings
from pd_v2.not_finite import NotFiniteWarning
from pd_v2.runner import command_line
from pd_v2.runner.options import current_options, set_options

from .resuming import assert_resumes

L, A, T = paddle.layer, paddle.activation, paddle.data_type
RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(12, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def own_settings():
    before = settings._process.settings, current_options()
    yield
    settings._process.settings = before[0]
    set_options(before[1])


def reader(rows=ROWS):
    return paddle.batch(lambda: iter([(r[:4], r[4:], k % 9) for k, r in enumerate(rows)]), 4)


def made_trainer(optimizer=None, **options):
    x, y = L.data(name="x", type=T.dense_vector(4)), L.data(name="y", type=T.dense_vector(1))
    word = L.data(name="word", type=T.integer_value(9))
    rows = L.embedding(word, size=3, param_attr=paddle.attr.Param(sparse_update=True))
    hidden = L.batch_norm(L.fc([x, rows], size=3, act=A.Linear()), act=A.Tanh())
    cost = L.square_error_cost(L.fc(hidden, size=1, act=A.Linear()), y)
    optimizer = optimizer or paddle.optimizer.Momentum(0.9, learning_rate=0.01)
    return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer, **options)


def trained(rows=ROWS, passes=2, device="reference", **options):
    """Costs of the passes and the parameters."""
    costs = []

    def handle(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    with build.fresh(1), pd.Session(device):
        trainer = made_trainer(**options)
        trainer.train(reader(rows), passes, handle)
        test = trainer.test(reader(ROWS)).cost
        pool = trainer.__parameters__
        scales = [
            v.val() for v in trainer._step.updater.step.variables() if v.name.endswith("r_0/scale")
        ]
        return costs, {name: pool.get(name).copy() for name in pool}, scales, test


def test_costs_are_those_of_single_precision_up_to_rounding():
    costs, values, scales, test = trained()
    others, halves, (scale,), tested = trained(precision="mixed_float16")
    assert not scales and scale == 1024.0 and others != costs
    np.testing.assert_allclose(others, costs, rtol=0.01)
    assert tested == pytest.approx(test, rel=0.01)
    for name, value in values.items():
        assert halves[name].dtype == np.float32
        np.testing.assert_allclose(halves[name], value, atol=0.01)


def test_an_overflow_changes_nothing_but_the_scale():
    rows = ROWS.copy()
    rows[4:, 4] = np.inf
    with pytest.warns(NotFiniteWarning, match="the cost is inf in batch 1 of pass 0"):
        _, values, (scale,), _ = trained(rows, 1, "cpu", precision="mixed_float16")
    _, alone, _, _ = trained(ROWS[:4], 1, "cpu", precision="mixed_float16")
    assert scale == 1024.0 / 4
    for name, value in alone.items():
        if name in ("___batch_norm_0__.w1", "___batch_norm_0__.w2"):
            continue  # moving statistics follow every batch
        np.testing.assert_array_equal(values[name], value)


def test_a_scale_that_fits_no_gradient():
    with build.fresh(1), pd.Session("cpu") as session:
        trainer = made_trainer(precision="mixed_float16")

        def handle(event):
            if isinstance(event, paddle.event.EndIteration):
                session.set(trainer._step.updater.loss_scale, 2.0**-40)

        with pytest.warns(
            NotFiniteWarning, match="end of pass 0 the loss scale is 9.09e-13: gradie"
        ):
            trainer.train(reader(), 2, handle)
        assert trainer._step.loss_scales() == [2.0**-40]


def is_mixed(trainer):
    nodes = ancestors([trainer._step.targets[0]])
    return any(n.op_type == "MatMul" and n.outputs[0].dtype == np.float16 for n in nodes)


def test_who_decides():
    with build.fresh(1):
        assert not is_mixed(made_trainer())
        paddle.init(precision="mixed_float16")
        assert is_mixed(made_trainer()) and not is_mixed(made_trainer(precision="float32"))
        settings.set_flag("precision", "float32")
        parser = command._parser()
        arguments = parser.parse_args(["--precision", "mixed_float16", "-"])
        command_line.apply(arguments)
        assert is_mixed(made_trainer())
        command_line.apply(parser.parse_args(["-"]))
    assert command_line.split(["--precision", "float32", "train.py"])[1] == ["train.py"]


def test_a_runner():
    with build.fresh(1):
        x, y = L.data(name="x", type=T.dense_vector(4)), L.data(name="y", type=T.dense_vector(1))
        cost = L.square_error_cost(L.fc(x, size=1, act=A.Linear()), y)
        step = paddle.runner.ForwardBackward(cost, precision="mixed_float16")
        data = paddle.runner.Data(reader(), feeding={"x": 0, "y": 1})
        update = paddle.runner.Update(paddle.optimizer.Adam(learning_rate=0.01))
        items = [paddle.runner.Device(), paddle.runner.Counter(), data, step, update]
        with paddle.runner.runner_of(items) as runner:
            assert runner.run(2).pass_metrics["cost"] > 0
            assert any(v.name.endswith("good_steps") for v in step.step.updater.step.variables())


def test_what_is_refused():
    with build.fresh(1):
        with pytest.raises(pd.DTypeError, match="the device cpu has no bfloat16 kernels"):
            made_trainer(precision="mixed_bfloat16")
        with pytest.raises(ValueError, match=r"precision is one of float32, .*, not 'half'"):
            paddle.init(precision="half")
        with pytest.raises(ValueError, match="precision is one of"):
            paddle.runner.ForwardBackward([], precision="half")
        average = paddle.optimizer.ModelAverage(0.5, max_average_window=3)
        optimizer = paddle.optimizer.Adam(learning_rate=0.1, model_average=average)
        with pytest.raises(ValueError, match="precision='mixed_float16': ModelAverage counts"):
            made_trainer(optimizer, precision="mixed_float16")


def test_a_resumed_training_goes_on_with_its_scale(tmp_path):
    def program(checkpoint):
        trainer = made_trainer(precision="mixed_float16")
        trainer.train(reader(), 2, checkpoint=checkpoint)
        return []

    assert_resumes(program, tmp_path)
