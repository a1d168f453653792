"""One-cycle, warm restarts and plateaus, with the numbers of PyTorch's lr_scheduler (2.13)."""

import itertools
import math

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import Counter, Data, Device, ForwardBackward, Observe, Runner, Update

S = pd.schedules

# the rates of step 0, 1, ...
PYTORCH = {
    "OneCycleLR, cos": (
        S.OneCycle(0.5, 12, final_div_factor=100.0),
        [
            *(0.02, 0.174894827, 0.43964258, 0.497208823, 0.466519748, 0.405910101, 0.323759318),
            *(0.23142495, 0.141672454, 0.066910337, 0.01747465, 0.0002),
        ],
    ),
    "OneCycleLR, linear": (
        S.OneCycle(0.5, 10, pct_start=0.4, div_factor=10.0, anneal="linear"),
        [0.05, 0.2, 0.35, 0.5, 0.4166675, 0.333335, 0.2500025, 0.16667, 0.0833375, 5e-06],
    ),
    "CosineAnnealingWarmRestarts": (
        S.CosineRestarts(0.5, 4, end=0.1),
        [0.5, 0.441421356, 0.3, 0.158578644, 0.5, 0.441421356, 0.3, 0.158578644, 0.5, 0.441421356],
    ),
    "CosineAnnealingWarmRestarts, longer": (
        S.CosineRestarts(0.5, 2, factor=3),
        [
            *(0.5, 0.25, 0.5, 0.466506351, 0.375, 0.25, 0.125, 0.033493649, 0.5, 0.496201938),
            *(0.484923155, 0.466506351),
        ],
    ),
}


def rates(schedule, steps):
    """The rates of a schedule at these steps."""
    return pd.eval(schedule(pd.constant(np.array(steps, np.float32))))


@pytest.mark.parametrize("schedule, expected", PYTORCH.values(), ids=PYTORCH)
def test_the_rates_of_pytorch(schedule, expected):
    got = rates(schedule, range(len(expected)))
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-7)


def test_a_cycle_is_over_after_its_steps():
    np.testing.assert_allclose(rates(S.OneCycle(0.5, 10), [9, 10, 1e6]), [2e-6] * 3, rtol=2e-2)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_restarts_are_exact_in_long_trainings(factor):
    """Around each of the first restarts, up to step 200,000."""
    starts, length = [0], 10
    while starts[-1] < 200_000 and len(starts) < 50:
        starts.append(starts[-1] + length)
        length *= factor
    periods = list(itertools.pairwise(starts))
    steps = [t for start, end in periods for t in (start, start + 1, (start + end) // 2, end - 1)]
    places = [(t - a) / (b - a) for a, b in periods for t in (a, a + 1, (a + b) // 2, b - 1)]
    expected = [0.5 * (1.0 + math.cos(math.pi * place)) for place in places]
    np.testing.assert_allclose(rates(S.CosineRestarts(1.0, 10, factor), steps), expected, atol=2e-6)


def test_a_schedule_of_a_wrong_shape():
    with pytest.raises(ValueError, match="OneCycle: anneal is 'cos' or 'linear', not 'log'"):
        S.OneCycle(0.1, 10, anneal="log")
    with pytest.raises(ValueError, match=r"OneCycle: a share 0.3 of 3 steps is no rise"):
        S.OneCycle(0.1, 3)
    with pytest.raises(ValueError, match="CosineRestarts: steps is a positive integer, not 0"):
        S.CosineRestarts(0.1, 0)
    with pytest.raises(ValueError, match=r"CosineRestarts: factor is a positive integer, not 1\.5"):
        S.CosineRestarts(0.1, 5, 1.5)
    with pytest.raises(ValueError, match=r"ReduceOnPlateau: the factor is within \(0, 1\), not 2"):
        S.ReduceOnPlateau(0.1, factor=2)
    with pytest.raises(ValueError, match="ReduceOnPlateau: mode is 'min' or 'max', not 'less'"):
        S.ReduceOnPlateau(0.1, mode="less")


# ---- plateaus: ReduceLROnPlateau after each of these numbers, from 0.5

NUMBERS = [1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.89999, 0.8, 0.8, 0.8, 0.8, 0.81, 0.82, 0.83, 0.84, 0.85]
PLATEAUS = {
    "patience": (
        {"factor": 0.5, "patience": 2},
        [0.5] * 4 + [0.25] * 6 + [0.125] * 3 + [0.0625] * 3,
    ),
    "cooldown": (
        {"factor": 0.5, "patience": 1, "cooldown": 2, "least": 0.1, "threshold": 0.01},
        [0.5] * 3 + [0.25] * 6 + [0.125] * 4 + [0.1] * 3,
    ),
    "max": (
        {"mode": "max", "factor": 0.1, "patience": 4, "threshold": 0.05},
        [0.5] * 5 + [0.05] * 5 + [0.005] * 5 + [0.0005],
    ),
}


@pytest.mark.parametrize("settings, expected", PLATEAUS.values(), ids=PLATEAUS)
def test_plateaus_of_pytorch(settings, expected):
    plateau = S.ReduceOnPlateau(0.5, **settings)
    np.testing.assert_allclose([plateau.observe(n) for n in NUMBERS], expected, rtol=1e-6)


@pytest.mark.parametrize("in_guard", [False, True])
def test_a_plateau_by_hand(in_guard):
    w, plateau = pd.Variable("w", data=0.0), S.ReduceOnPlateau(1.0, factor=0.5, patience=0)
    sgd, seen = pd.SGDOptimizer(plateau), []
    step = None if in_guard else sgd.minimize(w * -1.0)
    for number in (3.0, 2.0, 2.0, 2.0):
        if in_guard:
            with pd.guard():
                sgd.minimize(w * -1.0)
        else:
            pd.eval(step)
        seen.append(float(w.val()))
        plateau.observe(number)
    assert seen == [1.0, 2.0, 3.0, 3.5]


def test_a_plateau_in_a_runner():
    w, x = pd.Variable("w", data=0.0), pd.Variable("x", shape=[None])
    plateau = S.ReduceOnPlateau(1.0, factor=0.5, patience=0, mode="max")
    runner, batches = Runner(), [{x: np.ones(2, np.float32)}]
    cost, sgd = pd.reduce_mean(x * w), pd.SGDOptimizer(plateau)
    items = [Device(), Counter(), Data(lambda: batches), Observe(plateau, monitor="cost")]
    for item in (*items, ForwardBackward(cost), Update(sgd)):
        runner.add_item(item)
    with runner:
        runner.run(4)  # costs 0, -1, -2, -2.5
    assert (w.val(), plateau.rate.val()) == (-2.75, 0.125)


class Linear(pd.nn.Module):
    def __init__(self):
        super().__init__("net")
        self.l = pd.nn.FC(1)

    def forward(self, x):
        return self.l(x)


def test_a_plateau_of_a_module_that_is_fitted():
    x = np.linspace(-1.0, 1.0, 8, dtype=np.float32).reshape(8, 1)
    plateau = S.ReduceOnPlateau(0.5, factor=0.5, patience=0, threshold=2.0)  # never better
    settings = {"loss": pd.nn.MSE(), "batch_size": 8, "verbose": False, "epochs": 3}
    sgd = pd.SGDOptimizer(plateau)
    Linear().fit(x, x + 1.0, optimizer=sgd, callbacks=[Observe(plateau)], **settings)
    assert plateau.rate.val() == 0.0625
