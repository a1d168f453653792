"""Optimizers: 2017's formulas step by step, learning-rate schedules, and settings of parameters."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.optimizer import Adam, L2Regularization, Momentum
from pd_v2.proto import ParameterConfig

START = [1.0, -2.0]
GRADIENTS = [[0.5, -1.0], [0.25, 0.5], [-0.125, 2.0]]


def stepped(optimizer, rate=0.1, gradients=GRADIENTS, multiplier=1.0, **settings):
    """A parameter after a step for each gradient, as a trainer configures and updates it."""
    config = ParameterConfig(name="w", size=2, dims=[2], learning_rate=multiplier, **settings)
    optimizer.configure(config)
    w = pd.Variable("w", data=START, learning_rate=multiplier)
    g, lr = pd.Variable.of((2,), np.float32, "g"), pd.Variable.of((), np.float32, "lr")
    update = optimizer.update([(w, g)], {"w": config}, lr)
    for gradient in gradients:
        pd.eval(update, {g: gradient, lr: rate})
    return w.val()


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (Momentum(), [0.9375, -2.15]),
        (Momentum(momentum=0.9, regularization=L2Regularization(0.01)), [0.82410973, -2.0131195]),
        (Adam(), [0.75041616, -1.9190998]),
        (Adam(regularization=L2Regularization(0.01)), [0.75041616, -1.9190998]),
    ],
    ids=["momentum", "momentum-decay", "adam", "adam-ignores-decay"],
)
def test_three_steps(optimizer, expected):
    np.testing.assert_allclose(stepped(optimizer), expected, rtol=1e-6)


def momentum_by_hand(rate=0.1, k=0.0, decay=0.0, limit=np.inf, multiplier=1.0):
    w, v = np.float64(START), np.zeros(2)
    for g in np.float64(GRADIENTS):
        g = np.clip(g, -limit, limit)
        v = k * v - rate * multiplier * (g + decay * w)
        w = w + v
    return w


def adam_by_hand(rate=0.1, beta1=0.9, beta2=0.999, epsilon=1e-8):
    w, m, v = np.float64(START), np.zeros(2), np.zeros(2)
    for t, g in enumerate(np.float64(GRADIENTS), 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        scale = rate * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        w = w - scale * m / (np.sqrt(v) + epsilon)
    return w


@pytest.mark.parametrize(
    ("settings", "by_hand"),
    [
        ({"multiplier": 2.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6, "multiplier": 2.0}),
        ({"multiplier": 0.0}, {"multiplier": 0.0}),
        ({"momentum": 0.5}, {"k": 0.5, "decay": 0.01, "limit": 0.6}),
        ({"momentum": 0.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
        ({"decay_rate": 0.3}, {"k": 0.9, "decay": 0.3, "limit": 0.6}),
        ({"decay_rate": 0.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
        ({"gradient_clipping_threshold": 0.3}, {"k": 0.9, "decay": 0.01, "limit": 0.3}),
        ({"gradient_clipping_threshold": 0.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
    ],
    ids=lambda v: next(iter(v.items())).__repr__(),
)
def test_a_parameter_s_own_settings_win_unless_they_are_0(settings, by_hand):
    optimizer = Momentum(
        momentum=0.9, regularization=[L2Regularization(0.01)], gradient_clipping_threshold=0.6
    )
    found = stepped(optimizer, **settings)
    np.testing.assert_allclose(found, momentum_by_hand(**by_hand), rtol=1e-6)


def test_adam_settings():
    found = stepped(Adam(beta1=0.5, beta2=0.9, epsilon=0.01))
    np.testing.assert_allclose(found, adam_by_hand(0.1, 0.5, 0.9, 0.01), rtol=1e-6)
    with pd.fresh():
        found = stepped(Adam(gradient_clipping_threshold=10.0), multiplier=3.0)
    np.testing.assert_allclose(found, adam_by_hand(0.3), rtol=1e-6)


def test_two_optimizers_keep_slots_of_their_own():
    first = stepped(Momentum(momentum=0.9))
    with pd.fresh():
        w = pd.Variable("w", data=START)
        g, lr = pd.Variable.of((2,), np.float32, "g"), pd.Variable.of((), np.float32, "lr")
        config = ParameterConfig(name="w", size=2, dims=[2], momentum=0.9)
        a, b = (Momentum().update([(w, g)], {"w": config}, lr) for _ in range(2))
        for gradient in GRADIENTS:
            pd.eval(a, {g: gradient, lr: 0.1})
        np.testing.assert_allclose(w.val(), first)
        pd.eval(b, {g: [1.0, 1.0], lr: 0.1})
        np.testing.assert_allclose(w.val(), first - 0.1, rtol=1e-6)


def test_settings_of_a_static_parameter_stay():
    config = ParameterConfig(name="w", size=2, is_static=True)
    Momentum(momentum=0.9, regularization=L2Regularization(0.1)).configure(config)
    assert (config.momentum, config.decay_rate) == (0, 0)


# ---- schedules

A, B = 0.01, 0.5


@pytest.mark.parametrize(
    ("schedule", "options", "samples", "expected"),
    [
        (None, {}, 1000, 0.1),
        ("constant", {"learning_rate_decay_a": A}, 1000, 0.1),
        ("poly", {"learning_rate_decay_a": A, "learning_rate_decay_b": B}, 300, 0.05),
        ("caffe_poly", {"learning_rate_decay_a": 400, "learning_rate_decay_b": 2}, 300, 0.1 / 16),
        ("caffe_poly", {"learning_rate_decay_a": 400, "learning_rate_decay_b": 2}, 401, 0.0),
        ("exp", {"learning_rate_decay_a": B, "learning_rate_decay_b": 200}, 300, 0.1 * 0.5**1.5),
        ("discexp", {"learning_rate_decay_a": B, "learning_rate_decay_b": 200}, 399, 0.05),
        ("discexp", {"learning_rate_decay_a": B, "learning_rate_decay_b": 200}, 400, 0.025),
        ("linear", {"learning_rate_decay_a": 1e-4, "learning_rate_decay_b": 0.01}, 300, 0.07),
        ("linear", {"learning_rate_decay_a": 1e-4, "learning_rate_decay_b": 0.01}, 2000, 0.01),
        ("manual", {"learning_rate_args": "100:1.0,200:0.5,300:0.1"}, 100, 0.1),
        ("manual", {"learning_rate_args": "100:1.0,200:0.5,300:0.1"}, 101, 0.05),
        ("manual", {"learning_rate_args": "100:1.0,200:0.5,300:0.1"}, 9999, 0.01),
    ],
)
def test_schedule(schedule, options, samples, expected):
    named = {} if schedule is None else {"learning_rate_schedule": schedule}
    optimizer = Momentum(learning_rate=0.1, **named, **options)
    assert optimizer.rate_at(samples, pass_id=0) == pytest.approx(expected)


@pytest.mark.parametrize(("pass_id", "expected"), [(0, 0.1), (1, 0.05), (2, 0.01), (9, 0.01)])
def test_schedule_by_passes(pass_id, expected):
    optimizer = Momentum(
        learning_rate=0.1, learning_rate_schedule="pass_manual", learning_rate_args="0:1,1:.5,2:.1"
    )
    assert optimizer.rate_at(1, pass_id) == pytest.approx(expected)


def test_the_rate_in_force_is_that_after_the_batch():
    x, t = (paddle.layer.data(name=n, type=paddle.data_type.dense_vector(1)) for n in "xt")
    y = paddle.layer.fc(x, size=1, name="y", act=paddle.activation.Linear(), bias_attr=False)
    cost = paddle.layer.square_error_cost(input=y, label=t)
    pool = paddle.parameters.create(cost)
    pool["_y.w0"] = np.zeros((1, 1))
    optimizer = Momentum(
        learning_rate=1.0, learning_rate_schedule="manual", learning_rate_args="2:1,4:.5,9:.25"
    )
    trainer = paddle.trainer.SGD(cost, pool, optimizer)
    values = [0.0]

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            values.append(float(pool["_y.w0"][0]))

    batch = [([1.0], [1.0])] * 2
    for _ in range(2):
        trainer.train(lambda: iter([batch] * 2), num_passes=2, event_handler=handler)
    w, expected = 0.0, [0.0]
    for rate in (1, 0.5, 0.25, 0.25) * 2:
        w -= rate * 2 * 2 * (w - 1)
        expected.append(w)
    assert values == expected


# ---- the configuration, and what is refused


def test_proto():
    config = Adam(learning_rate=0.01, beta1=0.8, is_async=True, batch_size=7).proto()
    assert (config.learning_method, config.algorithm) == ("adam", "async_sgd")
    assert (config.learning_rate, config.adam_beta1, config.adam_epsilon) == (0.01, 0.8, 1e-8)
    assert (config.batch_size, config.learning_rate_schedule) == (1, "poly")
    assert Momentum(sparse=True).proto().learning_method == "sparse_momentum"
    assert Momentum(0.9).proto().learning_method == "momentum"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learning_rat": 0.1}, TypeError, "unexpected keyword argument 'learning_rat'"),
        ({"learning_rate_schedule": "cosine"}, ValueError, "no learning_rate_schedule 'cosine'"),
        ({"learning_rate_schedule": "manual"}, ValueError, "'end:factor,end:factor', not ''"),
        ({"learning_rate_schedule": "exp"}, ValueError, "'exp' divides by learning_rate_decay_b"),
        ({"learning_rate_schedule": "discexp"}, ValueError, "'discexp' divides by"),
        ({"regularization": 0.01}, TypeError, "regularization is an L2Regularization, not 0.01"),
        ({"model_average": object()}, ValueError, "model averaging is not supported"),
    ],
)
def test_what_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        Momentum(**options)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"l1_rate": 0.1}, "parameter 'w': l1_rate is not supported"),
        (
            {"update_hooks": paddle.attr.Hook("pruning", 0.5)},
            "parameter 'w': update hooks are not supported",
        ),
    ],
)
def test_unsupported_settings_of_a_parameter(attribute, message):
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    param = paddle.attr.Param(name="w", **attribute)
    cost = paddle.layer.square_error_cost(paddle.layer.fc(x, size=2, param_attr=param), label=x)
    pool = paddle.parameters.create(cost)
    with pytest.raises(pd.GraphError, match=message):
        paddle.trainer.SGD(cost, pool, Momentum())
