"""Optimizers as rules: what belongs to an Update and what to nobody."""

import numpy as np
import pytest

import pd_core as pd


def parabola(*names):
    variables = [pd.Variable(name, data=[1.0, 2.0]) for name in names]
    return variables, pd.reduce_sum(pd.concat([pd.square(v) for v in variables]))


def test_an_update_lists_its_slots_and_counters():
    _, cost = parabola("w", "b")
    update = pd.AdamOptimizer(0.1, name="adam").minimize(cost)
    assert [v.name for v in update.variables()] == [
        *("adam/weight1", "adam/weight2"),
        *("adam/w/m", "adam/w/v", "adam/b/m", "adam/b/v"),
    ]
    assert pd.SGDOptimizer(0.1).minimize(cost).variables() == []
    scheduled = pd.SGDOptimizer(pd.schedules.CosineDecay(0.1, 10), name="sgd")
    assert [v.name for v in scheduled.minimize(cost).variables()] == ["sgd/steps"]


def test_an_optimizer_is_the_same_before_and_after():
    _, cost = parabola("w")
    optimizer = pd.AdamOptimizer(0.1)
    before = dict(vars(optimizer))
    first, second = optimizer.minimize(cost), optimizer.minimize(cost)
    assert vars(optimizer) == before
    assert set(first.variables()).isdisjoint(second.variables())
    assert first.variables()[0].name == "adamoptimizer_0/weight1"
    assert second.variables()[0].name == "adamoptimizer_1/weight1"


def test_a_given_name_can_have_one_state_at_a_time():
    _, cost = parabola("w")
    optimizer = pd.MomentumOptimizer(0.1, name="momentum")
    update = optimizer.minimize(cost)
    with pytest.raises(pd.NameConflict, match="'momentum/w/velocity' exists already"):
        optimizer.minimize(cost)
    pd.eval(update)


def test_a_rule_is_a_function_of_what_it_is_given():
    w, g, m, v = (pd.constant(np.array([x], np.float32)) for x in (1.0, 0.5, 0.1, 0.2))
    optimizer = pd.AdamOptimizer(0.1)
    step = optimizer.advance({"weight1": pd.constant(0.0), "weight2": pd.constant(0.0)})
    new_w, slots = optimizer.rule(w, g, {"m": m, "v": v}, 0.1, step)
    m1, v1 = 0.1 * 0.9 + 0.5 * 0.1, 0.2 * 0.999 + 0.25 * 0.001
    rate = 0.1 * np.sqrt(0.001) / 0.1
    np.testing.assert_allclose(pd.eval(slots["m"]), [m1], rtol=1e-6)
    np.testing.assert_allclose(pd.eval(slots["v"]), [v1], rtol=1e-6)
    np.testing.assert_allclose(pd.eval(new_w), [1.0 - rate * m1 / (np.sqrt(v1) + 1e-8)], rtol=1e-5)


class SignOptimizer(pd.optimizers.Optimizer):
    """w := w - rate sign(g), and a count of the steps beside each parameter."""

    slots = {"steps": 0.0}

    def rule(self, w, g, slots, rate, step):
        return w - pd.sign(g) * rate, {"steps": slots["steps"] + 1.0}


def test_an_optimizer_of_a_user():
    (w,), cost = parabola("w")
    update = SignOptimizer(0.25, name="sign").minimize(cost)
    for _ in range(3):
        pd.eval(update)
    (steps,) = update.variables()
    assert w.val().tolist() == [0.25, 1.25] and steps.val().tolist() == [3.0, 3.0]


class ForgetfulOptimizer(SignOptimizer):
    """A rule that leaves out a slot, or an `advance` that leaves out a counter."""

    def rule(self, w, g, slots, rate, step):
        return w, {}


class StoppedOptimizer(SignOptimizer):
    counters = {"count": 0.0}

    def advance(self, counters):
        return {"steps": counters["count"]}


@pytest.mark.parametrize(
    "make, message",
    [
        (
            ForgetfulOptimizer,
            r"ForgetfulOptimizer.rule returned slots \[\], .* are \['steps'\]",
        ),
        (
            StoppedOptimizer,
            r"StoppedOptimizer.advance returned counters \['steps'\], .* are \['count'\]",
        ),
    ],
)
def test_what_a_rule_declares_is_what_it_returns(make, message):
    _, cost = parabola("w")
    with pytest.raises(pd.GraphError, match=message):
        make(0.25).minimize(cost)
