"""Steps whose learning rate changes, beside PyTorch: what a state has collected keeps its rates."""

import numpy as np
import pytest

import pd_core as pd

RATES = [0.05, 0.05, 0.005, 0.005, 0.08, 0.02, 0.0, 0.02]

# ours, the name of PyTorch's and its settings, and w after the steps with torch 2.13 in float64
PEERS = {
    "momentum": (
        lambda: pd.MomentumOptimizer(RATES[0], 0.9, rate_in_velocity=False),
        "SGD",
        {"momentum": 0.9},
        [-1.54149249, -0.19539476, -1.49999632],
    ),
    "nesterov": (
        lambda: pd.MomentumOptimizer(
            RATES[0], 0.8, nesterov=True, rate_in_velocity=False, regularizer=pd.L2(0.1)
        ),
        "SGD",
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
        [-1.44926619, -0.23323692, -1.37966243],
    ),
    "rmsprop": (
        lambda: pd.RMSPropOptimizer(RATES[0], momentum=0.7, rate_in_velocity=False),
        "RMSprop",
        {"momentum": 0.7},
        [-2.47659263, -2.23247507, -0.63708819],
    ),
    "centered": (
        lambda: pd.RMSPropOptimizer(
            RATES[0], 0.9, momentum=0.7, epsilon=1e-4, centered=True, rate_in_velocity=False
        ),
        "RMSprop",
        {"momentum": 0.7, "alpha": 0.9, "eps": 1e-4, "centered": True},
        [-1.22560483, -1.38919227, -1.45615215],
    ),
    "adam": (
        lambda: pd.AdamOptimizer(RATES[0]),
        "Adam",
        {},
        [-1.50396449, -0.30856305, -1.38897428],
    ),
    "adamw": (
        lambda: pd.AdamWOptimizer(RATES[0], weight_decay=0.1),
        "AdamW",
        {"weight_decay": 0.1},
        [-1.46683276, -0.30418404, -1.35996292],
    ),
    "nadam": (
        lambda: pd.NAdamOptimizer(RATES[0]),
        "NAdam",
        {},
        [-1.54329235, -0.30875906, -1.34326374],
    ),
    "radam": (
        lambda: pd.RAdamOptimizer(RATES[0]),
        "RAdam",
        {},
        [-1.66913179, -0.10432695, -1.26547169],
    ),
    "adamax": (
        lambda: pd.AdamaxOptimizer(RATES[0]),
        "Adamax",
        {},
        [-1.51813134, -0.26637237, -1.36786375],
    ),
    "adadelta": (
        lambda: pd.AdaDeltaOptimizer(RATES[0]),
        "Adadelta",
        {"rho": 0.95},
        [-1.73108318, -0.08475186, -1.16427744],
    ),
}


def start():
    rng = np.random.default_rng(5)
    return rng.normal(size=(5, 3)), rng.normal(size=3)


def pytorch(name, settings):
    torch = pytest.importorskip("torch")
    a, w = start()
    a, w = torch.tensor(a), torch.tensor(w, requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], lr=RATES[0], **settings)
    for rate in RATES:
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        torch.tanh(a @ w).sum().backward()
        optimizer.step()
    return w.detach().numpy()


@pytest.mark.parametrize("make, name, settings, _", PEERS.values(), ids=PEERS)
def test_the_recorded_numbers_are_those_of_pytorch(make, name, settings, _):
    np.testing.assert_allclose(pytorch(name, settings), _, rtol=1e-6)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "guard"])
@pytest.mark.parametrize("make, name, settings, expected", PEERS.values(), ids=PEERS)
def test_steps_equal_those_of_pytorch(make, name, settings, expected, dynamic):
    a, w = start()
    w, optimizer = pd.Variable(data=w.astype(np.float32)), make()

    def cost():
        return pd.reduce_sum(pd.tanh(pd.matmul(a, w)))

    step = None if dynamic else optimizer.minimize(cost())
    for rate in RATES:
        optimizer.learning_rate = rate
        if dynamic:
            with pd.guard():
                optimizer.minimize(cost())
        else:
            pd.eval(step)
    np.testing.assert_allclose(w.val(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_both_momenta_are_equal_at_one_rate_and_differ_after(nesterov):
    found = []
    for inside in [True, False]:
        w = pd.Variable(data=start()[1].astype(np.float32))
        optimizer = pd.MomentumOptimizer(0.1, nesterov=nesterov, rate_in_velocity=inside)
        step = optimizer.minimize(pd.reduce_sum(pd.square(w)))
        pd.eval(step), pd.eval(step)
        same = w.val()
        optimizer.learning_rate = 0.01
        pd.eval(step)
        found.append((same, w.val()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert abs(found[0][1] - found[1][1]).max() > 0.05


def test_states_of_the_two_momenta_are_not_mixed_up():
    w = pd.Variable("w", data=[1.0])
    first, second = pd.MomentumOptimizer(0.1), pd.MomentumOptimizer(0.1, rate_in_velocity=False)
    with pd.guard():
        first.minimize(pd.reduce_sum(w))
        second.minimize(pd.reduce_sum(w))
        assert set(first.state()) == {"w/velocity"}
        assert set(second.state()) == {"w/momentum_buffer"}
        with pytest.raises(pd.GraphError, match="velocity"):
            second.load_state(first.state())
