"""Optimizers: 2017's formulas step by step, learning-rate schedules, and settings of parameters."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.formats.proto import ParameterConfig
from pd_v2.optimizer import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    DecayedAdaGrad,
    L2Regularization,
    ModelAverage,
    Momentum,
    RMSProp,
)
from pd_v2.optimizer.rule import Rule

START = [1.0, -2.0]
GRADIENTS = [[0.5, -1.0], [0.25, 0.5], [-0.125, 2.0]]


def rule_of(optimizer, rate=0.1, multiplier=1.0, start=START, **settings):
    """(a parameter w, a function that takes a step with a gradient) as a trainer does it."""
    config = ParameterConfig(
        name="w", size=len(start), dims=[len(start)], learning_rate=multiplier, **settings
    )
    optimizer.configure(config)
    w = pd.Variable("w", data=start, learning_rate=multiplier)
    g, lr = pd.Variable.of(w.dims, np.float32, "g"), pd.Variable.of((), np.float32, "lr")
    update = Rule(optimizer, {"w": config}, lr).update([(w, g)])
    return w, lambda gradient, rate=rate: pd.eval(update, {g: gradient, lr: rate})


def stepped(optimizer, gradients=GRADIENTS, **settings):
    """A parameter after a step for each gradient."""
    w, step = rule_of(optimizer, **settings)
    for gradient in gradients:
        step(gradient)
    return w.val()


METHODS = {
    "momentum": (Momentum, [0.9375, -2.15], [0.82410973, -2.0131195]),
    "adagrad": (AdaGrad, [0.87710065, -2.0320086], [0.6560531, -1.8918052]),
    "decayed_adagrad": (DecayedAdaGrad, [0.87513536, -2.1404233], [0.64779615, -2.0044384]),
    "rmsprop": (RMSProp, [0.87491566, -2.140839], [0.6472189, -2.0046399]),
    "adadelta": (AdaDelta, [0.99942094, -2.0004485], [0.99833775, -1.9998913]),
    "adam": (Adam, [0.75041616, -1.9190998], [0.75041616, -1.9190998]),
    "adamax": (Adamax, [0.788898, -1.9091846], [0.788898, -1.9091846]),
}


@pytest.mark.parametrize("name", METHODS)
def test_three_steps(name):
    """Without and with momentum 0.9 and L2 0.01."""
    make, plain, decayed = METHODS[name]
    np.testing.assert_allclose(stepped(make(learning_rate=0.1)), plain, rtol=1e-6)
    with pd.fresh():
        optimizer = make(learning_rate=0.1, regularization=L2Regularization(0.01))
        np.testing.assert_allclose(stepped(optimizer, momentum=0.9), decayed, rtol=1e-6)


# ---- the formulas by hand, in float64


def moved(w, v, k, a, g, decay, q=1.0):
    v = k * v - a * q * (g + decay * w)
    return w + v, v


def adagrad_by_hand(w, g, s, t, a, k, decay):
    s["s"] = s["s"] + g * g
    q = 1 / np.sqrt(s["s"] + 1e-6)
    w, s["v"] = moved(w, s["v"], k, a, g, decay, q)
    return w, q


def rmsprop_by_hand(w, g, s, t, a, k, decay, centred=True):
    s["s"] = 0.95 * s["s"] + (0.05 if t > 1 else 1.0) * g * g
    s["f"] = 0.95 * s["f"] + 0.05 * g
    q = 1 / np.sqrt(s["s"] - centred * s["f"] ** 2 + 1e-6)
    w, s["v"] = moved(w, s["v"], k, a, g, decay, q)
    return w, q


def decayed_adagrad_by_hand(*args):
    return rmsprop_by_hand(*args, centred=False)


def adadelta_by_hand(w, g, s, t, a, k, decay):
    s["s"] = 0.95 * s["s"] + 0.05 * g * g
    q = np.sqrt((s["e"] + 1e-6) / (s["s"] + 1e-6))
    s["e"] = 0.95 * s["e"] + 0.05 * (g * q) ** 2
    w, s["v"] = moved(w, s["v"], k, a, g, decay, q)
    return w, q


def sgd_by_hand(w, g, s, t, a, k, decay):
    w, s["v"] = moved(w, s["v"], k, a, g, decay)
    return w, 1.0


def plain_adam_by_hand(w, g, s, t, a, k, decay):
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, 0.999 * s["s"] + 0.001 * g * g
    rate = a * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return w - rate * s["m"] / (np.sqrt(s["s"]) + 1e-8), 1.0


def adamax_by_hand(w, g, s, t, a, k, decay):
    s["m"], s["u"] = 0.9 * s["m"] + 0.1 * g, np.maximum(0.999 * s["u"], np.abs(g))
    step = np.divide(s["m"], s["u"], out=np.zeros_like(w), where=s["u"] > 0)
    return w - a / (1 - 0.9**t) * step, 1.0


BY_HAND = {
    "momentum": sgd_by_hand,
    "adagrad": adagrad_by_hand,
    "decayed_adagrad": decayed_adagrad_by_hand,
    "rmsprop": rmsprop_by_hand,
    "adadelta": adadelta_by_hand,
    "adam": plain_adam_by_hand,
    "adamax": adamax_by_hand,
}
UNSCHEDULED = ("adagrad", "adamax")


def penalised_by_hand(w, c, l1, l2):
    return np.sign(w) * np.maximum(np.abs(w) - c * l1, 0) / (1 + c * l2)


def by_hand(name, gradients, rate=0.1, multiplier=1.0, k=0.0, decay=0.0, l1=0.0, fixed=None):
    """w after the steps; `fixed` is the rate without its schedule, where that differs."""
    fixed = rate if fixed is None else fixed
    w, s = np.float64(START), {key: np.zeros(2) for key in "sfevmu"}
    a = multiplier * (fixed if name in UNSCHEDULED else rate)
    c = multiplier * (fixed if name in (*UNSCHEDULED, "adam") else rate)
    for t, g in enumerate(np.float64(gradients), 1):
        w, q = BY_HAND[name](w, g, s, t, a, k, 0.0 if l1 else decay)
        w = penalised_by_hand(w, c * q, l1, decay) if l1 else w
    return w


MANY = np.random.default_rng(4).normal(size=(25, 2)) * [1.0, 0.01]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("k, decay, l1", [(0.0, 0.0, 0.0), (0.8, 0.1, 0.0), (0.0, 0.3, 0.05)])
def test_many_steps(name, k, decay, l1):
    """Penalties of L1 follow the step, with the schedule's rate where 2017 took that."""
    optimizer = METHODS[name][0](learning_rate=0.02)
    settings = {"momentum": k, "decay_rate": decay, "decay_rate_l1": l1, "multiplier": 1.5}
    found = stepped(optimizer, MANY, rate=0.01, **settings)
    expected = by_hand(name, MANY, 0.01, 1.5, k, decay, l1, fixed=0.02)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)
    assert np.abs(expected - START).min() > 1e-5


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: DecayedAdaGrad(rho=0.5, epsilon=0.1), "1 / np.sqrt(s + 0.1)"),
        (lambda: RMSProp(rho=0.5, epsilon=0.1), "1 / np.sqrt(s - f * f + 0.1)"),
        (lambda: AdaDelta(rho=0.5, epsilon=0.1), None),
    ],
    ids=["decayed_adagrad", "rmsprop", "adadelta"],
)
def test_rho_and_epsilon(make, rule):
    w, s, f, e = np.float64(START), 0.0, 0.0, 0.0
    for t, g in enumerate(np.float64(GRADIENTS), 1):
        s = 0.5 * s + (1.0 if t == 1 and rule else 0.5) * g * g
        f = 0.5 * f + 0.5 * g
        q = eval(rule, {"np": np, "s": s, "f": f}) if rule else np.sqrt((e + 0.1) / (s + 0.1))
        e = 0.5 * e + 0.5 * (g * q) ** 2
        w = w - 0.1 * q * g
    np.testing.assert_allclose(stepped(make()), w, rtol=1e-5)


def test_adamax_divides_without_an_epsilon():
    np.testing.assert_allclose(
        stepped(Adamax(learning_rate=0.1), [[1e-20, -1e-20]]), [0.9, -1.9], rtol=1e-6
    )


def test_adamax_leaves_what_never_had_a_gradient():
    found = stepped(Adamax(learning_rate=0.1), [[0.0, 1.0], [0.0, -2.0]])
    expected = by_hand("adamax", [[0.0, 1.0], [0.0, -2.0]])
    assert found[0] == START[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_l1_penalty_makes_zeros():
    found = stepped(Momentum(), [[0.0, 0.0]] * 30, decay_rate_l1=0.5)
    np.testing.assert_allclose(found, [0.0, -0.5], atol=1e-6)
    assert found[0] == 0.0


def test_an_l1_penalty_needs_momentum_0():
    with pytest.raises(pd.GraphError, match=r"parameter 'w': l1_rate needs momentum 0, not 0\.9"):
        stepped(Momentum(momentum=0.9), decay_rate_l1=0.1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("l1, l2", [(-0.4, 0.0), (-0.4, 0.3), (-0.4, -0.3), (0.05, -0.3)])
def test_rates_below_0_are_no_penalties(name, l1, l2):
    """An L2 below 0 remains in the formula, if there is no L1; one above 0 follows the step."""
    settings = {"decay_rate": l2, "decay_rate_l1": l1}
    found = stepped(METHODS[name][0](learning_rate=0.1), MANY, **settings)
    follows = l1 > 0 or l2 > 0
    expected = by_hand(name, MANY, decay=0.0 if follows else l2)
    if follows:
        expected = by_hand(name, MANY, decay=max(l2, 0.0), l1=max(l1, 1e-300))
    np.testing.assert_allclose(found, expected, rtol=5e-5, atol=1e-7)


def momentum_by_hand(rate=0.1, k=0.0, decay=0.0, limit=np.inf, multiplier=1.0):
    gradients = np.clip(GRADIENTS, -limit, limit)
    return by_hand("momentum", gradients, rate, multiplier, k, decay)


def adam_by_hand(rate=0.1, beta1=0.9, beta2=0.999, epsilon=1e-8):
    w, m, v = np.float64(START), np.zeros(2), np.zeros(2)
    for t, g in enumerate(np.float64(GRADIENTS), 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        scale = rate * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        w = w - scale * m / (np.sqrt(v) + epsilon)
    return w


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"multiplier": 2.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6, "multiplier": 2.0}),
        ({"multiplier": 0.0}, {"multiplier": 0.0}),
        ({"momentum": 0.5}, {"k": 0.5, "decay": 0.01, "limit": 0.6}),
        ({"momentum": 0.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
        ({"decay_rate": 0.3}, {"k": 0.9, "decay": 0.3, "limit": 0.6}),
        ({"decay_rate": 0.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
        ({"gradient_clipping_threshold": 0.3}, {"k": 0.9, "decay": 0.01, "limit": 0.3}),
        ({"gradient_clipping_threshold": 0.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
        ({"gradient_clipping_threshold": -1.0}, {"k": 0.9, "decay": 0.01, "limit": 0.6}),
    ],
    ids=lambda v: next(iter(v.items())).__repr__(),
)
def test_a_parameter_s_own_settings_win_unless_they_are_0(settings, options):
    optimizer = Momentum(
        momentum=0.9, regularization=[L2Regularization(0.01)], gradient_clipping_threshold=0.6
    )
    found = stepped(optimizer, **settings)
    np.testing.assert_allclose(found, momentum_by_hand(**options), rtol=1e-6)


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
        configs = {"w": ParameterConfig(name="w", size=2, dims=[2], momentum=0.9)}
        a, b = (Rule(Momentum(), configs, lr).update([(w, g)]) for _ in range(2))
        for gradient in GRADIENTS:
            pd.eval(a, {g: gradient, lr: 0.1})
        np.testing.assert_allclose(w.val(), first)
        pd.eval(b, {g: [1.0, 1.0], lr: 0.1})
        np.testing.assert_allclose(w.val(), first - 0.1, rtol=1e-6)


def test_settings_show_in_the_configuration_when_static():
    config = ParameterConfig(name="w", size=2, is_static=True)
    Momentum(momentum=0.9, regularization=L2Regularization(0.1)).configure(config)
    assert (config.momentum, config.decay_rate) == (0.9, 0.1)


def test_what_an_optimizer_leaves_open_stays_open():
    """A field that nobody set is not in the file: bytes are to be those of 2017."""
    config = ParameterConfig(name="w", size=2)
    Momentum(regularization=L2Regularization(0.0)).configure(config)
    assert [field.name for field, _ in config.ListFields()] == ["name", "size"]


@pytest.mark.parametrize("optimizer_first", [False, True])
def test_an_optimizer_may_come_before_the_layers(optimizer_first):
    settings = {"momentum": 0.9, "regularization": L2Regularization(0.1)}
    made = Momentum(**settings) if optimizer_first else None
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    cost = paddle.layer.sum_cost(paddle.layer.fc(x, size=1, name="y"))
    pool = paddle.parameters.create(cost)
    paddle.trainer.SGD(cost, pool, made or Momentum(**settings))
    found = {name: (c.momentum, c.decay_rate) for name, c in pool.__param_conf__.items()}
    assert found == {"_y.w0": (0.9, 0.1), "_y.wbias": (0.9, 0.1)}


@pytest.mark.parametrize(
    ("optimizer", "attr", "factors"),
    [
        (Momentum(0.5, learning_rate=0.1), {}, [1.0, 1.0]),
        (
            Momentum(0.5, learning_rate=0.1, regularization=L2Regularization(0.5)),
            {},
            [0.95, 0.8775],
        ),
        (AdaGrad(learning_rate=1e-4, regularization=L2Regularization(0.5)), {}, [0.95, 0.95**2]),
        (Adam(learning_rate=0.1, regularization=L2Regularization(0.5)), {}, [1.0, 1.0]),
        (Adam(learning_rate=0.1), {"l1_rate": 0.5, "l2_rate": 1.0}, [1.95 / 2.2, 1.895 / 2.42]),
    ],
    ids=["momentum", "momentum, l2", "adagrad, l2", "adam, l2", "adam, l1 and l2"],
)
def test_penalties_reach_what_has_no_gradient(optimizer, attr, factors):
    """Every parameter of the topology is updated, also one that no cost depends on."""
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    cost = paddle.layer.sum_cost(paddle.layer.fc(x, size=1, name="y"))
    attr = paddle.attr.Param(**attr)
    aside = paddle.layer.fc(x, size=1, name="aside", param_attr=attr, bias_attr=False)
    pool = paddle.parameters.create([cost, aside])
    trainer = paddle.trainer.SGD(cost, pool, optimizer, extra_layers=aside)
    pool["_aside.w0"] = np.float32([[2.0]])
    found = []
    for _ in factors:
        train(trainer, [[1.0]])
        found.append(pool["_aside.w0"][0] / 2.0)
    np.testing.assert_allclose(found, factors, rtol=1e-5)


def test_a_threshold_below_0_clips_nothing():
    plain = stepped(Momentum())
    with pd.fresh():
        found = stepped(Momentum(), gradient_clipping_threshold=-0.1)
    np.testing.assert_array_equal(found, plain)


def test_sparse_momentum_of_a_parameter_without_rows_is_momentum():
    expected = stepped(Momentum(momentum=0.9))
    with pd.fresh():
        found = stepped(Momentum(momentum=0.9, sparse=True))
    np.testing.assert_array_equal(found, expected)


def shifted(names):
    """(the parameter w, its trainers by name), where w starts at START and its gradient is x."""
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    attr = paddle.attr.Param(name="w")
    act = paddle.activation.Linear()
    y = paddle.layer.fc(x, size=1, act=act, bias_attr=False, param_attr=attr)
    pool = paddle.parameters.create(y)
    pool["w"] = np.float32(START)
    made = {n: METHODS[n][0](learning_rate=0.1) for n in names}
    return pool, {n: paddle.trainer.SGD(y, pool, o) for n, o in made.items()}


def train(trainer, gradients):
    trainer.train(lambda: iter([[(g,)] for g in gradients]))


def test_all_optimizers_side_by_side_on_one_parameter():
    """They move the same values, and each remembers its own gradients only."""
    pool, trainers = shifted(METHODS)
    w, state = np.float64(START), {n: {k: np.zeros(2) for k in "sfevmu"} for n in trainers}
    gradients = np.random.default_rng(5).normal(size=(4, len(trainers), 2))
    for t, row in enumerate(gradients, 1):
        for (name, trainer), g in zip(trainers.items(), row, strict=True):
            train(trainer, [g])
            w, _ = BY_HAND[name](w, g, state[name], t, 0.1, 0.0, 0.0)
    np.testing.assert_allclose(pool["w"], w, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:train. the reader gave no batches")
@pytest.mark.parametrize("name", METHODS)
def test_two_trainings_are_one_longer_training(name):
    """What is remembered of gradients goes on, and so do the counts that belong to it."""
    found = []
    for parts in ([MANY[:7]], [MANY[:3], MANY[3:3], MANY[3:7]]):
        with paddle.build.fresh():
            pool, trainers = shifted([name])
            for part in parts:
                train(trainers[name], part)
            found.append(pool["w"])
    np.testing.assert_array_equal(*found)


# ---- the configuration, and what is refused


def test_proto():
    config = Adam(learning_rate=0.01, beta1=0.8, is_async=True, batch_size=7).proto()
    assert (config.learning_method, config.algorithm) == ("adam", "async_sgd")
    assert (config.learning_rate, config.adam_beta1, config.adam_epsilon) == (0.01, 0.8, 1e-8)
    assert (config.batch_size, config.learning_rate_schedule) == (1, "poly")
    assert Momentum(sparse=True).proto().learning_method == "sparse_momentum"
    assert Momentum().proto().algorithm == "sgd"
    assert Adamax(beta2=0.9).proto().adam_beta2 == 0.9
    assert AdaGrad().proto().ada_epsilon == 1e-6
    for make in (RMSProp, AdaDelta, DecayedAdaGrad):
        config = make(rho=0.5, epsilon=0.1).proto()
        assert (config.ada_rou, config.ada_epsilon) == (0.5, 0.1)
    assert [m().proto().learning_method for m, *_ in METHODS.values()] == list(METHODS)


def test_proto_of_an_average():
    config = Adam(model_average=ModelAverage(0.5, max_average_window=9)).proto()
    assert (config.average_window, config.max_average_window) == (0.5, 9)
    settings = ModelAverage(0.5, do_average_in_cpu=True).to_setting_kwargs()
    assert settings == {"average_window": 0.5, "do_average_in_cpu": True}
    assert Adam().proto().average_window == 0


def test_what_an_optimizer_keeps():
    assert RMSProp().enable_types() == ["value", "gradient", "momentum", "squares", "mean"]
    updater = Adam().create_updater(True, 1, False, None, False)
    assert updater.start_batch(8) == np.float32(1e-3)
    updater = Adam().create_updater(False, 1, False, "http://host:2379", True)
    assert updater.start_batch(8) == np.float32(1e-3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learning_rat": 0.1}, TypeError, "unexpected keyword argument 'learning_rat'"),
        ({"learning_rate_schedule": "cosine"}, ValueError, "no learning_rate_schedule 'cosine'"),
        ({"learning_rate_schedule": "manual"}, ValueError, "'end:factor,end:factor', not ''"),
        ({"learning_rate_schedule": "exp"}, ValueError, "'exp' divides by learning_rate_decay_b"),
        ({"learning_rate_schedule": "discexp"}, ValueError, "'discexp' divides by"),
        ({"regularization": 0.01}, TypeError, "regularization is an L2Regularization, not 0.01"),
        ({"model_average": 0.5}, TypeError, "model_average is a ModelAverage, not 0.5"),
    ],
)
@pytest.mark.parametrize("make", [Momentum, AdaDelta])
def test_what_is_refused(make, options, error, message):
    with pytest.raises(error, match=message):
        make(**options)
