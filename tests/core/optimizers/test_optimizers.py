"""Optimizers: which variables a step changes, and the numbers, against numpy in float64."""

import gc

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


# ---- what a step changes


def test_var_list():
    a, b = (pd.Variable(n, data=f32(1.0)) for n in "ab")
    sa = pd.SGDOptimizer(0.1).minimize(a * b, var_list=[a])
    pd.eval(sa)
    assert np.isclose(a.val(), 0.9)
    assert b.val() == 1.0
    s = pd.SGDOptimizer(0.1).minimize([a * 2.0, b * 3.0])
    pd.eval(s)  # list of costs = sum
    assert np.isclose(a.val(), 0.7)
    assert np.isclose(b.val(), 0.7)


def test_var_list_may_repeat_and_hold_what_the_cost_does_not_see():
    a, b = pd.Variable("a", data=f32(1.0)), pd.Variable("b", data=f32(1.0))
    pd.eval(pd.SGDOptimizer(0.5).minimize(a * 1.0, var_list=[a, b, a]))
    assert (a.val(), b.val()) == (0.5, 1.0)


def test_a_cost_without_parameters():
    x, b = pd.Variable("x", shape=[None]), pd.Variable("b", data=f32(1.0))
    with pytest.raises(pd.GraphError, match="minimize: there are no parameters behind"):
        pd.SGDOptimizer().minimize(x * 2.0)
    with pytest.raises(pd.GraphError, match=r"minimize: .* depend on none of \[b: float32\[\]\]"):
        pd.SGDOptimizer().minimize(x * 2.0, var_list=[b])
    with pytest.raises(pd.GraphError, match=r"x: float32\[\?\] keeps no value"):
        pd.SGDOptimizer().minimize(x * b, var_list=[x])


def test_all_parameters_of_the_cost_are_covered_frozen_or_not():
    a, b = pd.Variable("a", data=f32(1.0)), pd.Variable("b", data=f32(1.0), trainable=False)
    step = pd.SGDOptimizer(0.5).minimize(a + b)
    pd.eval(step)
    assert (a.val(), b.val()) == (0.5, 1.0)
    b.trainable = True
    pd.eval(step)
    assert (a.val(), b.val()) == (0.0, 0.5)
    a.trainable = b.trainable = False
    assert pd.eval([step, a]) == [None, 0.0]


def test_optimizer_slots_are_per_optimizer():
    def after(n_other):  # a second Adam on the same variable must not disturb the first one's slots
        pd.reset()
        w = pd.Variable("w", data=f32(1.0))
        c = w * w
        s1 = pd.AdamOptimizer(0.1).minimize(c)
        s2 = pd.AdamOptimizer(0.0).minimize(c)  # lr 0: only its slots move
        for _ in range(3):
            pd.eval(s1)
            for _ in range(n_other):
                pd.eval(s2)
        return float(w.val())

    assert after(0) == after(5)


def test_learning_rate_of_a_variable_is_a_multiplier():
    slow, fast = pd.Variable(data=f32(1.0), learning_rate=0.1), pd.Variable(data=f32(1.0))
    pd.eval(pd.SGDOptimizer(1.0).minimize(slow + fast))
    assert np.isclose(slow.val(), 0.9)
    assert np.isclose(fast.val(), 0.0)


def test_one_optimizer_object_twice_is_two_states():
    w = pd.Variable("w", data=f32(1.0))
    optimizer = pd.MomentumOptimizer(0.1, 0.9)
    s1, s2 = optimizer.minimize(w * 1.0), optimizer.minimize(w * 1.0)
    pd.eval(s1)
    pd.eval(s2)
    velocities = [v.val() for v in pd.persistent_variables() if v.name.endswith("velocity")]
    assert np.allclose(velocities, [-0.1, -0.1])
    assert np.isclose(w.val(), 0.8)


def test_the_learning_rate_may_be_a_variable():
    w = pd.Variable("w", data=f32(1.0))
    rate = pd.Variable("rate", data=f32(0.5), trainable=False)
    step = pd.SGDOptimizer(rate).minimize(w * 1.0)
    pd.eval(step)
    assert w.val() == 0.5
    pd.eval(pd.assign(rate, 0.25))
    pd.eval(step)
    assert w.val() == 0.25
    assert rate.val() == 0.25  # the step does not train it


def test_an_unknown_rule_says_so():
    w = pd.Variable("w", data=f32(1.0))
    with pytest.raises(TypeError, match="Optimizer defines no rule"):
        pd.optimizers.Optimizer(0.1).minimize(w * w)


def test_slots_are_saved_and_resumed_exactly():
    def build():
        w = pd.Variable("w", shape=[5, 3])
        cost = pd.reduce_sum(pd.square(w - 1.0))
        return w, pd.AdamOptimizer(0.05).minimize(cost)

    w, step = build()
    through, first = pd.Session(), pd.Session()
    for _ in range(6):
        through.eval(step)
    for _ in range(3):
        first.eval(step)
    saved = {v.name: a for v, a in first.values().items()}
    assert set(saved) == {
        *("w", "adamoptimizer_0/w/m", "adamoptimizer_0/w/v"),
        *("adamoptimizer_0/weight1", "adamoptimizer_0/weight2"),
    }
    second = pd.Session(seed=99)
    second.load_values({pd.get_variable(name): array for name, array in saved.items()})
    for _ in range(3):
        second.eval(step)
    assert (second.get(w) == through.get(w)).all()


def test_slots_go_with_their_update(device):
    """A sweep over optimizers keeps the parameter and one set of slots, whatever its length."""
    w = pd.Variable("w", data=ones(1000))
    cost = pd.reduce_sum(pd.square(w))
    session = pd.Session(device)
    for _ in range(60 if device == "cpu" else 3):
        step = pd.AdamOptimizer(0.1).minimize(cost)
        session.eval(step)
        session.eval([a.variable for a in step.assignments])  # nor do steps that read them stay
    gc.collect()
    slots = {a.variable for a in step.assignments} - {w}
    assert set(session.values()) == {w, *slots} and len(slots) == 4
    assert {v.name for v in pd.persistent_variables()} == {"w", *(v.name for v in slots)}
    del step, slots
    gc.collect()
    assert set(session.values()) == {w} and pd.persistent_variables() == [w]


def test_large_slots_do_not_wait_for_the_collector():
    """It counts objects, and a step of a few may hold much of the memory."""
    w = pd.Variable("w", shape=[1 << 20])  # 4 MiB
    cost, most = pd.reduce_sum(pd.square(w)), 0
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            pd.eval(pd.AdamOptimizer(0.1).minimize(cost))
            most = max(most, sum(a.nbytes for a in pd.default_session().values().values()))
    finally:
        gc.enable()
    assert most < 80 << 20  # 164 MiB, had all of them stayed


def test_rows_of_slots_go_too():
    w = pd.Variable("w", data=ones(1000, 4), row_sparse=True)
    x = pd.Variable("x", shape=[None], dtype="int64")
    cost = pd.reduce_sum(pd.square(pd.gather(w, x)))
    for _ in range(3):
        pd.eval(pd.AdamOptimizer(0.1).minimize(cost), feeds={x: np.int64([1, 5])})
    gc.collect()
    assert set(pd.default_session().values()) == {w}


def test_slots_are_there_while_any_part_of_their_update_is():
    w = pd.Variable("w", data=ones(2))
    step = pd.MomentumOptimizer(0.1).minimize(pd.reduce_sum(w)).including([])
    pd.eval(step)
    gc.collect()
    (velocity,) = pd.persistent_variables("momentumoptimizer_0/")
    assert pd.get_variable(velocity.name, reuse=True) is velocity
    assert velocity.val().tolist() == [f32(-0.1)] * 2
    with pytest.raises(pd.NameConflict, match="momentumoptimizer_0/w/velocity"):
        pd.Variable(velocity.name, shape=[2])
    del step
    gc.collect()
    assert velocity.val().tolist() == [f32(-0.1)] * 2  # it is held here


def test_initialising_anew_clears_the_slots():
    w = pd.Variable("w", data=f32(1.0))
    step = pd.MomentumOptimizer(0.1, 0.9).minimize(w * 1.0)
    first = [pd.eval(step), w.val(), pd.eval(step), w.val()]
    pd.eval(pd.variable_initializers())
    assert [pd.eval(step), w.val(), pd.eval(step), w.val()] == first


# ---- the numbers: least squares, 50 steps


rows = np.random.default_rng(1)
A, T = rows.normal(size=(20, 5)).astype(f32), rows.normal(size=(20, 3)).astype(f32)
START = {"w": rows.normal(size=(5, 3)).astype(f32), "b": rows.normal(size=3).astype(f32)}


def least_squares(**of_w):
    w, b = pd.Variable("w", data=START["w"], **of_w), pd.Variable("b", data=START["b"])
    cost = pd.reduce_sum(pd.square(pd.matmul(pd.constant(A), w) + b - T)) * 0.5
    return {"w": w, "b": b}, cost


def slope(values):
    a, t = A.astype(np.float64), T.astype(np.float64)
    off = a @ values["w"] + values["b"] - t
    return {"w": a.T @ off, "b": off.sum(0)}


class Sgd:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, name, w, g, t, rate):
        return w - self.rate * rate * g


class Momentum:
    def __init__(self, rate, mu, nesterov=False):
        self.rate, self.mu, self.nesterov, self.v = rate, mu, nesterov, {}

    def __call__(self, name, w, g, t, rate):
        rate = self.rate * rate
        v = self.v[name] = self.mu * self.v.get(name, 0.0) - rate * g
        return w + self.mu * v - rate * g if self.nesterov else w + v


class Adam:
    """Algorithm 1 of Kingma & Ba."""

    def __init__(self, rate, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self.rate, self.beta1, self.beta2, self.epsilon = rate, beta1, beta2, epsilon
        self.m, self.v = {}, {}

    def __call__(self, name, w, g, t, rate):
        m = self.m[name] = self.beta1 * self.m.get(name, 0.0) + (1 - self.beta1) * g
        v = self.v[name] = self.beta2 * self.v.get(name, 0.0) + (1 - self.beta2) * g * g
        m, v = m / (1 - self.beta1**t), v / (1 - self.beta2**t)
        return w - self.rate * rate * m / (np.sqrt(v) + self.epsilon)


def trajectory(rule, change=lambda name, g, w: g, rates=None, steps=50):
    values = {k: v.astype(np.float64) for k, v in START.items()}
    for t in range(1, steps + 1):
        found = slope(values)
        values = {
            k: rule(k, w, change(k, found[k], w), t, (rates or {}).get(k, 1.0))
            for k, w in values.items()
        }
    return values


def run(optimizer, steps=50, **of_w):
    variables, cost = least_squares(**of_w)
    step = optimizer.minimize(cost)
    for _ in range(steps):
        pd.eval(step)
    return {k: v.val() for k, v in variables.items()}


def assert_equal(found, expected):
    """rtol 1e-5 of the largest element: 50 float32 steps against float64."""
    for k, value in expected.items():
        assert np.allclose(found[k], value, rtol=0, atol=1e-5 * np.abs(value).max())
        assert np.abs(value - START[k]).max() > 0.05  # it went somewhere


PAIRS = {
    "sgd": (lambda **k: pd.SGDOptimizer(0.01, **k), lambda: Sgd(0.01)),
    "momentum": (lambda **k: pd.MomentumOptimizer(0.005, 0.8, **k), lambda: Momentum(0.005, 0.8)),
    "nesterov": (
        lambda **k: pd.MomentumOptimizer(0.005, 0.8, nesterov=True, **k),
        lambda: Momentum(0.005, 0.8, nesterov=True),
    ),
    "adam": (
        lambda **k: pd.AdamOptimizer(0.02, beta1=0.8, beta2=0.99, epsilon=1e-6, **k),
        lambda: Adam(0.02, 0.8, 0.99, 1e-6),
    ),
}

CHANGES = {
    "plain": ({}, lambda name, g, w: g),
    "l2": ({"regularizer": pd.L2(0.3)}, lambda name, g, w: g + 0.3 * w),
    "l1": ({"regularizer": pd.L1(0.3)}, lambda name, g, w: g + 0.3 * np.sign(w)),
    "clip elements": ({"clip": pd.ClipElements(2.0)}, lambda name, g, w: np.clip(g, -2.0, 2.0)),
    "clip norm": (
        {"clip": pd.ClipNorm(2.0)},
        lambda name, g, w: g * min(1.0, 2.0 / np.sqrt((g * g).sum())),
    ),
    "clip, then l2": (
        {"clip": pd.ClipElements(1.0), "regularizer": pd.L2(0.5)},
        lambda name, g, w: np.clip(g, -1.0, 1.0) + 0.5 * w,
    ),
}


@pytest.mark.parametrize("rule", PAIRS)
@pytest.mark.parametrize("change", CHANGES)
def test_fifty_steps(rule, change):
    ours, reference = PAIRS[rule]
    options, apply = CHANGES[change]
    assert_equal(run(ours(**options)), trajectory(reference(), apply))


@pytest.mark.parametrize("rule", PAIRS)
def test_attributes_of_a_variable_override_the_optimizer(rule):
    ours, reference = PAIRS[rule]
    optimizer = ours(regularizer=pd.L1(0.2), clip=pd.ClipNorm(3.0))
    of_w = {"learning_rate": 0.5, "regularizer": pd.L2(0.4), "clip": pd.ClipElements(1.5)}

    def change(name, g, w):
        if name == "w":
            return np.clip(g, -1.5, 1.5) + 0.4 * w
        return g * min(1.0, 3.0 / np.sqrt((g * g).sum())) + 0.2 * np.sign(w)

    expected = trajectory(reference(), change, rates={"w": 0.5})
    assert_equal(run(optimizer, **of_w), expected)


def test_a_penalty_of_zero_switches_the_optimizers_off():
    found = run(pd.SGDOptimizer(0.01, regularizer=pd.L2(0.3)), regularizer=pd.L2(0.0))
    assert_equal(found, trajectory(Sgd(0.01), lambda k, g, w: g if k == "w" else g + 0.3 * w))


@pytest.mark.parametrize("device", ["reference"])
def test_the_reference_evaluator_takes_the_same_steps(device):
    def five(device):
        with pd.fresh(device=device):
            return run(pd.AdamOptimizer(0.02, regularizer=pd.L2(0.3)), steps=5)

    ours, theirs = five("cpu"), five(device)
    assert all(np.allclose(ours[k], theirs[k], rtol=1e-6) for k in ours)


# ---- a network


def mlp(sizes, x, label):
    h = x
    for size in sizes[1:-1]:
        h = pd.fc(h, size, act="relu")
    return pd.reduce_mean(pd.cross_entropy(pd.softmax(h, size=sizes[-1]), label))


def numpy_mlp(parameters, x, label):
    """(cost, gradients) of the same network in float64."""
    layers = list(zip(parameters[::2], parameters[1::2], strict=True))
    inputs, h = [], x.astype(np.float64)
    for k, (w, b) in enumerate(layers):
        inputs.append(h)
        h = h @ w + b
        h = np.maximum(h, 0.0) if k < len(layers) - 1 else h
    p = np.exp(h - h.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    n = np.arange(len(x))
    cost = -np.log(p[n, label[:, 0]]).mean()
    p[n, label[:, 0]] -= 1.0
    dy, found = p / len(x), []
    for (w, _), h in zip(layers[::-1], inputs[::-1], strict=True):
        found = [h.T @ dy, dy.sum(0), *found]
        dy = (dy @ w.T) * (h > 0)
    return cost, found


def test_a_network_follows_the_same_path_in_float64(rng):
    """20 batches of momentum with L2: costs to rtol 1e-5, parameters to 1e-5 of their largest."""
    sizes = (784, 128, 64, 10)
    x, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    cost = mlp(sizes, x, label)
    step = pd.MomentumOptimizer(0.1, 0.9, regularizer=pd.L2(1e-3)).minimize(cost)
    variables = pd.trainable_variables()
    parameters = [v.val().astype(np.float64) for v in variables]
    velocities = [np.zeros_like(w) for w in parameters]
    costs = []
    for _ in range(20):
        images = rng.normal(size=(32, 784)).astype(f32)
        labels = rng.integers(0, 10, (32, 1))
        found = pd.eval([step, cost], feeds={x: images, label: labels})[1]
        expected, slopes = numpy_mlp(parameters, images, labels)
        velocities = [
            0.9 * v - 0.1 * (g + 1e-3 * w)
            for v, g, w in zip(velocities, slopes, parameters, strict=True)
        ]
        parameters = [w + v for w, v in zip(parameters, velocities, strict=True)]
        costs.append((found, expected))
    assert np.allclose(*np.transpose(costs), rtol=1e-5)
    assert abs(costs[-1][0] - costs[0][0]) > 0.1
    for v, w in zip(variables, parameters, strict=True):
        assert np.allclose(v.val(), w, rtol=0, atol=1e-5 * np.abs(w).max())


@pytest.mark.parametrize("rule", ["sgd", "nesterov", "adam"])
def test_the_same_steps_as_torch(rule):
    torch = pytest.importorskip("torch")
    ours, theirs = {
        "sgd": (pd.SGDOptimizer(0.01), lambda p: torch.optim.SGD(p, 0.01)),
        "nesterov": (
            pd.MomentumOptimizer(0.01, 0.9, nesterov=True),
            lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
        ),
        "adam": (pd.AdamOptimizer(0.01, epsilon=1e-8), lambda p: torch.optim.Adam(p, 0.01)),
    }[rule]
    w, b = (torch.tensor(START[k], dtype=torch.float64, requires_grad=True) for k in "wb")
    optimizer = theirs([w, b])
    for _ in range(20):
        optimizer.zero_grad()
        off = torch.tensor(A).double() @ w + b - torch.tensor(T)
        (0.5 * off.square().sum()).backward()
        optimizer.step()
    found = run(ours, steps=20)
    assert np.allclose(found["w"], w.detach().numpy(), atol=2e-5)
    assert np.allclose(found["b"], b.detach().numpy(), atol=2e-5)


def test_the_first_step_of_adam_is_the_learning_rate():
    """sqrt(1 - beta2) / (1 - beta1) must not lose digits to 1 - 0.999."""
    w = pd.Variable("w", data=f32([0.0, 0.0]))
    step = pd.AdamOptimizer(0.1).minimize(pd.reduce_sum(w * f32([3.0, -2.0])))
    pd.eval(step)
    assert np.allclose(w.val(), [-0.1, 0.1], rtol=1e-6)
