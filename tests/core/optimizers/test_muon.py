"""Muon beside torch.optim.Muon, whose products are in float64 here instead of bfloat16."""

import copy

import numpy as np
import pytest

import pd_core as pd
from pd_core.optimizers.muon import orthogonal

X = np.linspace(-1.0, 2.0, 24, dtype=np.float32).reshape(8, 3)
Y = np.linspace(1.0, -1.0, 16, dtype=np.float32).reshape(8, 2) ** 3
START = {
    "hidden.W": np.sin(np.arange(15.0)).reshape(3, 5),  # wide, for x @ W
    "hidden.b": np.cos(np.arange(5.0)),
    "out.W": np.sin(np.arange(10.0) + 3.0).reshape(5, 2),  # tall
}
ADAMW = {"params": lambda w: w.rank != 2, "use_muon": False, "learning_rate": 0.01}

# torch.optim.Muon (torch.Tensor.bfloat16 = clone) and AdamW of torch 2.13, as in `by_pytorch`
AFTER = {
    "hidden.W": [
        -0.04787311,
        1.22673797,
        0.79356047,
        0.10835828,
        -0.10778191,
        -0.85111871,
        0.14621252,
        0.490471,
        0.85761994,
        0.46389595,
        -0.41158566,
        -0.57218622,
        -0.66408028,
        0.32466054,
        0.50146336,
    ],
    "hidden.b": [0.88335545, 0.34066292, -0.25114158, -1.06877973, -0.81366943],
    "out.W": [
        0.23228746,
        -0.33538619,
        -0.33467221,
        -0.40971275,
        0.21452369,
        0.77939217,
        0.35138853,
        -0.89943947,
        -1.05737501,
        -0.66404224,
    ],
}


def parameters():
    return [pd.Variable(name, data=value) for name, value in START.items()]


def cost_of(x, y, hidden, bias, out):
    return pd.reduce_mean(pd.square(pd.tanh(x @ hidden + bias) @ out - y))


def stepped(optimizer, steps=20):
    """The parameters after steps of a static graph."""
    pd.reset()
    weights = parameters()
    step = optimizer.minimize(cost_of(X, Y, *weights))
    for _ in range(steps):
        pd.eval(step)
    return {w.name: w.val() for w in weights}


def by_pytorch(torch, monkeypatch, steps=20, **settings):
    """The same with two optimizers of PyTorch, whose matrices are [outputs, inputs]."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    w = {name: torch.tensor(v.T.copy(), requires_grad=True) for name, v in START.items()}
    muon = torch.optim.Muon([w["hidden.W"], w["out.W"]], lr=0.05, **settings)
    adamw = torch.optim.AdamW([w["hidden.b"]], lr=0.01, weight_decay=0.1)
    x, y = torch.tensor(X, dtype=torch.float64), torch.tensor(Y, dtype=torch.float64)
    for _ in range(steps):
        y_hat = torch.tanh(x @ w["hidden.W"].T + w["hidden.b"]) @ w["out.W"].T
        for optimizer in (muon, adamw):
            optimizer.zero_grad()
        (y_hat - y).square().mean().backward()
        for optimizer in (muon, adamw):
            optimizer.step()
    return {name: v.detach().numpy().T for name, v in w.items()}


@pytest.mark.parametrize(
    "ours, theirs",
    [
        ({}, {}),
        ({"nesterov": False, "momentum": 0.8}, {"nesterov": False, "momentum": 0.8}),
        ({"match_rms": True}, {"adjust_lr_fn": "match_rms_adamw"}),
        ({"iterations": 3}, {"ns_steps": 3}),
    ],
    ids=["default", "momentum", "match_rms", "iterations"],
)
def test_same_as_pytorch(ours, theirs, monkeypatch):
    torch = pytest.importorskip("torch")
    expected = by_pytorch(torch, monkeypatch, **theirs)
    found = stepped(pd.MuonOptimizer(0.05, groups=[ADAMW], **ours))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=2e-5)


def check_after(found):
    for name, value in AFTER.items():
        np.testing.assert_allclose(found[name].ravel(), value, rtol=1e-4, atol=2e-5)


def test_the_numbers_of_pytorch():
    check_after(stepped(pd.MuonOptimizer(0.05, groups=[ADAMW])))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_inside_a_guard_with_a_copy_on_the_way(accumulate):
    weights = parameters()
    muon = pd.MuonOptimizer(0.05, groups=[ADAMW], accumulate=accumulate)
    with pd.guard():
        for k in range(20):
            for x, y in zip(np.split(X, accumulate), np.split(Y, accumulate), strict=True):
                muon.minimize(cost_of(x, y, *weights))
            muon = copy.deepcopy(muon) if k == 10 else muon
    assert muon.state().keys() >= {"hidden.W/momentum", "hidden.b/m", "hidden.b/v", "weight1"}
    check_after({w.name: w.val() for w in weights})


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_singular_values_near_one(shape, rng):
    u, _, v = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    matrix = (u * np.geomspace(0.1, 1.0, min(shape))) @ v
    found = np.array(orthogonal(pd.constant(matrix.astype(np.float32))).eval())
    sizes = np.diag(u.T @ found @ v.T)  # along the singular vectors of the matrix
    assert sizes.min() > 0.6 and sizes.max() < 1.25
    np.testing.assert_allclose(u @ np.diag(sizes) @ v, found, atol=1e-4)
    assert not np.any(orthogonal(pd.zeros(shape)).eval())


ROWS = np.array([0, 1])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: pd.Variable("b", data=np.ones(3)), r"MuonOptimizer: .*b.* has rank 1, and its st"),
        (
            lambda: pd.Variable("k", data=np.ones((2, 2, 2))),
            r"has rank 3.*\n  hint: steps of A",
        ),
        (
            lambda: pd.Variable("t", data=np.ones((4, 2)), row_sparse=True),
            r"is row_sparse, and its steps are of whole matrices",
        ),
    ],
    ids=["vector", "rank 3", "row_sparse"],
)
def test_what_is_no_matrix(make, message):
    w = make()
    cost = pd.reduce_sum(pd.square(pd.gather(w, ROWS)))
    with pytest.raises(pd.GraphError, match=message):
        pd.MuonOptimizer().minimize(cost)
    step = pd.MuonOptimizer(
        0.1, groups=[{"params": [w], "use_muon": False, "weight_decay": 0.0}]
    ).minimize(cost)
    pd.eval(step)
    np.testing.assert_allclose(w.val()[:2], 0.9, rtol=1e-5)
