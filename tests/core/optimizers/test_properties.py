"""Optimizers with generated settings, shapes and gradients, step by step against NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pd_core as pd
from tests.properties import examples, normal, seeds

RATES = st.sampled_from([1e-3, 0.01, 0.1, 0.5])
DECAYS = st.sampled_from([0.0, 0.5, 0.9, 0.99])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3)
STEPS = 4


def sgd(w, g, t, s, rate):
    return w - rate * g


def momentum(w, g, t, s, rate, mu):
    """v := mu v + g (Polyak 1964, as PyTorch has it, without dampening)."""
    s["v"] = mu * s["v"] + g
    return w - rate * s["v"]


def adam(w, g, t, s, rate, beta1, beta2, epsilon):
    """Kingma & Ba 2015, algorithm 1."""
    s["m"] = beta1 * s["m"] + (1 - beta1) * g
    s["v"] = beta2 * s["v"] + (1 - beta2) * g * g
    m, v = s["m"] / (1 - beta1**t), s["v"] / (1 - beta2**t)
    return w - rate * m / (np.sqrt(v) + epsilon)


def check(optimizer, rule, shape, seed):
    """Compare the trajectories of a parameter whose gradient is what is fed."""
    start = normal(seed, shape, "float64")
    w = pd.Variable("w", data=start.astype("float32"))
    g = pd.Variable(list(shape), dtype="float32")
    step = optimizer.minimize(pd.reduce_sum(w * g))
    state = {"m": 0.0, "v": 0.0}
    for t in range(1, STEPS + 1):
        gradient = normal(seed + t, shape)
        pd.eval(step, {g: gradient})
        start = rule(start, gradient.astype("float64"), t, state)
        np.testing.assert_allclose(w.val(), start, rtol=2e-5, atol=2e-6)
    pd.reset(seed=0)


@examples(25)
@given(SHAPES, RATES, seeds)
def test_sgd_is_its_formula(shape, rate, seed):
    check(pd.SGDOptimizer(rate), lambda *a: sgd(*a, rate), shape, seed)


@examples(25)
@given(SHAPES, RATES, DECAYS, seeds)
def test_momentum_is_its_formula(shape, rate, mu, seed):
    check(pd.MomentumOptimizer(rate, mu), lambda *a: momentum(*a, rate, mu), shape, seed)


@examples(25)
@given(SHAPES, RATES, DECAYS, DECAYS, st.sampled_from([1e-3, 1e-6]), seeds)
def test_adam_is_its_formula(shape, rate, beta1, beta2, epsilon, seed):
    optimizer = pd.AdamOptimizer(rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
    check(optimizer, lambda *a: adam(*a, rate, beta1, beta2, epsilon), shape, seed)
