"""The adaptive optimizers, schedules, global clipping and averages, against numpy in float64."""

import math

import numpy as np
import pytest

import pd_core as pd

STEPS = 50


def trajectory(optimizer, steps=STEPS):
    """(values of w after each step, gradients) of a small least-squares problem."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 4)), rng.normal(size=(6, 1))
    w = pd.Variable("w", data=rng.normal(size=(4, 1)))
    start = w.val().astype(np.float64)
    cost = pd.reduce_sum(pd.square(pd.matmul(a, w) - b))
    step = optimizer.minimize(cost)
    found = []
    for _ in range(steps):
        pd.eval(step)
        found.append(w.val())
    return start, lambda w: 2.0 * a.T @ (a @ w - b), found


def adagrad(w, g, t, s):
    s["s"] = s["s"] + g * g
    return w - 0.1 * g / np.sqrt(s["s"] + 1e-6)


def decayed_adagrad(w, g, t, s):
    s["s"] = 0.9 * s["s"] + 0.1 * g * g
    return w - 0.01 * g / np.sqrt(s["s"] + 1e-6)


def rmsprop(w, g, t, s):
    s["s"] = 0.9 * s["s"] + 0.1 * g * g
    return w - 0.01 * g / (np.sqrt(s["s"]) + 1e-8)


def rmsprop_centered(w, g, t, s):
    s["s"] = 0.9 * s["s"] + 0.1 * g * g
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.5 * s["v"] + 0.01 * g / (np.sqrt(s["s"] - s["m"] ** 2) + 1e-4)
    return w - s["v"]


def adadelta(w, g, t, s):
    s["s"] = 0.95 * s["s"] + 0.05 * g * g
    u = g * np.sqrt((s["e"] + 1e-4) / (s["s"] + 1e-4))
    s["e"] = 0.95 * s["e"] + 0.05 * u * u
    return w - u


def adamw(w, g, t, s):
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, 0.99 * s["s"] + 0.01 * g * g
    m, v = s["m"] / (1 - 0.9**t), s["s"] / (1 - 0.99**t)
    return w * (1 - 0.02 * 0.1) - 0.02 * m / (np.sqrt(v) + 1e-8)


def amsgrad(w, g, t, s):
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, 0.9 * s["s"] + 0.1 * g * g
    s["v"] = np.maximum(s["v"], s["s"])
    m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.9**t)
    return w - 0.1 * m / (np.sqrt(v) + 1e-8)


def adamw_amsgrad(w, g, t, s):
    return amsgrad(w, g, t, s) - 0.1 * 0.2 * w


def adamax(w, g, t, s):
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, np.maximum(0.99 * s["s"], np.abs(g) + 1e-8)
    return w - 0.02 / (1 - 0.9**t) * s["m"] / s["s"]


def nadam(w, g, t, s):
    def mu(t):
        return 0.9 * (1 - 0.5 * 0.96 ** (0.004 * t))

    s["e"] = (s["e"] or 1.0) * mu(t)  # the product
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, 0.99 * s["s"] + 0.01 * g * g
    change = mu(t + 1) * s["m"] / (1 - s["e"] * mu(t + 1)) + (1 - mu(t)) * g / (1 - s["e"])
    return w - 0.02 * change / (np.sqrt(s["s"] / (1 - 0.99**t)) + 1e-8)


def radam(w, g, t, s):
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, 0.999 * s["s"] + 0.001 * g * g
    limit = 2 / (1 - 0.999) - 1
    rho = limit - 2 * t * 0.999**t / (1 - 0.999**t)
    change = 0.02 * s["m"] / (1 - 0.9**t)
    if rho <= 5:
        return w - change
    r = math.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
    return w - change * r * math.sqrt(1 - 0.999**t) / (np.sqrt(s["s"]) + 1e-8)


def lion(w, g, t, s):
    direction = np.sign(0.9 * s["m"] + 0.1 * g)
    s["m"] = 0.99 * s["m"] + 0.01 * g
    return w - 0.003 * (direction + 0.1 * w)


def lamb(w, g, t, s):
    s["m"], s["s"] = 0.9 * s["m"] + 0.1 * g, 0.99 * s["s"] + 0.01 * g * g
    r = s["m"] / (1 - 0.9**t) / (np.sqrt(s["s"] / (1 - 0.99**t)) + 1e-6) + 0.1 * w
    return w - 0.02 * np.linalg.norm(w) / np.linalg.norm(r) * r


def muon(w, g, t, s):
    s["m"] = 0.9 * s["m"] + 0.1 * g
    u = 0.9 * s["m"] + 0.1 * g
    size = 1.0  # a column of length 1 has one singular value
    for _ in range(5):
        size = 3.4445 * size - 4.7750 * size**3 + 2.0315 * size**5
    return w * (1 - 0.02 * 0.1) - 0.02 * size * u / np.linalg.norm(u)


def lookahead(w, g, t, s):
    slow, w = (w if t == 1 else s["s"]), w - 0.02 * g
    s["s"] = slow + 0.25 * (w - slow) if t % 5 == 0 else slow
    return s["s"] if t % 5 == 0 else w


CASES = {
    "adagrad": (lambda: pd.AdaGradOptimizer(0.1), adagrad),
    "decayed_adagrad": (lambda: pd.DecayedAdaGradOptimizer(0.01, decay=0.9), decayed_adagrad),
    "rmsprop": (lambda: pd.RMSPropOptimizer(0.01, decay=0.9), rmsprop),
    "rmsprop_centered": (
        lambda: pd.RMSPropOptimizer(0.01, decay=0.9, epsilon=1e-4, momentum=0.5, centered=True),
        rmsprop_centered,
    ),
    "adadelta": (lambda: pd.AdaDeltaOptimizer(1.0, epsilon=1e-4), adadelta),
    "adamw": (lambda: pd.AdamWOptimizer(0.02, weight_decay=0.1, beta2=0.99), adamw),
    "amsgrad": (lambda: pd.AdamOptimizer(0.1, beta2=0.9, amsgrad=True), amsgrad),
    "adamw_amsgrad": (
        lambda: pd.AdamWOptimizer(0.1, weight_decay=0.2, beta2=0.9, amsgrad=True),
        adamw_amsgrad,
    ),
    "muon_amsgrad": (
        lambda: pd.MuonOptimizer(0.1, weight_decay=0.2, beta2=0.9, use_muon=False, amsgrad=True),
        adamw_amsgrad,
    ),
    "adamax": (lambda: pd.AdamaxOptimizer(0.02, beta2=0.99), adamax),
    "nadam": (lambda: pd.NAdamOptimizer(0.02, beta2=0.99), nadam),
    "radam": (lambda: pd.RAdamOptimizer(0.02), radam),
    "lion": (lambda: pd.LionOptimizer(0.003, weight_decay=0.1), lion),
    "lamb": (lambda: pd.LAMBOptimizer(0.02, beta2=0.99, weight_decay=0.1), lamb),
    "lookahead": (lambda: pd.Lookahead(pd.SGDOptimizer(0.02), alpha=0.25), lookahead),
    "muon": (lambda: pd.MuonOptimizer(0.02, momentum=0.9), muon),
}


@pytest.mark.parametrize("name", CASES)
def test_fifty_steps_equal_float64_numpy(name):
    make, rule = CASES[name]
    w, gradient, found = trajectory(make())
    slots = dict.fromkeys("smev", 0.0)
    for t, got in enumerate(found, 1):
        w = rule(w, gradient(w), t, slots)
        assert np.allclose(got, w, rtol=2e-4, atol=2e-5), t


@pytest.mark.parametrize(
    ("make", "peer", "settings"),
    [
        (lambda: pd.AdamWOptimizer(0.02, weight_decay=0.1), "AdamW", {"weight_decay": 0.1}),
        (lambda: pd.RMSPropOptimizer(0.02), "RMSprop", {}),
        (lambda: pd.AdaGradOptimizer(0.02, epsilon=1e-20), "Adagrad", {"eps": 1e-10}),
        (lambda: pd.AdamaxOptimizer(0.02), "Adamax", {}),
        (lambda: pd.NAdamOptimizer(0.02), "NAdam", {}),
        (lambda: pd.RAdamOptimizer(0.02), "RAdam", {}),
        (lambda: pd.AdaFactorOptimizer(0.02), "Adafactor", {}),
    ],
    ids=["adamw", "rmsprop", "adagrad", "adamax", "nadam", "radam", "adafactor"],
)
def test_same_as_pytorch(make, peer, settings):
    torch = pytest.importorskip("torch")
    start, gradient, found = trajectory(make(), 20)
    w = torch.tensor(start, requires_grad=True)
    optimizer = getattr(torch.optim, peer)([w], lr=0.02, **settings)
    for got in found:
        w.grad = torch.tensor(gradient(w.detach().numpy()))
        optimizer.step()
        assert np.allclose(got, w.detach().numpy(), rtol=1e-3, atol=1e-4)


# torch 2.13 in float64 after 5 and 20 steps of lr=0.02: NAdam, RAdam, and SGD with momentum=0.9,
# nesterov=True, weight_decay=0.1
PYTORCH = {
    "nadam": (
        lambda: pd.NAdamOptimizer(0.02),
        [-0.95293617, -0.21537421, 0.8037751, 0.49958091],
        [-0.84314789, -0.03022246, 0.57666392, 0.2468839],
    ),
    "radam": (
        lambda: pd.RAdamOptimizer(0.02),
        [-0.77832037, 0.16309811, 0.31902608, 0.1251904],
        [-0.76123058, 0.15486656, 0.30758342, 0.10807038],
    ),
    "nesterov": (
        lambda: pd.MomentumOptimizer(0.02, 0.9, nesterov=True, regularizer=pd.L2(0.1)),
        [-0.02338777, 0.39814841, -0.16838459, -0.69052172],
        [0.69646278, 0.70570394, -0.39409439, -0.25019258],
    ),
}


@pytest.mark.parametrize("make, after5, after20", PYTORCH.values(), ids=PYTORCH)
def test_the_numbers_of_pytorch(make, after5, after20):
    _, _, found = trajectory(make(), 20)
    np.testing.assert_allclose(found[4].ravel(), after5, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(found[19].ravel(), after20, rtol=1e-5, atol=2e-6)


def test_lamb_without_a_norm_takes_the_rate_itself():
    w, still = pd.Variable("w", data=[0.0, 0.0]), pd.Variable("still", data=[1.0, 2.0])
    step = pd.LAMBOptimizer(0.1).minimize(pd.reduce_sum(w * [3.0, -2.0]) + pd.reduce_sum(still * 0))
    pd.eval(step)
    np.testing.assert_allclose(w.val(), [-0.1, 0.1], rtol=1e-5)
    assert still.val().tolist() == [1.0, 2.0]


S = pd.schedules
SCHEDULES = [
    (S.ExponentialDecay(0.5, 0.8, every=4), lambda t: 0.5 * 0.8 ** (t / 4)),
    (S.ExponentialDecay(0.5, 0.8, every=4, staircase=True), lambda t: 0.5 * 0.8 ** (t // 4)),
    (S.InverseTimeDecay(0.5, 0.1, power=0.5), lambda t: 0.5 * (1 + 0.1 * t) ** -0.5),
    (S.PolynomialDecay(0.5, 6, 0.1, 2.0), lambda t: 0.1 + 0.4 * max(0.0, 1 - t / 6) ** 2),
    (
        S.CosineDecay(0.5, 6, end=0.1),
        lambda t: 0.1 + 0.2 * (1 + math.cos(math.pi * min(t / 6, 1))),
    ),
    (S.Piecewise((2, 5), (0.3, 0.2, 0.1)), lambda t: 0.3 if t <= 2 else 0.2 if t <= 5 else 0.1),
    (S.Warmup(0.5, 4), lambda t: 0.5 * min(1, t / 4)),
    (S.Warmup(S.Piecewise((2,), (0.4, 0.2)), 4), lambda t: min(1, t / 4) * (0.4, 0.2)[t > 2]),
]


@pytest.mark.parametrize("schedule, expected", SCHEDULES, ids=lambda s: type(s).__name__)
def test_schedules_follow_the_steps_of_their_optimizer(schedule, expected):
    w = pd.Variable(data=0.0)
    step = pd.SGDOptimizer(schedule).minimize(w * 1.0)
    for t in range(9):
        before = float(w.val())
        pd.eval(step)
        assert math.isclose(before - float(w.val()), expected(t), rel_tol=1e-5, abs_tol=2e-7), t


def test_piecewise_wants_one_rate_more():
    with pytest.raises(ValueError, match="2 boundaries take 3 rates, not 2"):
        S.Piecewise((1, 2), (0.1, 0.2))


def test_a_schedule_multiplies_a_variables_own_rate():
    slow, fast = pd.Variable(data=0.0, learning_rate=0.1), pd.Variable(data=0.0)
    pd.eval(pd.SGDOptimizer(S.Piecewise((), (0.5,))).minimize(slow + fast))
    assert np.allclose([slow.val(), fast.val()], [-0.05, -0.5])


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_global_norm_scales_all_gradients_by_one_factor(limit):
    a, b = pd.Variable("a", data=[0.0, 0.0]), pd.Variable("b", data=0.0)
    cost = pd.reduce_sum(a * np.array([3.0, 0.0])) + b * 4.0
    pd.eval(pd.SGDOptimizer(1.0, clip=pd.ClipGlobalNorm(limit)).minimize(cost))
    factor = min(1.0, limit / 5.0)
    assert np.allclose(a.val(), [-3 * factor, 0]) and np.isclose(b.val(), -4 * factor)


def test_a_variables_own_clip_comes_before_the_global_norm():
    a, b = pd.Variable("a", data=0.0, clip=pd.ClipElements(3.0)), pd.Variable("b", data=0.0)
    pd.eval(pd.SGDOptimizer(1.0, clip=pd.ClipGlobalNorm(1.0)).minimize(a * 100.0 + b * 4.0))
    assert np.allclose([a.val(), b.val()], [-0.6, -0.8])


def test_moving_average_is_the_weighted_mean_of_what_was():
    w = pd.Variable("w", data=0.0)
    average = pd.MovingAverage(0.9)
    step = average.follow(pd.SGDOptimizer(1.0).minimize(w * -1.0))
    for _ in range(4):
        pd.eval(step)
    assert w.val() == 4.0
    weights = 0.9 ** np.arange(3, -1, -1)
    with average.applied():
        assert np.isclose(w.val(), (weights * [1, 2, 3, 4]).sum() / weights.sum())
    assert w.val() == 4.0


def test_a_frozen_variable_keeps_its_average():
    w = pd.Variable("w", data=0.0)
    average = pd.MovingAverage(0.5)
    step = average.follow(pd.SGDOptimizer(1.0).minimize(w * -1.0))
    pd.eval(step)
    before = average.averages[w].val()
    w.trainable = False
    pd.eval(step)
    assert average.averages[w].val() == before


def test_moving_average_wants_a_fraction():
    with pytest.raises(ValueError, match=r"within \(0, 1\), not 1"):
        pd.MovingAverage(1)
