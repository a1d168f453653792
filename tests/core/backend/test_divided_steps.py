"""Steps that pause for exchanges, sums over ranks and row writes take NumPy's steps."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.over_ranks import sum_over_ranks, use_sum_over_ranks

f32 = np.float32
RATE = 0.01


class Twins:
    """The sums of two ranks with the same arrays; how many arrays each pause has is noted."""

    def __init__(self):
        self.calls = []

    def __call__(self, arrays, weighted):
        assert len(weighted) == len(arrays)
        self.calls.append(len(arrays))
        return [np.array(2.0 * np.asarray(a)) for a in arrays]


@pytest.fixture
def twins():
    function = Twins()
    use_sum_over_ranks(function)
    yield function
    use_sum_over_ranks(None)


def test_one_rank_sums_its_own_arrays():
    arrays = (np.ones(2), np.zeros(1))
    found = sum_over_ranks(arrays, (False, True))
    assert type(found) is list and all(a is b for a, b in zip(found, arrays, strict=True))


class Model:
    """A table whose rows are read, two weights, and the mean over ranks of the prediction.

    cost = mean((t[ids] w1) w2 - m - y)², with m the sum over the ranks of the mean prediction.
    """

    def __init__(self, row_sparse):
        rng = np.random.default_rng(4)
        shapes = {"t": (6, 3), "w1": (3, 3), "w2": (3, 1)}
        self.arrays = {k: 0.5 * rng.standard_normal(s).astype(f32) for k, s in shapes.items()}
        self.variables = {
            k: pd.Variable(k, data=a, row_sparse=row_sparse and k == "t")
            for k, a in self.arrays.items()
        }
        t, w1, w2 = self.variables.values()
        self.ids, self.y = pd.Variable([4], dtype="int64"), pd.Variable([4, 1])
        prediction = pd.gather(t, self.ids) @ w1 @ w2
        self.mean = pd.sum_over_ranks(pd.reduce_mean(prediction))
        self.cost = pd.reduce_mean(pd.square(prediction - self.mean - self.y))
        self.update = pd.SGDOptimizer(RATE).minimize(self.cost)

    def by_numpy(self, ids, y, ranks, factor):
        """Take the step in `arrays`, for so many equal ranks and a factor of the gradients.

        Return the cost before it.
        """
        t, w1, w2 = self.arrays.values()
        h = t[ids]
        p = h @ w1 @ w2
        d = p - ranks * p.mean() - y
        dp = 2 * d / d.size
        # the mean is read by every rank: its gradient is summed over the ranks, too
        dp = dp - ranks * dp.sum() / p.size
        grads = {"t": np.zeros_like(t), "w1": h.T @ dp @ w2.T, "w2": (h @ w1).T @ dp}
        np.add.at(grads["t"], ids, dp @ w2.T @ w1.T)
        for k, g in grads.items():
            self.arrays[k] = self.arrays[k] - RATE * factor * g
        return (d**2).mean()


def scaled(gradient):
    rows_values = isinstance(gradient, tuple)
    return (gradient[0], 3.0 * gradient[1]) if rows_values else 3.0 * gradient


class InParts:
    """Three times the gradients, some of which are handed over earlier."""

    def __init__(self, divisions):
        self.divisions, self.early = divisions, 0

    def start(self, gradients):
        self.early += len(gradients)

    def __call__(self, gradients):
        return {w: scaled(g) for w, g in gradients.items()}


@pytest.mark.parametrize("exchanged", [None, 1, 2, 3])
@pytest.mark.parametrize("row_sparse", [False, True])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_step_with_every_pause(device, row_sparse, exchanged, twins):
    with pd.fresh(device=device) as session:
        model, rng = Model(row_sparse), np.random.default_rng(5)
        for _ in range(5):
            ids, y = rng.integers(0, 6, 4), rng.standard_normal((4, 1)).astype(f32)
            feeds = {model.ids: ids, model.y: y}
            if exchanged is None:
                cost, _ = session.eval([model.cost, model.update], feeds)
            else:
                exchange = InParts(exchanged)
                with session.exchanging(exchange):
                    cost, _ = session.eval([model.cost, model.update], feeds)
                assert exchange.early == 0  # ranks would meet in two exchanges at once
            expected = model.by_numpy(ids, y, 2, 1.0 if exchanged is None else 3.0)
            np.testing.assert_allclose(cost, expected, rtol=1e-4)
            for name, w in model.variables.items():
                np.testing.assert_allclose(w.val(), model.arrays[name], rtol=1e-4, atol=1e-5)
    assert set(twins.calls) == {1} and len(twins.calls) == 10  # the mean, and its gradient


def test_sums_at_once_and_sums_of_sums(twins):
    """Those that do not depend on each other share a pause."""
    x = pd.Variable([2])
    a, b = pd.sum_over_ranks(x), pd.sum_over_ranks(x * x)
    c = pd.sum_over_ranks(a * b + x)
    w = pd.Variable("w", data=np.zeros(2, f32))
    found = pd.eval([a, b, c, x + 1.0, pd.assign(w, c - a)], {x: [1.0, 3.0]})
    assert twins.calls == [2, 1]
    v = np.array([1.0, 3.0])
    expected = [2 * v, 2 * v * v, 2 * (4 * v**3 + v), v + 1]
    for one, other in zip(found[:4], expected, strict=True):
        np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(w.val(), expected[2] - expected[0])


def test_what_is_summed_may_be_a_result_too(twins):
    """As may the term, which is read on both sides of the pause."""
    x = pd.Variable([2])
    term = x * 5.0
    total = pd.sum_over_ranks(term)
    found = pd.eval([term, total, total, term + total], {x: [1.0, 2.0]})
    assert [a.tolist() for a in found] == [[5, 10], [10, 20], [10, 20], [15, 30]]


def test_an_exchange_of_values_that_the_backward_pass_reads():
    """The gradient of w is read for that of v before the exchange, and for the update after it."""
    x = pd.Variable([3])
    w, v = pd.Variable("w", data=f32(2.0)), pd.Variable("v", data=f32(5.0))
    update = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(x * w * v))
    with pd.default_session().exchanging(lambda g: {k: 10.0 * a for k, a in g.items()}):
        pd.eval(update, {x: [1.0, 2.0, 3.0]})
    assert (w.val(), v.val()) == (2.0 - 10 * 6 * 5, 5.0 - 10 * 6 * 2)


class Replacing(pd.SGDOptimizer):
    """The new parameter is the gradient itself."""

    def rule(self, w, g, slots, rate, step):
        return g, {}


def test_an_update_that_is_the_exchanged_value():
    x, w = pd.Variable([2]), pd.Variable("w", data=np.ones(2, f32))
    update = Replacing(1.0).minimize(pd.reduce_sum(x * w))
    with pd.default_session().exchanging(lambda g: {k: a + 1.0 for k, a in g.items()}):
        pd.eval(update, {x: [3.0, 4.0]})
    assert w.val().tolist() == [4.0, 5.0]


def test_row_writes_beside_what_reads_the_table():
    """A read of the new table keeps its stage from writing in place, that of the old one not."""
    ids = pd.Variable([2], dtype="int64")
    table = pd.Variable("t", data=np.arange(8, dtype=f32).reshape(4, 2), row_sparse=True)
    rows = pd.gather(table, ids)
    update = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(pd.square(rows)))
    held = np.arange(8, dtype=f32).reshape(4, 2)
    for k in range(5):
        at = np.array([k % 4, (k + 1) % 4])
        old, whole, _ = pd.eval([rows, table * 1.0, update], {ids: at})
        assert old.tolist() == held[at].tolist() and whole.tolist() == held.tolist()
        held[at] -= 2 * held[at]
        assert table.val().tolist() == held.tolist()
