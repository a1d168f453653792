"""Parameter groups: settings of some parameters, in static graphs, guards, modules and runners."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import Counter, Data, Device, ForwardBackward, ReduceRate, Runner, Update

X = np.linspace(-1.0, 2.0, 24, dtype=np.float32).reshape(8, 3)
Y = np.linspace(1.0, -1.0, 8, dtype=np.float32).reshape(8, 1)
START = {"l.W": [[0.5], [-1.0], [0.25]], "l.bias": [0.75]}

# torch 2.13, float64: AdamW([{"params": [w], "weight_decay": 0.5}, {"params": [b], "lr": 0.02}],
# lr=0.1, weight_decay=0), 20 steps on the mean of (X w + b - Y)²
AFTER = {
    "l.W": [0.025994447, -0.609303655, -0.242872961],
    "l.bias": [0.448715033],
}
DECAY = {"weight_decay": 0.0}


def parameters():
    return [pd.Variable(name, data=np.array(value)) for name, value in START.items()]


def cost_of(x, w, b):
    return pd.reduce_mean(pd.square(pd.matmul(x, w) + b - Y))


def optimizer(params, **settings):
    group = {"params": params, "weight_decay": 0.0, "learning_rate": 0.02}
    return pd.AdamWOptimizer(0.1, weight_decay=0.5, groups=[group], **settings)


def check_after(w, b):
    np.testing.assert_allclose(w.val().ravel(), AFTER["l.W"], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(b.val(), AFTER["l.bias"], rtol=2e-5)


SELECTIONS = {
    "pattern": lambda b: r"bias$",
    "predicate": lambda b: lambda v: v.rank == 1,
    "variables": lambda b: [b],
    "one": lambda b: b,
}


@pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS)
def test_groups_in_a_static_graph(select):
    w, b = parameters()
    step = optimizer(select(b)).minimize(cost_of(X, w, b))
    for _ in range(20):
        pd.eval(step)
    check_after(w, b)


@pytest.mark.parametrize("separately", [False, True], ids=["fused", "backward"])
def test_groups_inside_a_guard(separately):
    w, b = parameters()
    adam = optimizer(r"bias$")
    with pd.guard():
        for _ in range(20):
            loss = cost_of(X, w, b)
            if separately:
                loss.backward()
                assert loss.numpy() > 0
            adam.minimize(loss)
            w.clear_gradient(), b.clear_gradient()
    check_after(w, b)


def test_groups_in_a_runner_and_under_reduced_rates():
    w, b = parameters()
    x = pd.Variable("x", shape=[None, 3])
    runner = Runner()
    for item in (
        Device(),
        Counter(),
        Data(lambda: [{x: X}] * 20),
        ReduceRate(),
        ForwardBackward(cost_of(x, w, b)),
        Update(optimizer([b])),
    ):
        runner.add_item(item)
    with runner:
        runner.run(1)
        check_after(w, b)
        runner.context.rate_factor = 0.0
        runner.run(1)
        check_after(w, b)


class Linear(pd.nn.Module):
    def __init__(self):
        super().__init__("net")
        self.l = pd.nn.FC(1)

    def forward(self, x):
        return self.l(x)


def test_groups_of_a_module_that_is_fitted():
    net = Linear()
    net.compile([X.shape])
    (w, b) = net.parameters()
    pd.default_session().load_values({w: START["l.W"], b: START["l.bias"]})
    settings = {"loss": pd.nn.MSE(), "batch_size": 8, "shuffle": False, "verbose": False}
    net.fit(X, Y, optimizer=optimizer(lambda v: v.rank == 1), epochs=20, **settings)
    check_after(w, b)


def test_a_schedule_of_a_group_counts_the_same_steps():
    w, b = pd.Variable("w", data=0.0), pd.Variable("b", data=0.0)
    halved = pd.schedules.ExponentialDecay(1.0, 0.5)
    sgd = pd.SGDOptimizer(halved, groups=[{"params": "b", "learning_rate": lambda t: t + 1.0}])
    step = sgd.minimize(w + b)
    assert len(step.variables()) == 1
    for _ in range(3):
        pd.eval(step)
    np.testing.assert_allclose([w.val(), b.val()], [-1.75, -6.0], rtol=1e-6)


def test_a_variables_own_settings_hold_within_its_group():
    slow = pd.Variable("slow", data=1.0, learning_rate=0.5, regularizer=pd.L2(1.0))
    plain, free = pd.Variable("plain", data=1.0), pd.Variable("free", data=1.0)
    groups = [
        {"params": [slow], "learning_rate": 0.5, "regularizer": None},
        {"params": [free], "regularizer": None},
    ]
    sgd = pd.SGDOptimizer(0.1, regularizer=pd.L2(2.0), groups=groups)
    pd.eval(sgd.minimize(slow + plain + free))
    np.testing.assert_allclose([slow.val(), plain.val(), free.val()], [0.5, 0.7, 0.9], rtol=1e-6)


def test_a_group_may_be_changed_inside_a_guard():
    w = pd.Variable("w", data=0.0)
    sgd = pd.SGDOptimizer(1.0, groups=[{"params": [w], "learning_rate": 0.5}])
    with pd.guard():
        sgd.minimize(w * 1.0)
        sgd.groups = [{"params": [w], "learning_rate": 0.25}]
        sgd.minimize(w * 1.0)
    assert w.val() == -0.75


def test_what_is_no_group():
    w, b = parameters()
    with pytest.raises(pd.GraphError, match=r"SGDOptimizer: l.bias.* is in the groups 0 and 1"):
        pd.SGDOptimizer(groups=[{"params": [w, b]}, {"params": [b]}])
    twice = pd.SGDOptimizer(groups=[{"params": "bias"}, {"params": [b]}])
    message = r"SGDOptimizer: l.bias.* is in two groups, 'bias' and \[l.bias\]"
    with pytest.raises(pd.GraphError, match=message):
        twice.minimize(cost_of(X, w, b))
    misspelt = pd.SGDOptimizer(groups=[{"params": "bais"}])
    message = r"SGDOptimizer: no parameter has a name with 'bais'\n  hint: there are l.W, l.bias"
    with pytest.raises(pd.GraphError, match=message):
        misspelt.minimize(cost_of(X, w, b))
    with pytest.raises(ValueError, match=r"group 0 sets 'lr'; .* learning_rate, regularizer$"):
        pd.SGDOptimizer(groups=[{"params": [w], "lr": 0.1}])
    with pytest.raises(ValueError, match=r"SGDOptimizer: group 0 sets 'weight_decay'"):
        pd.SGDOptimizer(groups=[{"params": [w], **DECAY}])
    with pytest.raises(TypeError, match=r"group 1 is a dict with 'params', not \{\}"):
        pd.SGDOptimizer(groups=[{"params": [w]}, {}])
    with pytest.raises(TypeError, match=r"group 0 has parameters, not 'w'"):
        pd.SGDOptimizer(groups=[{"params": ["w"]}])
    with pytest.raises(TypeError, match=r"are Variables, a pattern or a predicate, not 3"):
        pd.SGDOptimizer(groups=[{"params": 3}])
    with pytest.raises(ValueError, match=r"group 0: '\(' is no pattern"):
        pd.SGDOptimizer(groups=[{"params": "("}])
    with pytest.raises(TypeError, match=r"var_list has Variables\n.*SGDOptimizer\(groups=...\)"):
        pd.SGDOptimizer().minimize(cost_of(X, w, b), var_list=[{"params": [w]}])


def test_the_numbers_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    w, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in START.values())
    groups = [{"params": [w], "weight_decay": 0.5}, {"params": [b], "lr": 0.02}]
    adam = torch.optim.AdamW(groups, lr=0.1, weight_decay=0.0)
    x, y = torch.tensor(X).double(), torch.tensor(Y).double()
    for _ in range(20):
        adam.zero_grad()
        ((x @ w + b - y) ** 2).mean().backward()
        adam.step()
    np.testing.assert_allclose(w.detach().ravel(), AFTER["l.W"], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(b.detach(), AFTER["l.bias"], rtol=1e-7, atol=1e-9)
