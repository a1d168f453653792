"""What a loop records again is found by what it is: layers that have changed, other wiring."""

import gc

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic.pattern import Pattern
from pd_core.dynamic.recorded_call import RecordedCall
from pd_core.dynamic.trace import Trace

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def values(net, x=X):
    """The output of a net, recorded, and of the same net in a static graph."""
    with pd.guard():
        recorded = net(x).numpy()
    return recorded, pd.eval(net(pd.constant(x)))


def check(net, x=X):
    recorded, static = values(net, x)
    np.testing.assert_allclose(recorded, static, rtol=1e-6, atol=1e-6)
    return recorded


def replaced_weight(net):
    net[0].W = pd.Variable(name="other", data=np.ones((3, 5), np.float32))


def changed_hook(net):
    net[0].register_forward_hook(lambda layer, inputs, output: output + 1.0)


# name: a change of a net of three layers, by which its values change
CHANGES = {
    "an attribute": lambda net: setattr(net[0], "act", "sigmoid"),
    "one layer more": lambda net: net.append(pd.nn.FC(4)),
    "another layer": lambda net: net.__setitem__(2, pd.nn.FC(4)),
    "a layer below": lambda net: setattr(net[2], "0", pd.nn.FC(2, "tanh")),
    "another weight": replaced_weight,
    "a hook": changed_hook,
    "a value": lambda net: net[0].B.normal(),
    "loaded": lambda net: net.load_dict({k: v + 1 for k, v in net.state_dict().items()}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_layer_that_has_changed_is_called_anew(name):
    net = pd.nn.Sequential(pd.nn.FC(5, "tanh"), pd.nn.ReLU(), pd.nn.Sequential(pd.nn.FC(2)))
    before = [check(net) for _ in range(3)]
    CHANGES[name](net)
    after = [check(net) for _ in range(3)]
    assert before[0].shape != after[0].shape or not np.allclose(before[0], after[0])
    np.testing.assert_array_equal(after[0], after[2])


def test_a_computed_parameter_follows_what_computes_it():
    norm, layer, factors = pd.nn.SpectralNorm(pd.nn.FC(3)).eval(), pd.nn.FC(3), [1.0]
    layer.compute_parameter("W", lambda shape, spec: pd.full(shape, factors[-1]))
    for net, change in (
        (norm, lambda: setattr(norm, "axis", 0)),
        (layer, lambda: factors.append(2.0)),
    ):
        before = [check(net) for _ in range(3)]
        change()
        after = [check(net) for _ in range(3)]
        assert not np.allclose(before[-1], after[0])


def test_modes_of_a_layer_are_told_apart():
    net = pd.nn.Sequential(pd.nn.FC(50), pd.nn.Dropout(0.5))
    x = np.ones((2, 3), np.float32)
    with pd.guard():
        for _ in range(2):
            trained = [net.train()(x).numpy() for _ in range(2)]
            evaluated = [net.eval()(x).numpy() for _ in range(2)]
            assert (trained[0] == 0).any() and not (trained[0] == trained[1]).all()
            np.testing.assert_array_equal(*evaluated)


def test_a_frozen_layer_has_no_gradients():
    net = pd.nn.Sequential(pd.nn.FC(4, "tanh"), pd.nn.FC(1))
    with pd.guard():
        for frozen in (False, True, False, True):
            (net[0].freeze if frozen else net[0].unfreeze)()
            for _ in range(2):
                pd.reduce_sum(net(X)).backward()
                gradients = [v.gradient() for v in net.parameters()]
                assert [g is None for g in gradients] == [frozen, frozen, False, False]
                net.clear_gradients()


def test_inputs_of_other_types_are_told_apart():
    net = pd.nn.FC(2)
    for x in (X, X[:1], X.reshape(2, 2, 3), X, X[0], X.reshape(2, 2, 3)):
        check(net, x)
    with pd.guard():
        a = pd.to_variable(X)
        np.testing.assert_allclose(net(a + a).numpy(), net(2 * X).numpy(), rtol=1e-6)


def test_results_of_a_call_have_nodes_when_asked_for():
    net = pd.nn.FC(2, "tanh", name="asked")
    with pd.guard():
        for _ in range(2):
            y = net(X)
        assert type(vars(y)["node"]) is RecordedCall
        assert [n.op_type for n in vars(y)["node"].nodes] == ["MatMul", "Add", "Tanh"]
        assert y.node.op_type == "Tanh" and y.node.inputs[0].node.op_type == "Add"
        assert y.node.scope == "asked/" and y.node.site[0] == __file__
        np.testing.assert_allclose((y * 1.0).numpy(), net(X).numpy())
        assert type(y) is pd.Variable


def test_layers_of_a_call_keep_their_names():
    net = pd.nn.Sequential(pd.nn.FC(3, "relu"), pd.nn.FC(1), name="net")
    found = []
    with pd.guard():
        for look in (False, True, False):
            y = net(X)
            if look:
                scopes = [n.scope for n in vars(y)["node"].nodes]
                assert scopes == ["net/0/"] * 3 + ["net/1/"] * 2
                assert y.node.op_type == "Add"
            pd.reduce_sum(pd.square(y)).backward()
            found.append([v.gradient() for v in net.parameters()])
            net.clear_gradients()
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.fixture
def matched(monkeypatch):
    """The results of all matches: whether a trace was known."""
    results, match = [], Pattern.match

    def noted(self, targets, state):
        found = match(self, targets, state)
        results.append(found is not None)
        return found

    monkeypatch.setattr(Pattern, "match", noted)
    return results


def test_a_loop_is_traced_once(matched, monkeypatch):
    traced, begin = [], Trace.__init__
    monkeypatch.setattr(Trace, "__init__", lambda *a, **k: traced.append(a) or begin(*a, **k))
    net, sgd = pd.nn.Sequential(pd.nn.FC(4, "relu"), pd.nn.FC(1)), pd.MomentumOptimizer(0.01)
    with pd.guard():
        for k in range(6):
            loss = pd.reduce_mean(pd.square(net(X)))
            if k % 2:
                loss.backward()
            sgd.minimize(loss)
            net.clear_gradients()
            float(loss)
    assert len(traced) <= 2 and sum(matched) >= 4


HELD = []
# Programs of a Variable and a parameter, which differ in little.
PROGRAMS = {
    "product": lambda x, w: pd.tanh(x * w),
    "square": lambda x, w: pd.tanh(x * x) * w,
    "swapped": lambda x, w: pd.tanh(w * x),
    "shared": lambda x, w: (lambda y: y * y)(pd.tanh(x * w)),
    "apart": lambda x, w: pd.tanh(x * w) * pd.tanh(x * w),
    "held": lambda x, w: HELD.append(pd.tanh(x * w)) or HELD[-1] + 1.0,
    "detached": lambda x, w: pd.tanh(x * w).detach() * w,
    "twice": lambda x, w: (pd.tanh(x) * w) * w,
    "joined": lambda x, w: pd.concat([pd.tanh(x * w), x], axis=0),
    "joined again": lambda x, w: pd.concat([pd.tanh(x * w), x, x], axis=0),
    "one of two": lambda x, w: pd.top_k(x * w, 2)[0],
    "two of two": lambda x, w: (lambda y, k: y * pd.cast(k, "float32"))(*pd.top_k(x * w, 2)),
    "one held": lambda x, w: HELD.append(pd.top_k(x * w, 2)) or HELD[-1][0] * 2.0,
}


def test_programs_in_any_order_have_their_own_values(matched):
    rng = np.random.default_rng(0)
    w = pd.Variable(data=np.array([0.6, 1.1, 1.4], np.float32), name="weight")
    slot, static = pd.Variable([None, 3]), {}
    for name, program in PROGRAMS.items():
        y = program(slot, w)
        static[name] = [y, pd.gradients(pd.reduce_sum(y * y), [w])[0]]
    for step in range(60):
        name = list(PROGRAMS)[rng.integers(len(PROGRAMS))]
        x = rng.random((int(rng.integers(2, 4)), 3), np.float32)
        with pd.guard():
            y = PROGRAMS[name](pd.to_variable(x), w)
            cost = pd.reduce_sum(y * y)
            if step % 3 == 0:
                y.numpy()
            cost.backward()
            value, gradient = y.numpy(), w.gradient()
            w.clear_gradient()
        expected, wanted = pd.eval(static[name], {slot: x})
        np.testing.assert_allclose(value, expected, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6, err_msg=name)
        pd.default_session().set(w, w.val() * np.float32(0.99))
    assert sum(matched) > 5


# Ops without operands, with what NumPy makes of them.
WITHOUT_OPERANDS = {
    "ones": (lambda: pd.ones([3]), np.ones(3, np.float32)),
    "zeros": (lambda: pd.zeros([]), np.zeros((), np.float32)),
    "full": (lambda: pd.full([2, 3], 0.5), np.full((2, 3), 0.5, np.float32)),
    "eye": (lambda: pd.eye(2), np.eye(2, dtype=np.float32)),
}


@pytest.mark.parametrize("name", WITHOUT_OPERANDS)
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_chain_may_begin_without_operands(name, calls, matched):
    make, wanted = WITHOUT_OPERANDS[name]
    for _ in range(calls):
        wanted = np.tanh(wanted)
    with pd.guard():
        for _ in range(3):
            y = make()
            for _ in range(calls):
                y = pd.tanh(y)
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)
    assert any(matched)


def test_old_graphs_and_layers_are_freed():
    freed = []

    class Noted(pd.nn.FC):
        def __del__(self):
            freed.append(1)

    for _ in range(2):
        with pd.guard():
            net = Noted(2)
            for _ in range(3):
                net(X).numpy()
        del net
    gc.collect()
    assert len(freed) == 2
