"""AdaFactor, with the numbers of torch.optim.Adafactor 2.13 in float64."""

import numpy as np

import pd_core as pd

X = np.linspace(-1.0, 2.0, 24, dtype=np.float32).reshape(8, 3)
Y = np.linspace(1.0, -1.0, 16, dtype=np.float32).reshape(8, 2) ** 3
START = {"w": [[0.5, 0.1], [-1.0, 0.0], [0.25, 2.0]], "b": [0.75, -0.5]}

# Adafactor(lr=0.05, weight_decay=0.1) after 5 and 20 steps on the mean of (X w + b - Y)²
AFTER = {
    5: {
        "w": [0.40272091, -0.11422122, -1.09054325, -0.21073868, 0.10076789, 1.7407482],
        "b": [0.60503622, -0.62336529],
    },
    20: {
        "w": [0.46462386, -0.48339066, -0.98794961, -0.56248316, 0.05355818, 1.25772596],
        "b": [0.38288672, -0.57814512],
    },
}


def test_the_numbers_of_pytorch():
    w, b = (pd.Variable(name, data=np.array(value)) for name, value in START.items())
    cost = pd.reduce_mean(pd.square(pd.matmul(X, w) + b - Y))
    step = pd.AdaFactorOptimizer(0.05, weight_decay=0.1, name="f").minimize(cost)
    sizes = {v.name: v.dims for v in step.variables()}
    assert sizes == {"f/steps": (), "f/w/rows": (3, 1), "f/w/columns": (1, 2), "f/b/squares": (2,)}
    for t in range(1, 21):
        pd.eval(step)
        for v in (w, b) if t in AFTER else ():
            np.testing.assert_allclose(v.val().ravel(), AFTER[t][v.name], rtol=1e-5, atol=1e-6)


def test_inside_a_guard_and_accumulated():
    found = []
    for batches, accumulate in ((1, 1), (2, 2)):
        pd.reset()
        w = pd.Variable("w", data=np.array(START["w"]))
        adafactor = pd.AdaFactorOptimizer(0.05, accumulate=accumulate)
        with pd.guard():
            for _ in range(4):
                for x, y in zip(np.split(X, batches), np.split(Y, batches), strict=True):
                    adafactor.minimize(pd.reduce_mean(pd.square(pd.matmul(x, w) - y)))
        assert adafactor.state()["w/rows"].shape == (3, 1)
        found.append(w.val())
    np.testing.assert_allclose(*found, rtol=1e-5)
