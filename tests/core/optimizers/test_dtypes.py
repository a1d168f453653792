"""Parameters of several element types in one update: each takes the steps that it takes alone."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import thinned

OPTIMIZERS = [
    *("SGD", "Momentum", "Adam", "AdamW", "AdaGrad", "DecayedAdaGrad", "RMSProp", "AdaDelta"),
    *("Adamax", "NAdam", "RAdam", "Lion", "LAMB", "AdaFactor", "Muon"),
]
SETTINGS = {
    "plain": lambda: {"learning_rate": 0.1},
    "schedule": lambda: {"learning_rate": pd.schedules.InverseTimeDecay(0.1, 0.5, power=1)},
    "clips": lambda: {"learning_rate": 0.1, "clip": pd.ClipGlobalNorm(0.5)},
}
VALUE = np.linspace(-1.0, 2.0, 9).reshape(3, 3)


def trained(name, settings, dtypes):
    """Parameters of these types after a few steps from the same value."""
    with pd.fresh(), pd.Session(seed=1):
        own = [pd.Variable(f"w{k}", data=VALUE, dtype=d) for k, d in enumerate(dtypes)]
        costs = [pd.cast(pd.reduce_sum(pd.sin(w)), "float32") for w in own]
        optimizer = getattr(pd, f"{name}Optimizer")(**settings)
        update = optimizer.minimize(sum(costs[1:], costs[0]))
        for _ in range(6):  # RAdam's steps are rectified from the sixth on
            pd.eval(update)
        return [w.eval() for w in own]


@pytest.mark.parametrize("name, settings", thinned(itertools.product(OPTIMIZERS, SETTINGS), 2))
def test_parameters_of_two_types_take_the_same_steps(name, settings):
    made = SETTINGS[settings]
    wanted = trained(name, made(), ["float32", "float32"])
    found = trained(name, made(), ["float32", "float64"])
    for value, dtype, other in zip(found, ["float32", "float64"], wanted, strict=True):
        assert value.dtype == dtype
        np.testing.assert_allclose(value, other, rtol=2e-4, atol=2e-5)
    assert not np.allclose(wanted[0], VALUE, atol=1e-3)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"])
def test_steps_in_float64_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(VALUE, requires_grad=True)
    rate = {"lr": 0.1} if name != "AdamW" else {"lr": 0.1, "weight_decay": 0.01}
    theirs = getattr(torch.optim, name)([tensor], **rate)
    for _ in range(6):
        theirs.zero_grad()
        torch.sin(tensor).sum().backward()
        theirs.step()
    (found,) = trained(name, {"learning_rate": 0.1}, ["float64"])
    np.testing.assert_allclose(found, tensor.detach().numpy(), rtol=1e-4, atol=1e-5)
