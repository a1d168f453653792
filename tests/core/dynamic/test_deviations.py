"""Steps of a loop that differ in one place from those before, which are found without tracing."""

import gc
import sys

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic.pattern import Pattern
from pd_core.dynamic.recorder import Recorder
from pd_core.graph.recording import recorder

from ...thinned import EVERY, thinned
from ...threads import in_threads

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
WEIGHTS = np.cos(np.arange(3)).astype(np.float32)
HELD = []


class Net(pd.nn.Layer):
    """Two layers with an op behind each, called one after the other."""

    def __init__(self):
        super().__init__(name="net")
        self.hidden, self.action = pd.nn.FC(4), pd.nn.FC(3)
        self.other, self.third = pd.nn.FC(4, "tanh"), pd.nn.FC(3)
        self.scale = pd.Variable(data=np.float32([1.5]), name="scale")

    def forward(self, x, place=None, deviation=None):
        calls = [self.hidden, pd.relu, self.action, pd.softmax]
        for k, call in enumerate(calls):
            x = deviation(self, k, call)(x) if k == place else call(x)
        return x


def then(effect):
    """The same, but that something is done with the result while values are at hand."""

    def deviating(net, k, call):
        def called(x):
            y = call(x)
            if recorder() is not None:
                effect(y)
            return y

        return called

    return deviating


def on(function):
    """One that goes on with something else than the result."""
    return lambda net, k, call: lambda x: function(call(x))


def either(*calls):
    """One with another call for each of the four."""
    return lambda net, k, call: lambda x: calls[k](net, x)


def again(net, k, call):
    return lambda x: call(x) + call(x)


def scaled(net, k, call):
    return lambda x: call(x) * net.scale


DEVIATIONS = {
    "another op": either(
        lambda net, x: net.other(x),
        lambda net, x: pd.tanh(x),
        lambda net, x: net.third(x),
        lambda net, x: pd.log_softmax(x),
    ),
    "another attribute": either(
        lambda net, x: pd.matmul(x, net.hidden.W) - net.hidden.B,
        lambda net, x: pd.leaky_relu(x, 0.25),
        lambda net, x: pd.matmul(x, net.action.W) - net.action.B,
        lambda net, x: pd.softmax(x, axis=0),
    ),
    "one call less": either(
        lambda net, x: net.other(x),
        lambda net, x: x,
        lambda net, x: net.third(x),
        lambda net, x: x,
    ),
    "another dtype": on(lambda y: pd.cast(pd.cast(y * 4.0, "float64"), "float32")),
    "another rank": on(lambda y: pd.squeeze(pd.unsqueeze(y, [0]), [0])),
    "one op more": on(pd.square),
    "a product with itself": on(lambda y: y * y),
    "two uses": on(lambda y: pd.tanh(y) + y),
    "called again": again,
    "another leaf": on(lambda y: y + np.full((1, 1), 0.5, np.float32)),
    "a parameter more": scaled,
    "held": then(HELD.append),
    "read": then(lambda y: y.numpy()),
    "asked for its node": then(lambda y: y.node),
    "asked for its shape": then(lambda y: y.shape),
    "used elsewhere": then(lambda y: HELD.append(pd.tanh(y))),
    "used in vain": then(pd.tanh),
    "computed elsewhere": then(lambda y: pd.tanh(y).numpy()),
}


@pytest.fixture
def matched(monkeypatch):
    """Whether each of the traces was known."""
    results, match = [], Pattern.match

    def noted(self, target, state):
        found = match(self, target, state)
        results.append(found is not None)
        return found

    monkeypatch.setattr(Pattern, "match", noted)
    return results


@pytest.mark.parametrize("name", DEVIATIONS)
def test_deviating_steps_are_as_in_a_static_graph(name, matched):
    deviation, net, slot = DEVIATIONS[name], Net(), pd.Variable([None, 3])
    net(slot)
    net.other(slot), net.third(net.other(slot))
    parameters = [net.hidden.W, net.action.B]
    static, places = {}, thinned(range(4), 3)
    for place in (None, *places):
        y = net(slot, place, deviation)
        static[place] = [y, *pd.gradients(pd.reduce_sum(pd.reduce_sum(y, 0) * WEIGHTS), parameters)]
    targets = {place: [t for t in every if t is not None] for place, every in static.items()}
    x = {n: np.concatenate([X] * n) for n in (1, 2)}
    wanted = {(p, n): iter(pd.eval(t, {slot: x[n]})) for p, t in targets.items() for n in x}
    wanted = {
        key: [None if t is None else next(values) for t in static[key[0]]]
        for key, values in wanted.items()
    }
    with pd.guard():
        for place in (*places, None):
            for at in (None, place, None, place):
                for n in (1, 2) if at is place else (1,):
                    with pd.no_grad():
                        value = net(x[n], at, deviation).numpy()
                    np.testing.assert_allclose(value, wanted[at, n][0], rtol=1e-5, atol=1e-6)
                    y = net(x[n], at, deviation)
                    pd.reduce_sum(pd.reduce_sum(y, 0) * WEIGHTS).backward()
                    for w, expected in zip(parameters, wanted[at, n][1:], strict=True):
                        found = w.gradient()
                        assert (found is None) == (expected is None)
                        if found is not None:
                            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
                        w.clear_gradient()
                    HELD.clear()
    assert sum(matched) > 5


def written(net, k, call):
    """Another value of a parameter is stored once it was read."""

    def called(x):
        y, w = call(x), net.hidden.W
        pd.default_session().set(w, w.val() * np.float32(0.75))
        return y

    return called


def trained(y):
    """Take a step of an optimizer."""
    pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(y)))


def raising(y):
    raise RuntimeError("in the middle of a step")


def without_gradients(net, k, call):
    def called(x):
        if recorder() is None:
            return call(x)
        with pd.no_grad():
            return call(x)

    return called


def stop(y):
    y.stop_gradient = True


def frozen(net, k, call):
    def called(x):
        net.hidden.W.trainable = not net.hidden.W.trainable
        return call(x)

    return called


def hooked(net, k, call):
    def called(x):
        handle = net.action.register_forward_hook(lambda layer, inputs, y: y + 1.0)
        try:
            return call(x)
        finally:
            handle.remove()

    return called


# What a static graph has no equal of; the truth is the same without anything that is known.
EFFECTS = {
    **DEVIATIONS,
    "written": written,
    "trained": then(trained),
    "an exception": then(raising),
    "another size inside": on(lambda y: pd.concat([y, y], axis=1)),
    "a draw": on(lambda y: pd.dropout(y, 0.5)),
    "without gradients": without_gradients,
    "its gradient stopped": then(stop),
    "frozen": frozen,
    "a hook": hooked,
    "assigned": lambda net, k, call: lambda x: setattr(net.other, "act", "relu") or net.other(x),
}


def journal(seed):
    """Run random dynamic steps; return their values, errors, gradients, draws and nodes."""
    rng, noted = np.random.default_rng(seed), []
    with pd.fresh(seed=3) as session, pd.guard():
        net = Net()
        with pd.no_grad():
            net.third(net.other(net(X))).numpy()
        for _ in range(120 if EVERY else 40):
            name = rng.choice(list(EFFECTS)) if rng.random() < 0.3 else None
            place = None if name is None else int(rng.integers(4))
            x, looks = np.concatenate([X] * int(rng.integers(1, 3))), rng.random(3) < 0.5
            try:
                if looks[0]:
                    with pd.no_grad():
                        y = net(x, place, EFFECTS.get(name))
                else:
                    y = net(x, place, EFFECTS.get(name))
                    pd.reduce_sum(pd.reduce_sum(y, 0) * WEIGHTS).backward(retain_graph=looks[1])
                if looks[2]:
                    node = y.node
                    noted.append(
                        node and (node.op_type, node.scope, node.site, node.inputs[0].shape)
                    )
                noted += y.name, y.dims, y.tracked, y.numpy()
            except (RuntimeError, pd.GraphError) as error:
                noted.append(f"{type(error).__name__}: {error}")
            noted += [w.gradient() for w in net.parameters()]
            stats = session.stats()
            work = [stats[n] for n in ("evaluations", "operators", "fed", "fetched", "stored")]
            noted += name, place, dict(session.draws), work
            net.clear_gradients()
            HELD.clear()
        noted += [w.val() for w in net.parameters()]
    return noted


@pytest.mark.parametrize("seed", range(12 if EVERY else 2))
def test_random_steps_are_as_if_nothing_was_known(seed, monkeypatch):
    found = journal(seed)
    for owner, name in ((Pattern, "match"), (Recorder, "again"), (Recorder, "repeat")):
        monkeypatch.setattr(owner, name, lambda *arguments: None)
    wanted = journal(seed)
    assert len(found) == len(wanted)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=str(found[:k][-9:]))
        else:
            assert a == b, (k, found[:k][-12:])


def test_what_was_computed_is_not_computed_again():
    with pd.fresh() as session, pd.guard():
        net = Net()

        def operators(look):
            h = net.hidden(X)
            if look:
                h.numpy()
            before = session.stats()["operators"]
            pd.softmax(net.action(pd.relu(h)), axis=-1).numpy()
            return session.stats()["operators"] - before

        every = [operators(look) for look in (False, False, True, False, True)]
    assert every[2] == every[4] < every[0] == every[1] == every[3]


def test_a_known_step_takes_few_calls_of_python():
    net, calls = Net(), []

    def step():
        with pd.no_grad():
            return net(X).numpy()

    with pd.guard():
        for _ in range(5):
            step()
        before = sys.getprofile()
        gc.disable()  # what a collection frees calls functions, too
        sys.setprofile(lambda frame, event, argument: calls.append(event))
        try:
            step()
        finally:
            sys.setprofile(before)
            gc.enable()
    assert calls.count("call") < 105  # 120 where each op was called as if it had arrays


def test_threads_have_their_own_steps():
    net, slot = Net(), pd.Variable([None, 3])
    names = ["another op", "one op more", "two uses", "held"]
    net.third(net.other(slot)), net(slot)
    static = {name: net(slot, 1, DEVIATIONS[name]) for name in names}
    wanted = pd.eval(static, {slot: X})

    def steps(name):
        with pd.guard(), pd.no_grad():
            return [net(X, at, DEVIATIONS[name]).numpy() for _ in range(20) for at in (None, 1)]

    for name, values in in_threads(steps, names).items():
        for value in values[1::2]:
            np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-6)
    HELD.clear()


def test_a_hook_that_a_call_adds_is_called_next():
    layer = pd.nn.FC(3)

    def adds(dims, rng):
        layer.register_forward_hook(lambda layer, inputs, y: y * 0.0)
        return np.ones(dims, np.float32)

    layer.W = pd.Variable([3, 3], initializer=adds)
    with pd.guard():
        values = [layer(X).numpy() for _ in range(3)]
    assert values[0].any() and not values[2].any()
