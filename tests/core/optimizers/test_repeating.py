"""The rule of an optimizer that is traced for one parameter, and repeated for the others."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import ancestors
from pd_core.optimizers import repeating

OPTIMIZERS = {
    "SGD": pd.SGDOptimizer,
    "momentum": lambda: pd.MomentumOptimizer(nesterov=True),
    "Adam": lambda: pd.AdamOptimizer(clip=pd.ClipGlobalNorm(1.0), regularizer=pd.L2(0.1)),
    "groups": lambda: pd.AdamOptimizer(groups=[{"params": ".*/W", "learning_rate": 0.2}]),
    "AdaGrad": pd.AdaGradOptimizer,
    "decayed AdaGrad": pd.DecayedAdaGradOptimizer,
    "RMSProp": lambda: pd.RMSPropOptimizer(centered=True, momentum=0.9),
    "AdaDelta": pd.AdaDeltaOptimizer,
    "AdamW": pd.AdamWOptimizer,
    "Adamax": pd.AdamaxOptimizer,
    "NAdam": pd.NAdamOptimizer,
    "RAdam": pd.RAdamOptimizer,
    "Lion": pd.LionOptimizer,
}
OF_WHOLE_PARAMETERS = {"LAMB": pd.LAMBOptimizer, "AdaFactor": pd.AdaFactorOptimizer}


def step(optimizer):
    """The update of a network with scalars, vectors and matrices, and a frozen rate."""
    x = pd.Variable(["n", 6])
    h, scale = x, pd.Variable("scale", shape=[])
    for k, n in enumerate((5, 1, 4)):
        w = pd.Variable(f"{k}/W", shape=[h.dims[1], n], learning_rate=2.0 if k == 1 else 1.0)
        h = pd.tanh(h @ w + pd.Variable(f"{k}/B", shape=[n]))
    return optimizer.minimize(pd.reduce_mean(pd.square(h * scale)))


def described(update):
    """All that a graph of an update consists of."""
    nodes = ancestors([a.value for a in update.assignments])
    return [
        (
            (
                node.op_type,
                node.kind,
                node.scope,
                [(y.name, y.dims, y.dtype) for y in node.outputs],
            ),
            [(x.name, None if x.value is None else x.value.tolist()) for x in node.inputs],
        )
        for node in nodes
    ]


@pytest.mark.parametrize("name", [*OPTIMIZERS, *OF_WHOLE_PARAMETERS])
def test_a_repeated_rule_is_the_rule(name, monkeypatch):
    make, repeated = {**OPTIMIZERS, **OF_WHOLE_PARAMETERS}[name], []
    again = repeating.repeated
    monkeypatch.setattr(
        repeating, "repeated", lambda *args: repeated.append(again(*args)) or repeated[-1]
    )
    with pd.fresh():
        ours = described(step(make()))
    assert bool(repeated) == (name in OPTIMIZERS)
    monkeypatch.setattr(repeating.Repetition, "changed", lambda self, rule, *a: rule.rule(*a))
    with pd.fresh():
        assert ours == described(step(make()))


def test_lines_of_repeated_nodes_are_those_of_minimize():
    with pd.fresh():
        update = step(pd.AdamOptimizer())
    sites = {a.value.node.site for a in update.assignments}
    assert len(sites) == 1 and sites.pop()[0] == __file__


def test_the_rule_of_a_subclass_is_called_for_each_parameter():
    seen = []

    class Named(pd.SGDOptimizer):
        def rule(self, w, g, slots, rate, step):
            seen.append(w.name)
            return w - g * (len(w.name) * 0.5), {}

    assert not Named.elementwise and pd.SGDOptimizer.elementwise
    with pd.fresh():
        a, b = pd.Variable("a", data=[1.0, 1.0]), pd.Variable("bb", data=[1.0, 1.0])
        pd.eval(Named().minimize(pd.reduce_sum(a) + pd.reduce_sum(b)))
        np.testing.assert_array_equal([a.eval(), b.eval()], [[0.5, 0.5], [0.0, 0.0]])
    assert seen == ["a", "bb"]


def parameter_itself(g, w):
    return w


@pytest.mark.parametrize("option", ["clip", "regularizer"])
@pytest.mark.parametrize("first", [True, False])
def test_a_gradient_that_is_the_parameter_is_told_apart(option, first):
    """The rule of a parameter whose clip or penalty returns it reads one Variable twice."""
    a, b = np.full(3, 2.0, np.float32), np.full(4, 5.0, np.float32)
    with pd.fresh():
        options = {"name": "a" if first else "z", option: parameter_itself}
        own, other = pd.Variable(data=a, **options), pd.Variable("b", data=b)
        cost = pd.reduce_sum(own * 3.0) + pd.reduce_sum(other * 7.0)
        pd.eval(pd.MomentumOptimizer(0.1, 0.9).minimize(cost))
        np.testing.assert_allclose(own.eval(), a - 0.1 * a, rtol=1e-6)
        np.testing.assert_allclose(other.eval(), b - 0.7, rtol=1e-6)
