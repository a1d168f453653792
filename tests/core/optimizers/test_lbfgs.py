"""L-BFGS, with the numbers of torch.optim.LBFGS 2.13 in float64."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import Counter, Data, Device, TrainStep

from ..training.resuming import assert_resumes

START = [-1.2, 1.0, 0.5, 2.0]
X = np.linspace(-1.0, 2.0, 24).reshape(8, 3) ** 2
Y = (np.arange(8.0) % 2)[:, None]


def parameter(name, value):
    """A float64 parameter."""
    w = pd.Variable(name, shape=np.shape(value), dtype="float64")
    pd.default_session().set(w, np.array(value))
    return w


def rosenbrock(w):
    """Two valleys (Rosenbrock 1960) of two elements each."""
    a, b, c, d = (pd.gather(w, k) for k in range(4))
    first = pd.square(1.0 - a) + pd.square(b - pd.square(a)) * 100.0
    return first + pd.square(1.0 - c) + pd.square(d - pd.square(c)) * 100.0


def logistic(x, y, w, b):
    """Penalised logistic regression."""
    scores = pd.matmul(x, w) + b
    fit = pd.reduce_mean(pd.log(pd.exp(scores) + 1.0)) - pd.reduce_mean(y * scores)
    return fit + pd.reduce_sum(pd.square(w)) * 0.01


# settings, the costs before each step, the parameters after the last one
VALLEYS = {
    "strong_wolfe": (
        {"max_iter": 5, "history_size": 10},
        [330.7, 4.144194537, 4.032378201, 3.324951273, 1.822142467, 1.094988127],
        [0.3503581399, 0.09708640854, 1.170967631, 1.374414247],
    ),
    "short history": (
        {"max_iter": 8, "history_size": 2},
        [330.7, 3.995039969, 1.676919324, 0.7269803293],
        [0.7090893831, 0.4958936082, 1.10969717, 1.226385464],
    ),
    "fixed length": (
        {"max_iter": 4, "learning_rate": 0.1, "line_search": None, "history_size": 10},
        [330.7, 37.16232502, 15.30277738, 8.425533923, 5.88422717],
        [-1.031078313, 1.057669018, 1.243620379, 1.62976995],
    ),
}
LOGISTIC = (
    [0.77739451, 0.7287604983, 0.6835652554, 0.6756413293],
    [-0.3024936769, -0.0001286517135, 0.4831410881, -0.2904540009],
)


@pytest.mark.parametrize("settings, costs, after", VALLEYS.values(), ids=VALLEYS)
def test_the_valleys_of_rosenbrock(settings, costs, after):
    w = parameter("w", START)
    cost, lbfgs = rosenbrock(w), pd.LBFGSOptimizer(**settings)
    np.testing.assert_allclose([lbfgs.step(cost) for _ in costs], costs, rtol=1e-8)
    np.testing.assert_allclose(w.val(), after, rtol=1e-8)


def test_it_finds_the_minimum_and_stays():
    w = parameter("w", START)
    cost, lbfgs = rosenbrock(w), pd.LBFGSOptimizer(max_iter=100, history_size=10)
    lbfgs.step(cost)
    np.testing.assert_allclose(w.val(), np.ones(4), atol=1e-5)
    lbfgs.step(cost)
    there = w.val()
    assert lbfgs.step(cost) < 1e-11 and (w.val() == there).all()


def test_logistic_regression_with_feeds():
    x, y = (pd.Variable(name, shape=[None, n], dtype="float64") for name, n in (("x", 3), ("y", 1)))
    w, b = parameter("w", [[0.5], [-1.0], [0.25]]), parameter("b", [0.75])
    cost, lbfgs = logistic(x, y, w, b), pd.LBFGSOptimizer(max_iter=3)
    costs = [lbfgs.step(cost, {x: X, y: Y}, [w, b]) for _ in LOGISTIC[0]]
    np.testing.assert_allclose(costs, LOGISTIC[0], rtol=1e-8)
    np.testing.assert_allclose([*w.val().ravel(), *b.val()], LOGISTIC[1], rtol=1e-6)


def test_logistic_regression_inside_a_guard():
    w, b = parameter("w", [[0.5], [-1.0], [0.25]]), parameter("b", [0.75])
    lbfgs = pd.LBFGSOptimizer(max_iter=3)
    with pd.guard():
        x, y = (pd.to_variable(a, "float64") for a in (X, Y))
        costs = [lbfgs.step(lambda: logistic(x, y, w, b), var_list=[w, b]) for _ in LOGISTIC[0]]
    np.testing.assert_allclose(costs, LOGISTIC[0], rtol=1e-8)
    np.testing.assert_allclose([*w.val().ravel(), *b.val()], LOGISTIC[1], rtol=1e-6)


def test_single_precision_and_frozen_parameters():
    w, still = pd.Variable("w", data=[3.0, -2.0]), pd.Variable("still", data=[1.0, 1.0])
    still.trainable = False
    cost = pd.reduce_sum(pd.square(w - still * 2.0) * [1.0, 10.0])
    lbfgs = pd.LBFGSOptimizer()
    lbfgs.step(cost)
    np.testing.assert_allclose(w.val(), [2.0, 2.0], rtol=1e-5)
    assert still.val().tolist() == [1.0, 1.0]
    still.trainable = True
    with pytest.raises(pd.GraphError, match=r"the history is of \['w'\], not of \['still', 'w'\]"):
        lbfgs.step(cost)
    w.trainable = still.trainable = False
    with pytest.raises(pd.GraphError, match="LBFGSOptimizer: all parameters are frozen"):
        lbfgs.step(cost)


def test_a_training_resumes_with_its_history(tmp_path):
    def build():
        lbfgs, w = pd.LBFGSOptimizer(max_iter=2, max_eval=4), parameter("w", START)
        cost = rosenbrock(w)
        data = Data(lambda: [(np.zeros(1),)] * 3)
        return [Device(), Counter(), data, TrainStep(lambda x: lbfgs.step(cost), None, {"w": w})]

    assert_resumes(build, tmp_path)


def test_after_an_error_nothing_has_changed():
    w, calls = pd.Variable("w", data=[3.0, -2.0]), []

    def closure():
        calls.append(w.val().tolist())
        if len(calls) == 3:
            raise KeyError("no more data")
        return pd.reduce_sum(pd.square(w) * [1.0, 10.0])

    lbfgs = pd.LBFGSOptimizer()
    with pd.guard(), pytest.raises(KeyError, match="no more data"):
        lbfgs.step(closure, var_list=[w])
    assert calls[0] == [3.0, -2.0] != calls[1] and w.val().tolist() == [3.0, -2.0]


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="line_search is 'strong_wolfe' or None, not 'armijo'"):
        pd.LBFGSOptimizer(line_search="armijo")
    with pytest.raises(ValueError, match="LBFGSOptimizer: history_size is at least 1, not 0"):
        pd.LBFGSOptimizer(history_size=0)
    with pytest.raises(ValueError, match="LBFGSOptimizer: max_eval=1 leaves no line search"):
        pd.LBFGSOptimizer(max_iter=1)
    w, b = pd.Variable("w", data=[1.0, 2.0]), pd.Variable("b", data=1.0)
    cost, lbfgs = pd.reduce_sum(pd.square(w)), pd.LBFGSOptimizer()
    with pytest.raises(pd.ShapeError, match=r"LBFGSOptimizer: the cost is a scalar, not .*\[2\]"):
        lbfgs.step(pd.square(w))
    with pytest.raises(pd.GraphError, match=r"LBFGSOptimizer: .* depends on none of \[b: float32"):
        lbfgs.step(cost, var_list=[b])
    with pytest.raises(TypeError, match=r"inside pd.guard\(\) a function and var_list"):
        lbfgs.step(lambda: cost, var_list=[w])
    lbfgs.step(cost)
    with pytest.raises(pd.GraphError, match=r"the history is of \['w'\], not of \['w', 'b'\]"):
        lbfgs.step(cost + pd.square(b))
    with (
        pd.default_session().exchanging(lambda g: g),
        pytest.raises(pd.GraphError, match="LBFGSOptimizer: there is no exchange with other ranks"),
    ):
        lbfgs.step(cost)


# ---- beside PyTorch, as far as PyTorch follows itself


def problem(kind, n, lib):
    """(start [n], cost of a vector w) with the functions of `lib`, which is pd or torch."""
    rng = np.random.default_rng(n)
    start, a, y = rng.normal(size=n), rng.normal(size=(2 * n, n)), rng.normal(size=2 * n)
    if lib is pd:
        a, y = pd.constant(a, "float64"), pd.constant(y, "float64")
        total, softplus = pd.reduce_sum, pd.softplus
    else:
        a, y = lib.tensor(a), lib.tensor(y)
        total, softplus = lib.sum, lib.nn.functional.softplus

    def rosenbrock(w):
        return total((1.0 - w[:-1]) ** 2 + 100.0 * (w[1:] - w[:-1] ** 2) ** 2)

    costs = {
        "squares": lambda w: total((a @ w - y) ** 2),
        "logistic": lambda w: total(softplus(a @ w) - y * (a @ w)) / n + 0.01 * total(w * w),
        "rosenbrock": rosenbrock,
    }
    return start, costs[kind]


def by_pytorch(torch, kind, n, settings, change=0.0):
    """The parameters after each step of PyTorch; each element of the start is changed a bit."""
    start, cost = problem(kind, n, torch)
    w = torch.nn.Parameter(torch.tensor(start * (1.0 + change * np.resize([1, -1], n))))
    lbfgs = torch.optim.LBFGS([w], **settings)

    def closure():
        lbfgs.zero_grad()
        value = cost(w)
        value.backward()
        return value.detach()

    found = []
    for _ in range(4):
        lbfgs.step(closure)
        found.append(w.detach().numpy().copy())
    return np.array(found)


SETTINGS = (
    {"line_search_fn": "strong_wolfe", "max_iter": 8},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 3},
    {"lr": 0.01, "max_iter": 5},
)
OWN = {"line_search_fn": "line_search", "lr": "learning_rate"}


def test_steps_are_those_of_pytorch_to_1e_9():
    """More is only where PyTorch's own steps go apart after a change of the last digit of a start.

    A line search compares costs, and what it decides multiplies the rounding of the last one.
    """
    torch = pytest.importorskip("torch")
    exact = 0
    for kind, n in (("squares", 5), ("logistic", 3), ("rosenbrock", 4)):
        pd.reset()
        start, cost = problem(kind, n, pd)
        w = parameter("w", start)
        value = cost(w)
        for settings in SETTINGS:
            theirs = by_pytorch(torch, kind, n, settings)
            apart = abs(by_pytorch(torch, kind, n, settings, 2e-16) - theirs).max(1)
            lbfgs = pd.LBFGSOptimizer(
                **{"line_search": None, **{OWN.get(k, k): v for k, v in settings.items()}}
            )
            pd.default_session().set(w, start)
            for k, wanted in enumerate(theirs):
                lbfgs.step(value)
                limit = max(1e-9, 1e3 * apart[: k + 1].max())
                exact += limit == 1e-9
                assert abs(w.val() - wanted).max() <= limit, (kind, n, settings, k)
    assert exact > 30  # of 36
