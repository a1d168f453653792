"""The trainer: events in their order, costs, metrics, gradients, and updates by hand."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import event as events
from pd_v2.attr import Param
from pd_v2.optimizer import L2Regularization, Momentum
from pd_v2.training.gradient_machine import GradientMachine

from .layer import reference_layers as naive

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def dense(name, size):
    return L.data(name=name, type=T.dense_vector(size))


def line(**options):
    """y = x w + b for x [2], t [1], both parameters 0; its cost and its pool."""
    x, t = dense("x", 2), dense("t", 1)
    y = L.fc(x, size=1, name="y", act=A.Linear(), **options)
    cost = L.square_error_cost(input=y, label=t, name="cost")
    return cost, zeroed(paddle.parameters.create(cost))


def zeroed(pool):
    for name in pool:
        pool[name] = np.zeros(pool.get_shape(name))
    return pool


def classifier():
    """Softmax of x [3] as it is, against a label."""
    x, label = dense("x", 3), L.data(name="label", type=T.integer_value(3))
    p = L.fc(x, size=3, name="p", act=A.Softmax(), bias_attr=False)
    cost = L.classification_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    pool["_p.w0"] = np.eye(3)
    return cost, pool


def sgd(cost, pool, rate=0.0, extra_layers=None, **options):
    optimizer = Momentum(learning_rate=rate, **options)
    return paddle.trainer.SGD(cost, pool, optimizer, extra_layers=extra_layers)


def reader(*batches):
    return lambda: iter(batches)


SAMPLES = [([1.0, 2.0], [3.0]), ([0.0, 1.0], [1.0]), ([2.0, 0.0], [2.0])]
ONE = (([1.0, 0.0, 0.0], 0),)


class Log:
    """An event handler that keeps what it saw."""

    def __init__(self, note=lambda event: None):
        self.seen, self.notes, self.note = [], [], note

    def __call__(self, event):
        numbers = [getattr(event, n) for n in ("pass_id", "batch_id") if hasattr(event, n)]
        self.seen.append((type(event).__name__, *numbers))
        noted = self.note(event)
        if noted is not None:
            self.notes.append(noted)

    def of(self, kind):
        return [entry for entry in self.seen if entry[0] == kind]


def costs_of(event):
    return event.cost if isinstance(event, events.EndIteration) else None


# ---- events


def test_events_in_their_order():
    log = Log()
    sgd(*line()).train(reader(SAMPLES[:2], SAMPLES[2:]), num_passes=2, event_handler=log)
    one_batch = ("BeginIteration", "EndForwardBackward", "EndIteration")
    expected = []
    for p in (0, 1):
        expected.append(("BeginPass", p))
        expected += [(name, p, b) for b in (0, 1) for name in one_batch]
        expected.append(("EndPass", p))
    assert log.seen == expected


def test_a_second_training_counts_anew():
    trainer, log = sgd(*line()), Log()
    for _ in range(2):
        trainer.train(reader(SAMPLES), event_handler=log)
    assert log.of("BeginPass") == [("BeginPass", 0)] * 2


def test_an_empty_pass():
    log = Log()
    with pytest.warns(UserWarning, match="reader gave no batches in pass 0, so it trained nothing"):
        sgd(*classifier()).train(reader(), event_handler=log)
    assert log.seen == [("BeginPass", 0), ("EndPass", 0)]


def test_the_reader_is_called_once_more_than_there_are_passes():
    calls = []

    def read():
        calls.append(None)
        return iter([SAMPLES])

    sgd(*line()).train(read, num_passes=3)
    assert len(calls) == 4


@pytest.mark.parametrize("bad", [lambda: [SAMPLES], [SAMPLES], None])
def test_a_reader_is_a_function_that_gives_an_iterator(bad):
    with pytest.raises(TypeError, match="train_data_reader should be a function, which can return"):
        sgd(*line()).train(bad)


def test_a_handler_is_callable():
    trainer = sgd(*line())
    for bad in (3, 0):
        with pytest.raises(TypeError, match="event handler should be a function"):
            trainer.train(reader(SAMPLES), event_handler=bad)


@pytest.mark.parametrize("kind", ["BeginPass", "EndForwardBackward", "EndIteration", "EndPass"])
def test_what_a_handler_raises_comes_out(kind):
    def handler(event):
        if type(event).__name__ == kind:
            raise KeyError("stop")

    cost, pool = line()
    trainer = sgd(cost, pool, rate=0.1)
    with pytest.raises(KeyError, match="stop"):
        trainer.train(reader(SAMPLES), event_handler=handler)
    assert bool(pool["_y.w0"].any()) == (kind in ("EndIteration", "EndPass"))
    assert not pool.get_grad("_y.w0").any()


def test_train_prints_nothing(capfd):
    sgd(*line()).train(reader(SAMPLES))
    assert capfd.readouterr() == ("", "")


# ---- costs and metrics


def test_cost_is_the_sum_over_the_number_of_samples():
    log = Log(costs_of)
    batches = paddle.batch(lambda: iter(SAMPLES), 2)
    sgd(*line()).train(batches, event_handler=log)
    assert log.notes == [(9 + 1) / 2, 4.0]


def test_cost_is_that_before_the_update():
    log = Log(costs_of)
    sgd(*line(), rate=0.1).train(reader(SAMPLES), event_handler=log)
    assert log.notes == pytest.approx([14 / 3])


def test_several_costs_are_summed():
    cost, pool = line()
    other = L.square_error_cost(input=L.get_layer("y"), label=L.get_layer("t"), coeff=0.5)
    log = Log(costs_of)
    sgd([cost, other], pool, rate=1.0).train(reader(SAMPLES[1:2]), event_handler=log)
    assert log.notes == [2.0]
    assert pool["_y.wbias"].tolist() == [2 + 1]


def test_metrics_of_the_batch_and_of_the_pass():
    def note(event):
        if isinstance(event, (events.EndIteration, events.EndPass)):
            return type(event).__name__, event.metrics

    log = Log(note)
    wrong = (([1.0, 0.0, 0.0], 1),)
    passes = iter([iter(()), iter([ONE + wrong, ONE * 2]), iter([wrong])])
    sgd(*classifier()).train(lambda: next(passes), num_passes=2, event_handler=log)
    found = [(kind, *metrics.items()) for kind, metrics in log.notes]
    name = "classification_error_evaluator"
    assert found == [
        ("EndIteration", (name, 0.5)),
        ("EndIteration", (name, 0.0)),
        ("EndPass", (name, 0.25)),
        ("EndIteration", (name, 1.0)),
        ("EndPass", (name, 1.0)),
    ]


def test_metrics_are_alive():
    kept = []

    def handler(event):
        if isinstance(event, events.EndIteration):
            kept.append(event)

    wrong = (([1.0, 0.0, 0.0], 1),)
    sgd(*classifier()).train(reader(wrong, ONE), event_handler=handler)
    assert [list(e.metrics.values()) for e in kept] == [[0.0], [0.0]]
    assert kept[0].metrics is not kept[0].metrics


def test_extra_layers_are_for_their_evaluators_only():
    cost, pool = classifier()
    x = L.get_layer("x")
    aside = L.fc(x, size=3, name="aside", act=A.Softmax())
    paddle.evaluator.classification_error(input=aside, label=L.get_layer("label"), name="aside")
    trainer = sgd(cost, pool, rate=1.0, extra_layers=aside)
    before = pool["_aside.w0"]
    log = Log(lambda e: e.metrics if isinstance(e, events.EndPass) else None)
    trainer.train(reader(ONE), event_handler=log)
    assert set(log.notes[0]) == {"classification_error_evaluator", "aside"}
    np.testing.assert_array_equal(pool["_aside.w0"], before)
    assert list(trainer.get_topology_proto().output_layer_names) == [cost.name]


# ---- gradients


def test_extra_costs_are_minimized_but_not_reported():
    """As the further classifiers of GoogLeNet are, with coefficients of their own."""
    x, t = dense("x", 1), dense("t", 1)
    y = L.fc(x, size=1, name="y", act=A.Linear(), bias_attr=False)
    z = L.fc(x, size=1, name="z", act=A.Linear(), bias_attr=False)
    cost = L.square_error_cost(input=y, label=t)
    pool = paddle.parameters.create(cost)
    pool["_y.w0"] = np.ones((1, 1))
    trainer = sgd(
        cost, pool, 0.1, extra_layers=[L.square_error_cost(input=z, label=t, coeff=0.5), z]
    )
    pool["_z.w0"] = np.full(1, 2.0)
    log = Log(costs_of)
    trainer.train(reader([([1.0], [3.0])]), event_handler=log)
    assert log.notes == [4.0]  # (1 - 3)²
    assert pool["_y.w0"].tolist() == pytest.approx([1.4])
    assert pool["_z.w0"].tolist() == pytest.approx([2.1])  # 0.1 · 0.5 · 2 (3 - 2)


def test_gradients_are_there_between_backward_and_update():
    def note(event):
        return pool.get_grad("_y.w0").tolist(), pool.get_grad("_y.wbias").tolist()

    cost, pool = line()
    log = Log(note)
    sgd(cost, pool, rate=0.5).train(reader(SAMPLES), event_handler=log)
    zero = ([0, 0], [0])
    assert log.notes == [zero, zero, ([-14, -14], [-12]), zero, zero]
    assert pool.get_grad("_y.w0").tolist() == [0, 0]


def test_gradients_of_a_batch_are_computed_together(monkeypatch):
    asked, compute = [], GradientMachine.gradients

    def counted(machine, variables):
        asked.append(len(variables))
        return compute(machine, variables)

    def handler(event):
        if isinstance(event, events.EndForwardBackward):
            names = ["_y.w0", "_y.w0", "_y.wbias"] if event.batch_id else ["_y.w0", "_y.w0"]
            first = [pool.get_grad(name) for name in names]
            first[0][:] = 0  # their own
            assert pool.get_grad("_y.w0").any()

    monkeypatch.setattr(GradientMachine, "gradients", counted)
    cost, pool = line()
    sgd(cost, pool).train(reader(*[SAMPLES] * 4), event_handler=handler)
    assert asked == [1, 1, 2, 2, 2]


def test_gradients_are_finite_differences(rng):
    x, label = dense("x", 5), L.data(name="label", type=T.integer_value(3))
    h = L.fc(x, size=4, name="h")
    cost = L.classification_cost(L.fc(h, size=3, name="p", act=A.Softmax()), label=label)
    pool = paddle.parameters.create(cost)
    values = {n: rng.normal(0, 1, pool.get_shape(n)).astype(np.float32) for n in pool}
    for name, value in values.items():
        pool[name] = value
    xs, labels = rng.standard_normal((6, 5)), rng.integers(0, 3, 6)

    def total(v):
        hidden = np.tanh(xs @ v["_h.w0"] + v["_h.wbias"])
        return naive.cross_entropy(naive.softmax(hidden @ v["_p.w0"] + v["_p.wbias"]), labels).sum()

    def handler(event):
        if isinstance(event, events.EndForwardBackward):
            for name in pool:
                way = rng.standard_normal(values[name].shape)
                up, down = (total(values | {name: values[name] + e * way}) for e in (1e-5, -1e-5))
                slope = pool.get_grad(name) @ way.ravel()
                assert slope == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-4)

    log = Log(handler)
    sgd(cost, pool).train(
        reader([(a, int(b)) for a, b in zip(xs, labels, strict=True)]), event_handler=log
    )
    assert len(log.seen) == 5


def test_gradients_have_the_random_draws_of_the_step(rng):
    x, t = dense("x", 50), dense("t", 1)
    y = L.fc(L.dropout(x, 0.5), size=1, name="y", act=A.Linear(), bias_attr=False)
    cost = L.square_error_cost(input=y, label=t)
    pool = zeroed(paddle.parameters.create(cost))

    def note(event):
        if isinstance(event, events.EndForwardBackward):
            return pool.get_grad("_y.w0"), pool.get_grad("_y.w0")

    log = Log(note)
    sgd(cost, pool, rate=1.0).train(reader([(np.ones(50), [1.0])]), event_handler=log)
    ((first, again),) = log.notes
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(pool["_y.w0"], -first)
    assert 10 < (first != 0).sum() < 40


# ---- updates


def test_a_static_parameter_stays():
    cost, pool = line(param_attr=Param(is_static=True))
    log = Log(lambda e: pool.get_grad("_y.w0").tolist())
    trainer = sgd(cost, pool, rate=0.1, momentum=0.9, regularization=L2Regularization(0.1))
    trainer.train(reader(SAMPLES), event_handler=log)
    assert pool["_y.w0"].tolist() == [0, 0] and pool["_y.wbias"].tolist() != [0]
    assert log.notes == [[0, 0]] * 5


def test_training_with_nothing_to_learn():
    static = Param(is_static=True)
    cost, pool = line(param_attr=static, bias_attr=static)
    log = Log(costs_of)
    sgd(cost, pool, rate=0.1).train(reader(SAMPLES), event_handler=log)
    assert log.notes == pytest.approx([14 / 3]) and not pool["_y.w0"].any()


def test_settings_of_each_parameter(rng):
    """Learning rate, momentum, decay and clipping of one parameter, the optimizer's for another."""
    own = Param(learning_rate=3.0, momentum=0.5, l2_rate=0.2, gradient_clipping_threshold=2.0)
    cost, pool = line(param_attr=own)
    options = {"momentum": 0.9, "regularization": L2Regularization(0.1)}
    trainer = sgd(cost, pool, rate=0.01, gradient_clipping_threshold=5.0, **options)
    xs, ts = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 3, 1))
    trainer.train(reader(*[list(zip(x, t, strict=True)) for x, t in zip(xs, ts, strict=True)]))
    w, b, vw, vb = np.zeros((2, 1)), np.zeros(1), 0.0, 0.0
    for x, t in zip(xs, ts, strict=True):
        error = 2 * (x @ w + b - t)
        gw, gb = np.clip(x.T @ error, -2, 2), np.clip(error.sum(0), -5, 5)
        vw = 0.5 * vw - 0.03 * (gw + 0.2 * w)
        vb = 0.9 * vb - 0.01 * (gb + 0.1 * b)
        w, b = w + vw, b + vb
    np.testing.assert_allclose(pool["_y.w0"], w.ravel(), rtol=1e-5)
    np.testing.assert_allclose(pool["_y.wbias"], b, rtol=1e-5)


def test_the_settings_in_the_configuration():
    """A rate of 0 does not switch the optimizer's off, as in 2017."""
    cost, pool = line(param_attr=Param(l2_rate=6e-4), bias_attr=Param(l2_rate=0.0, momentum=0.0))
    trainer = sgd(cost, pool, momentum=0.9, regularization=L2Regularization(8e-4))
    found = {c.name: (c.decay_rate, c.momentum) for c in trainer.get_topology_proto().parameters}
    assert found == {"_y.w0": (6e-4, 0.9), "_y.wbias": (8e-4, 0.9)}
    assert pool.__param_conf__["_y.wbias"].decay_rate == 8e-4


def test_defaults_are_those_of_the_trainer_s_own_optimizer():
    cost, pool = line()
    first = sgd(cost, pool, momentum=0.9, regularization=L2Regularization(0.1))
    second = sgd(cost, pool, gradient_clipping_threshold=1.0)
    fields = ("momentum", "decay_rate", "gradient_clipping_threshold")
    found = [
        {tuple(getattr(c, f) for f in fields) for c in t.get_topology_proto().parameters}
        for t in (first, second)
    ]
    assert found == [{(0.9, 0.1, 0.0)}, {(0.0, 0.0, 1.0)}]


def test_moving_statistics_move_in_training_only(rng):
    x, t = dense("x", 2), dense("t", 2)
    y = L.batch_norm(x, name="y", act=A.Linear(), moving_average_fraction=0.75)
    cost = L.square_error_cost(input=y, label=t)
    pool = paddle.parameters.create(cost)
    trainer = sgd(cost, pool)
    xs = rng.normal(3, 2, (2, 8, 2)).astype(np.float32)
    batches = reader(*[[(row, [0, 0]) for row in batch] for batch in xs])

    def stored():
        return np.array([pool["_y.w1"], pool["_y.w2"]])

    trainer.test(batches)
    log = Log(lambda e: pool.get_grad("_y.w0") if hasattr(e, "batch_id") else None)
    assert not stored().any()
    trainer.train(batches, event_handler=log)
    mean, variance = 0.0, 0.0
    for batch in xs.astype(np.float64):
        mean = 0.75 * mean + 0.25 * batch.mean(0)
        variance = 0.75 * variance + 0.25 * batch.var(0)
    np.testing.assert_allclose(stored(), [mean, variance], rtol=1e-5)
    trainer.test(batches)
    np.testing.assert_allclose(stored(), [mean, variance], rtol=1e-5)
    expected = (xs[0] - mean) / np.sqrt(variance + 1e-5)
    found = paddle.infer(y, pool, [(row,) for row in xs[0]])
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_moving_statistics_of_extra_layers_move_too():
    cost, pool = line()
    aside = L.batch_norm(L.get_layer("x"), name="aside")
    trainer = sgd(cost, pool, extra_layers=aside)
    trainer.train(reader(SAMPLES))
    np.testing.assert_allclose(pool["_aside.w1"], [0.1, 0.1], rtol=1e-6)


def mlp_step(values, x, label):
    """Cost per sample and gradients of the digits network, in float64."""
    inputs, z = [x], None
    for k in range(3):
        z = inputs[-1] @ values[f"_l{k}.w0"] + values[f"_l{k}.wbias"]
        inputs.append(naive.relu(z))
    p = naive.softmax(z)
    delta, found = p - np.eye(10)[label], {}
    for k in (2, 1, 0):
        found[f"_l{k}.w0"], found[f"_l{k}.wbias"] = inputs[k].T @ delta, delta.sum(0)
        delta = delta @ values[f"_l{k}.w0"].T * (inputs[k] > 0)
    return naive.cross_entropy(p, label).mean(), found


def test_twenty_steps_of_the_digits_network(rng):
    """784-128-64-10 with momentum and decay from 2017's start, against float64."""
    x, label = dense("x", 784), L.data(name="label", type=T.integer_value(10))
    h = x
    for k, (size, act) in enumerate(((128, A.Relu()), (64, A.Relu()), (10, A.Softmax()))):
        h = L.fc(h, size=size, act=act, name=f"l{k}")
    cost = L.classification_cost(input=h, label=label)
    pool = paddle.parameters.create(cost)
    rate, decay = 0.1 / 32, 0.0005 * 32
    options = {"momentum": 0.9, "regularization": L2Regularization(decay)}
    trainer = sgd(cost, pool, rate=rate, **options)
    values = {n: pool[n].reshape(pool.get_shape(n)).astype(np.float64) for n in pool}
    velocity = dict.fromkeys(values, 0.0)
    images = rng.uniform(-1, 1, (20, 32, 784)).astype(np.float32)
    labels = rng.integers(0, 10, (20, 32))
    expected = []
    for xs, ys in zip(images.astype(np.float64), labels, strict=True):
        one, gradients = mlp_step(values, xs, ys)
        expected.append(one)
        for n, w in values.items():
            velocity[n] = 0.9 * velocity[n] - rate * (gradients[n] + decay * w)
            values[n] = w + velocity[n]
    log = Log(costs_of)
    batches = [
        [(a, int(b)) for a, b in zip(*pair, strict=True)]
        for pair in zip(images, labels, strict=True)
    ]
    trainer.train(reader(*batches), event_handler=log)
    np.testing.assert_allclose(log.notes, expected, rtol=1e-5)
    for n, w in values.items():
        np.testing.assert_allclose(pool[n], w.ravel(), rtol=1e-4, atol=1e-6)


# ---- test


def test_test_gives_the_cost_of_all_samples():
    cost, pool = line()
    result = sgd(cost, pool, rate=0.1).test(reader(SAMPLES[:2], SAMPLES[2:]))
    assert isinstance(result, events.TestResult)
    assert result.cost == pytest.approx(14 / 3) and result.metrics == {}
    assert not pool["_y.w0"].any()


def test_test_is_in_inference_mode():
    x, t = dense("x", 1), dense("t", 1)
    cost = L.square_error_cost(input=L.dropout(x, 0.5), label=t)
    result = sgd(cost, paddle.parameters.create(cost)).test(reader([([2.0], [0.0])] * 20))
    assert result.cost == 1.0


def test_test_has_metrics_and_leaves_those_of_the_pass_alone():
    cost, pool = classifier()
    trainer = sgd(cost, pool)
    results = []

    def handler(event):
        if isinstance(event, events.EndIteration):
            results.append(trainer.test(reader((([1.0, 0.0, 0.0], 1),))))
        if isinstance(event, events.EndPass):
            results.append(event)

    trainer.train(reader(ONE, ONE), event_handler=handler)
    assert [list(r.metrics.values()) for r in results] == [[1.0], [1.0], [0.0]]


def test_test_takes_any_iterable_but_an_empty_one():
    trainer = sgd(*line())
    assert trainer.test(lambda: [SAMPLES]).cost == pytest.approx(14 / 3)
    with pytest.raises(ZeroDivisionError, match="test: the reader gave no samples"):
        trainer.test(reader())
    with pytest.raises(TypeError, match="test: the reader is a function that gives batches"):
        trainer.test([SAMPLES])


# ---- feeding, and what is refused


@pytest.mark.parametrize(
    ("feeding", "swapped"), [(None, False), ({"x": 1, "t": 0}, True), (["t", "x"], True)]
)
def test_feeding(feeding, swapped):
    cost, pool = line()
    batch = [(t, x) if swapped else (x, t) for x, t in SAMPLES]
    log = Log(costs_of)
    trainer = sgd(cost, pool)
    trainer.train(reader(batch), event_handler=log, feeding=feeding)
    assert log.notes == pytest.approx([14 / 3])
    assert trainer.test(reader(batch), feeding=feeding).cost == pytest.approx(14 / 3)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([([1.0, 0.0, 0.0], 3)], r"data layer 'label' \(column 1\), sample 0: .* 0 to 2, got 3"),
        ([([1.0, 0.0, 0.0], -1)], "expected an integer from 0 to 2, got -1"),
        ([([1.0, 0.0], 0)], r"data layer 'x' \(column 0\), sample 0: expected 3 numbers, got 2"),
        ([*ONE, ([1.0, 0.0, 0.0],)], "sample 1: the sample has only 1 field"),
        ([(0, [1.0, 0.0, 0.0])], r"data layer 'label' \(column 1\), .* got \[1.0, 0.0, 0.0\]"),
    ],
)
def test_samples_that_do_not_fit(batch, message):
    with pytest.raises(ValueError, match=message):
        sgd(*classifier()).train(reader(batch))


def test_a_column_that_is_not_fed():
    with pytest.raises(KeyError, match="feeding has no entry for data layer 't', only for 'x'"):
        sgd(*line()).train(reader(SAMPLES), feeding={"x": 0})


def test_what_a_trainer_is_made_of():
    cost, pool = line()
    with pytest.raises(TypeError, match="parameters should be parameters"):
        paddle.trainer.SGD(cost, {}, Momentum())
    with pytest.raises(TypeError, match="update equation parameter must be"):
        paddle.trainer.SGD(cost, pool, 0.1)
    with pytest.raises(ValueError, match="layer should have type"):
        paddle.trainer.SGD("cost", pool, Momentum())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, None),
        ({"num_gradient_servers": 1, "trainer_id": "0"}, None),
        ({"num_gradient_servers": 3}, "for trainer 0 of 3, but.*pd-v2 --workers 3 train.py"),
        ({"trainer_id": 1}, "for trainer 1 of 1, but no other trainer was started with this"),
    ],
)
def test_training_that_is_not_local_has_one_trainer(flags, message):
    paddle.init(**flags)
    cost, pool = line()

    def make():
        return paddle.trainer.SGD(cost, pool, Momentum(learning_rate=0.1), is_local=False)

    if message:
        with pytest.raises(ValueError, match=f"(?s){message}"):
            make()
        return
    log = Log(costs_of)
    make().train(reader(SAMPLES), event_handler=log)
    assert log.notes == pytest.approx([14 / 3]) and pool["_y.w0"].all()


@pytest.mark.parametrize("is_async", [False, True])
def test_trainers_that_waited_for_nobody(is_async):
    cost, pool = line()
    spec = None if is_async else "http://host:2379"
    what = "is_async=True" if is_async else "pserver_spec='http://host:2379'"
    with pytest.warns(UserWarning, match=f"SGD: {what}: in 2017 the gradients of each trainer"):
        trainer = paddle.trainer.SGD(
            cost,
            pool,
            Momentum(learning_rate=0.1, is_async=is_async),
            is_local=False,
            pserver_spec=spec,
        )
    trainer.train(reader(SAMPLES))
    assert pool["_y.w0"].all()


def test_a_cost_may_be_any_layer():
    """Its elements are summed, as 2017 did."""
    x = dense("x", 2)
    y = L.fc(x, size=3, name="y", act=A.Linear(), bias_attr=False)
    pool = zeroed(paddle.parameters.create(y))
    sgd(y, pool, rate=1.0).train(reader([([1.0, 2.0],)]))
    assert pool["_y.w0"].tolist() == [-1, -1, -1, -2, -2, -2]
    assert isinstance(pd.get_variable("_y.w0"), pd.Variable)
