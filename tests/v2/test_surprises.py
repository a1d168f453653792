"""What surprises in a training of 2017, and scripts rely on; each at its smallest."""

import gzip
import io
import math

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import event as events
from pd_v2.attr import Param
from pd_v2.optimizer import AdaGrad, Adam, Adamax, L2Regularization, Momentum
from pd_v2.parameters import Parameters
from pd_v2.rand_r import RandR
from pd_v2.topology import Topology

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def dense(name, size=1):
    return L.data(name=name, type=T.dense_vector(size))


def trained(cost, optimizer, *batches, passes=1, **options):
    """The pool after some batches, and the events EndIteration and EndPass."""
    pool, seen = paddle.parameters.create(cost), []

    def handler(event):
        if isinstance(event, (events.EndIteration, events.EndPass)):
            seen.append((getattr(event, "cost", None), event.metrics))

    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    trainer.train(lambda: iter(batches), num_passes=passes, event_handler=handler)
    return pool, seen


def test_the_cost_of_steps_is_summed_and_divided_by_the_samples():
    """Five steps in two sequences: the sum over all steps, divided by two."""
    x = L.data(name="x", type=T.dense_vector_sequence(1))
    cost = L.sum_cost(x)
    batch = [([[1.0], [2.0], [3.0]],), ([[4.0], [5.0]],)]
    _, seen = trained(cost, Momentum(), batch)
    assert seen[0][0] == 15 / 2
    result = paddle.trainer.SGD(cost, paddle.parameters.create(cost), Momentum()).test(
        lambda: iter([batch, batch[:1]])
    )
    assert result.cost == (15 + 6) / 3


def test_the_coefficient_of_a_cost_scales_gradients_only():
    x, t = dense("x"), dense("t")
    y = L.fc(x, 1, A.Linear(), "y", Param(initial_std=0.0), bias_attr=False)
    cost = L.square_error_cost(y, t, coeff=0.25)
    pool, seen = trained(cost, Momentum(learning_rate=1.0), [([1.0], [2.0])])
    assert seen[0][0] == 4.0 and pool["_y.w0"].tolist() == [0.25 * 2 * 2]


def test_pass_metrics_precede_the_updates_and_include_dropout():
    x = dense("x", 400)
    thin = L.dropout(x, 0.5)
    paddle.evaluator.sum(thin, name="sum")
    cost = L.sum_cost(L.fc(thin, 1, name="y"))
    _, seen = trained(cost, Momentum(), [(np.ones(400),)], [(np.ones(400),)])
    sums = [metrics["sum"] for _, metrics in seen]
    assert all(100 < s < 300 and s != 200 for s in sums[:2]) and sums[0] != sums[1]
    assert sums[2] == np.mean(sums[:2])


def test_fields_come_in_the_order_of_definition():
    """Neither the order of arguments nor layers that are not used matter."""
    t, _unused, x = dense("t", 2), dense("unused", 5), dense("x", 3)
    y = L.fc(x, 2, A.Linear(), name="y")
    cost = L.square_error_cost(input=y, label=t)
    assert [name for name, _ in Topology(cost).data_type()] == ["t", "x"]
    trained(cost, Momentum(), [([1.0, 2.0], [1.0, 2.0, 3.0])])
    with pytest.raises(
        ValueError, match=r"data layer 't' \(column 0\).* expected 2 numbers, got 3"
    ):
        trained(cost, Momentum(), [([1.0, 2.0, 3.0], [1.0, 2.0])])


def test_evaluators_are_nothing_and_attach_themselves():
    x, label = dense("x", 2), L.data(name="label", type=T.integer_value(2))
    p = L.fc(x, 2, A.Softmax(), name="p")
    cost = L.classification_cost(p, label)
    extra = paddle.evaluator.auc(input=p, label=label)
    assert extra is None
    _, seen = trained(cost, Momentum(), [([1.0, 2.0], 1)], extra_layers=extra)
    assert set(seen[0][1]) == {"classification_error_evaluator", "__auc_evaluator_0__"}


def test_static_parameters_use_up_initial_values():
    first = L.fc(dense("x"), 2, name="a", param_attr=Param(is_static=True), bias_attr=False)
    cost = L.sum_cost(L.fc(first, 2, name="b", bias_attr=False))
    pool = paddle.parameters.create(cost)
    paddle.trainer.SGD(cost, pool, Momentum())
    stream = RandR(0)
    np.testing.assert_array_equal(pool["_a.w0"], stream.normal(0, 1, 2))
    np.testing.assert_array_equal(pool["_b.w0"], stream.normal(0, 1 / np.sqrt(2), 4))


@pytest.mark.parametrize("make", [Adam, Adamax])
def test_adam_knows_no_decay(make):
    def weights(**options):
        with paddle.build.fresh():
            cost = L.sum_cost(L.fc(dense("x"), 1, name="y", bias_attr=False))
            return trained(cost, make(learning_rate=0.1, **options), [([1.0],)])[0]["_y.w0"]

    np.testing.assert_array_equal(weights(), weights(regularization=L2Regularization(0.5)))


@pytest.mark.parametrize(("make", "scheduled"), [(AdaGrad, False), (Adamax, False), (Adam, True)])
def test_adagrad_and_adamax_know_no_schedule(make, scheduled):
    def weights(**options):
        with paddle.build.fresh():
            cost = L.sum_cost(L.fc(dense("x"), 1, name="y", bias_attr=False))
            return trained(cost, make(learning_rate=0.1, **options), [([1.0],)])[0]["_y.w0"]

    plain, other = weights(), weights(learning_rate_decay_a=1.0, learning_rate_decay_b=1.0)
    assert (plain != other).all() == scheduled


def test_training_goes_on_with_what_is_no_number():
    """2017 trapped the exception of the processor and died."""
    x = dense("x")
    cost = L.sum_cost(L.fc(x, 1, A.Log(), name="y", bias_attr=False))
    with pytest.warns(UserWarning, match="train: the cost is -inf in batch 0 of pass 0"):
        pool, seen = trained(cost, Momentum(learning_rate=0.1), [([-0.0],)], [([0.0],)])
    assert [math.isfinite(c) for c, _ in seen if c is not None] == [False, False]
    assert not np.isfinite(pool["_y.w0"]).all()


def test_a_second_training_restarts_passes_but_keeps_values():
    x, t = dense("x"), dense("t")
    y = L.fc(x, 1, A.Linear(), "y", Param(initial_std=0.0), bias_attr=False)
    cost = L.square_error_cost(y, t)
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, Momentum(learning_rate=0.25))
    passes = []

    def handler(event):
        if isinstance(event, events.BeginPass):
            passes.append((event.pass_id, float(pool["_y.w0"][0])))

    for _ in range(2):
        trainer.train(lambda: iter([[([1.0], [1.0])]]), num_passes=2, event_handler=handler)
    assert passes == [(0, 0.0), (1, 0.5), (0, 0.75), (1, 0.875)]


def test_trainers_of_one_pool_learn_together():
    """In 2017 each had values of its own, and the pool showed the first one's."""
    x, t = dense("x"), dense("t")
    y = L.fc(x, 1, A.Linear(), "y", Param(initial_std=0.0), bias_attr=False)
    costs = [L.square_error_cost(y, t) for _ in range(2)]
    pool = paddle.parameters.create(costs)
    trainers = [paddle.trainer.SGD(c, pool, Momentum(learning_rate=0.25)) for c in costs]
    found = []
    for trainer in trainers * 2:
        trainer.train(lambda: iter([[([1.0], [1.0])]]))
        found.append(float(pool["_y.w0"][0]))
    assert found == [0.5, 0.75, 0.875, 0.9375]
    assert pd.get_variable("_y.w0").val().ravel().tolist() == found[-1:]


def test_all_input_of_an_inference_is_one_batch():
    y = L.fc(dense("x", 2), 3, name="y")
    inference = paddle.inference.Inference(paddle.parameters.create(y), y)
    inference.infer(input=[([0.0, 0.0],)] * 7)
    (results,) = inference.iter_infer(input=[([0.0, 0.0],)] * 1000)
    assert results[0]["value"].shape == (1000, 3)


def test_rows_of_all_sequences_are_one_below_the_other():
    x = L.data(name="x", type=T.dense_vector_sequence(1))
    w = L.data(name="w", type=T.integer_value_sequence(9))
    double = L.slope_intercept(x, slope=2.0)
    pool = Parameters()
    rows = [([[1.0], [2.0]],), ([],), ([[3.0]],)]
    assert paddle.infer(double, pool, rows).tolist() == [[2], [4], [6]]
    ids = paddle.infer(w, pool, [([3, 4],), ([5],)], field="id")
    assert ids.tolist() == [3, 4, 5] and ids.dtype == np.int32


def test_values_of_a_script_s_own_tar_in_text_mode(tmp_path):
    """`open(path, 'w')` and `gzip.open(path, 'w')` both hold bytes."""
    pool = paddle.parameters.create(L.fc(dense("x"), 2, name="y"))
    with open(tmp_path / "p.tar", "w") as f:
        pool.to_tar(f)
    with gzip.open(tmp_path / "p.tar.gz", "w") as f:
        pool.to_tar(f)
    with open(tmp_path / "p.tar") as f:
        plain = Parameters.from_tar(f)
    with gzip.open(tmp_path / "p.tar.gz") as f:
        packed = Parameters.from_tar(f)
    for name in pool:
        np.testing.assert_array_equal(plain[name], pool[name])
        np.testing.assert_array_equal(packed[name], pool[name])


def test_a_dense_image_has_the_size_that_it_has():
    """Images of other sizes than the layer's go through; all of a batch are alike."""
    x = L.data(name="x", type=T.dense_vector(12))
    feeder = paddle.data_feeder.DataFeeder([("x", x.data_type)])
    assert feeder([(np.ones((3, 4, 5)),)])["x"].value.shape == (1, 60)
    with pytest.raises(ValueError, match=r"expected shape \(3, 4\) as in sample 0, got \(4, 3\)"):
        feeder([(np.ones((3, 4)),), (np.ones((4, 3)),)])


def test_what_init_is_given_from_the_environment(monkeypatch):
    monkeypatch.setenv("PADDLE_INIT_SEED", "42")
    monkeypatch.setenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "1")
    paddle.init()
    cost = L.sum_cost(L.fc(dense("x"), 2, name="y", bias_attr=False))
    pool = paddle.parameters.create(cost)
    paddle.trainer.SGD(cost, pool, Momentum(), is_local=False)
    np.testing.assert_array_equal(pool["_y.w0"], RandR(41).normal(0, 1, 2))


def test_a_pool_is_saved_before_any_training():
    cost = L.sum_cost(L.fc(dense("x"), 2, name="y"))
    pool = paddle.parameters.create(cost)
    f = io.BytesIO()
    paddle.trainer.SGD(cost, pool, Adam()).save_parameter_to_tar(f)
    found = Parameters.from_tar(io.BytesIO(f.getvalue()))
    np.testing.assert_array_equal(found["_y.w0"].ravel(), pool["_y.w0"])
