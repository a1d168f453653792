"""Moving averages: warm-up, recording by hand, in modules and in runners."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import Average, Counter, Data, Device, Runner, TestEvery, TrainStep


def averaged(values, decay, warmup=False):
    """The average of the values of a parameter, in NumPy."""
    total = weight = 0.0
    for t, value in enumerate(values):
        d = min(decay, (1 + t) / (10 + t)) if warmup else decay
        total, weight = d * total + (1 - d) * value, d * weight + (1 - d)
    return total / weight


@pytest.mark.parametrize("warmup", [False, True])
def test_the_warm_up_of_the_decay(warmup):
    w, average = pd.Variable("w", data=[0.0, 1.0]), pd.MovingAverage(0.6, warmup=warmup)
    step = average.follow(pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(w * -1.0)))
    for _ in range(20):  # 0.6 from t = 12.5 on
        pd.eval(step)
    values = np.arange(1, 21)[:, None] + [0.0, 1.0]
    with average.applied():
        np.testing.assert_allclose(w.val(), averaged(values, 0.6, warmup), rtol=1e-6)
    assert w.val().tolist() == [20.0, 21.0]


def test_the_mean_of_all_steps():
    w, average = pd.Variable("w", data=0.0), pd.MovingAverage(None)
    step = average.follow(pd.SGDOptimizer(1.0).minimize(w * -1.0))
    for _ in range(7):
        pd.eval(step)
    with average.applied():
        np.testing.assert_allclose(w.val(), 4.0, rtol=1e-6)
    with pytest.raises(ValueError, match="MovingAverage: there is no decay to warm up"):
        pd.MovingAverage(None, warmup=True)


@pytest.mark.parametrize("decay", [None, 0.6])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_only_some_of_the_steps_count(decay, accumulate):
    w, average = pd.Variable("w", data=0.0), pd.MovingAverage(decay, start=3, every=2)
    step = average.follow(pd.SGDOptimizer(1.0, accumulate=accumulate).minimize(w * -1.0))
    for t in range(1, 11):
        for _ in range(accumulate):
            pd.eval(step)
        counted = range(5, t + 1, 2)  # w is t after step t
        expected = t
        if counted:
            expected = np.mean(counted) if decay is None else averaged(counted, decay)
        with average.applied():
            np.testing.assert_allclose(w.val(), expected, rtol=1e-6)


def test_the_average_of_pytorch():
    """Stochastic weight averaging: parameters after passes 2, 3, ... of three steps each."""
    torch = pytest.importorskip("torch")
    x, y = np.arange(12.0).reshape(6, 2) / 7, np.cos(np.arange(6.0))[:, None]
    w, adam = pd.Variable("w", data=np.array([[0.5], [-1.0]])), pd.AdamOptimizer(0.1)
    peer = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    peer.weight.data = torch.tensor(w.val().astype(float).T)
    swa, optimizer = (
        torch.optim.swa_utils.AveragedModel(peer),
        torch.optim.Adam(peer.parameters(), 0.1),
    )
    average = pd.MovingAverage(None, start=3, every=3)
    with pd.guard():
        for k in range(15):
            rows = slice(k % 3, k % 3 + 3)
            adam.minimize(pd.reduce_mean(pd.square(x[rows].astype("float32") @ w - y[rows])))
            average.record([w])
            optimizer.zero_grad()
            (peer(torch.tensor(x[rows])) - torch.tensor(y[rows])).square().mean().backward()
            optimizer.step()
            if k >= 3 and k % 3 == 2:
                swa.update_parameters(peer)
    with average.applied():
        np.testing.assert_allclose(w.val().T, swa.module.weight.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"start": -1}, ValueError, "start is at least 0, not -1"),
        ({"every": 0}, ValueError, "every is at least 1, not 0"),
        ({"every": 1.5}, TypeError, r"every is a number of steps, not 1\.5"),
    ],
)
def test_steps_that_count_are_numbers(options, kind, message):
    with pytest.raises(kind, match=f"MovingAverage: {message}"):
        pd.MovingAverage(**options)


def test_an_average_of_steps_inside_a_guard():
    w, average = pd.Variable("w", data=0.0), pd.MovingAverage(0.5)
    sgd = pd.SGDOptimizer(1.0)
    with pd.guard():
        for _ in range(3):
            sgd.minimize(w * -1.0)
            average.record([w])
        with average.applied():
            np.testing.assert_allclose(float(w * 1.0), averaged([1, 2, 3], 0.5), rtol=1e-6)
        assert float(w * 1.0) == 3.0


def test_an_average_has_the_same_parameters():
    a, b = pd.Variable("a", data=0.0), pd.Variable("b", data=0.0)
    average = pd.MovingAverage()
    average.record([a])
    with pytest.raises(pd.GraphError, match=r"record: the average of a was recorded before"):
        average.record([a, b])
    following = pd.MovingAverage()
    following.follow(pd.SGDOptimizer().minimize(a * 1.0))
    with pytest.raises(pd.GraphError, match=r"record: the average of a follows a step"):
        following.record([a])


def runner(*items):
    """A runner that adds 1 to a parameter with each of three batches."""
    w, sgd, made = pd.Variable("w", data=0.0), pd.SGDOptimizer(1.0), Runner()

    def step(x):
        with pd.guard():
            sgd.minimize(w * -1.0)
            return float(w * 1.0)

    def test(x):
        with pd.guard():
            return float(w * 1.0)

    data = Data(lambda: [(np.ones(2),)] * 3)
    for item in (Device(), Counter(), data, *items, TrainStep(step, test, {"w": w})):
        made.add_item(item)
    return made, w


def test_an_average_in_a_runner_and_its_tests():
    average, seen = pd.MovingAverage(0.5), []
    test = TestEvery(
        reader=lambda: [(np.ones(2),)],
        average=average,
        on_result=lambda context, result: seen.append(result.cost),
    )
    made, w = runner(Average(average), test)
    with made:
        made.run(2)
    expected = [averaged(range(1, 4), 0.5), averaged(range(1, 7), 0.5)]
    np.testing.assert_allclose(seen, expected, rtol=1e-6)
    assert w.val() == 6.0


def test_an_average_of_nothing():
    made = Runner()
    items = Device(), Counter(), Data(lambda: [(np.ones(2),)]), Average(pd.MovingAverage())
    for item in (*items, TrainStep(lambda x: 1.0)):
        made.add_item(item)
    with pytest.raises(pd.GraphError, match="Average: no item trains parameters"), made:
        made.run(1)
