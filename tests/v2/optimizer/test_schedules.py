"""Learning rates by samples and by passes, and when a rate is in force."""

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.optimizer import Momentum

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


@pytest.mark.parametrize(
    ("kind", "rate", "a", "b", "samples", "expected"),
    [
        ("poly", 0.1, 1e-4, 0.75, 12345, "0.0547160506"),
        ("poly", 0.1, 1e-4, 0.75, 2**24 + 1, "0.000381299295"),
        ("poly", 0.01, 5e-5, 0.9, 300, "0.00986689609"),
        ("caffe_poly", 0.1, 4000, 0.9, 2999, "0.0287433024"),
        ("exp", 0.1, 0.1, 1000, 1234, "0.00583445141"),
        ("exp", 0.1, 0.999, 7, 1000, "0.0866817534"),
        ("discexp", 0.1, 0.1, 1e5, 250000, "0.00100000005"),
        ("discexp", 0.1, 0.5, 0.1, 1, "9.76562515e-05"),
        ("discexp", 1.0, 0.5, 2**24 + 4, 2**24 + 3, "0.5"),  # float32 has no 2**24 + 3
        ("discexp", 0.1, 0.1, 3, 3 * 2**24 - 1, "0"),
        ("linear", 0.1, 1e-7, 0.01, 123456, "0.0876544043"),
        ("linear", 0.1, 1e-4, 0.01, 300, "0.0700000003"),
    ],
)
def test_rates_to_the_last_digit(kind, rate, a, b, samples, expected):
    """The numbers are of a C program with 2017's types: float, and double in powers."""
    options = {"learning_rate_decay_a": a, "learning_rate_decay_b": b}
    optimizer = Momentum(learning_rate=rate, learning_rate_schedule=kind, **options)
    assert f"{optimizer.rate_at(samples, 0):.9g}" == expected


def test_a_schedule_that_gives_no_number():
    optimizer = Momentum(learning_rate_decay_a=-1.0, learning_rate_decay_b=0.5)
    message = "'poly' with decay_a -1.0 and decay_b 0.5 gives no number after 3 samples"
    with pytest.raises(ValueError, match=message):
        optimizer.rate_at(3, 0)


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


def test_passes_are_counted_anew_by_every_training():
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    act, attr = paddle.activation.Linear(), paddle.attr.Param(name="w", initial_std=0.0)
    y = paddle.layer.fc(x, size=1, act=act, bias_attr=False, param_attr=attr)
    pool = paddle.parameters.create(y)
    optimizer = Momentum(
        learning_rate=1.0, learning_rate_schedule="pass_manual", learning_rate_args="0:1,1:.5,2:.25"
    )
    trainer, found = paddle.trainer.SGD(y, pool, optimizer), []

    def handler(event):
        if isinstance(event, paddle.event.EndPass):
            found.append(float(pool["w"][0]))

    for _ in range(2):
        trainer.train(lambda: iter([[([-1.0],)]] * 2), num_passes=3, event_handler=handler)
    assert found == [2.0, 3.0, 3.5, 5.5, 6.5, 7.0]
