"""Parameters with sparse_update: 2017's rules for rows, against slow loops over rows."""

import io

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Hook, Param
from pd_v2.optimizer import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    DecayedAdaGrad,
    L2Regularization,
    ModelAverage,
    Momentum,
    RMSProp,
)
from pd_v2.optimizer.average import Window

L, T = paddle.layer, paddle.data_type
HEIGHT, WIDTH, RATE = 7, 3, 0.1


def network(**attr):
    """The squared distance of a table's row from a target, and the pool."""
    ids = L.data(name="ids", type=T.integer_value(HEIGHT))
    target = L.data(name="target", type=T.dense_vector(WIDTH))
    rows = L.embedding(ids, size=WIDTH, param_attr=Param(name="table", sparse_update=True, **attr))
    cost = L.square_error_cost(input=rows, label=target)
    pool = paddle.parameters.create(cost)
    pool["table"] = np.random.default_rng(1).normal(size=(HEIGHT, WIDTH))
    return cost, pool


def read(pool):
    return pool["table"].reshape(HEIGHT, WIDTH)


def passes(count=3, length=10):
    """Batches of (id, target); some ids come often, 6 only once and 0 never."""
    rng = np.random.default_rng(3)
    found = []
    for p in range(count):
        batches = []
        for b in range(length):
            ids = rng.choice([1, 1, 1, 2, 2, 3, 4, 5], rng.integers(1, 4))
            ids = [*ids, 6] if (p, b) == (0, 4) else ids
            batches.append([(int(k), rng.normal(size=WIDTH)) for k in ids])
        found.append(batches)
    return found


def slopes(w, batch):
    """{row: gradient summed over the batch}."""
    found = {}
    for k, target in batch:
        found[k] = found.get(k, 0.0) + 2 * (w[k] - target)
    return found


class Sgd:
    """w := w - a g, or with momentum v := k v - a g; w := w + v, of the touched rows alone."""

    def __init__(self, k=0.0):
        self.k, self.v = k, np.zeros((HEIGHT, WIDTH))

    def begin(self, t):
        pass

    def step(self, w, row, g, t):
        self.v[row] = self.k * self.v[row] - RATE * g
        w[row] += self.v[row]
        return 1.0


class SparseMomentum(Sgd):
    """2017's sums U and V with their weights alpha, beta and tau."""

    def __init__(self, k):
        self.k, self.alpha, self.beta, self.tau = k, 1.0, 1.0, -1.0
        self.u, self.v = np.zeros((HEIGHT, WIDTH)), {}
        self.restarts = 0

    def begin(self, t):
        self.tau += self.beta / self.alpha
        self.alpha /= self.k

    def step(self, w, row, g, t):
        if row not in self.v:
            self.v[row] = w[row].copy()
        self.u[row] -= self.alpha * RATE * g
        self.v[row] += self.tau * self.alpha * RATE * g
        w[row] = (self.tau / self.beta + 1 / self.alpha) * self.u[row] + self.v[row] / self.beta

    def end(self, w):
        if self.alpha > 1e6:
            self.u /= self.alpha
            self.v = {row: w[row].copy() for row in range(HEIGHT)}
            self.alpha, self.beta, self.tau = 1.0, 1.0, -1.0
            self.restarts += 1


class Squares(Sgd):
    """Methods that divide by a mean of squares; of rows rho^batches is kept."""

    def __init__(self, rho=None, centred=False):
        super().__init__()
        self.rho, self.centred, self.last = rho, centred, np.zeros(HEIGHT)
        self.s, self.f = np.zeros((HEIGHT, WIDTH)), np.zeros((HEIGHT, WIDTH))

    def step(self, w, row, g, t):
        if self.rho is None:
            kept, share = 1.0, 1.0
        else:
            kept = self.rho ** (t - self.last[row])
            share = 1.0 if self.last[row] == 0 else 1.0 - self.rho
            self.f[row] = kept * self.f[row] + (1.0 - self.rho) * g
        self.last[row] = t
        self.s[row] = kept * self.s[row] + share * g * g
        q = 1 / np.sqrt(self.s[row] - self.centred * self.f[row] ** 2 + 1e-6)
        w[row] -= RATE * q * g
        return q


def penalised(w, c, l1, l2):
    return np.sign(w) * np.maximum(np.abs(w) - c * l1, 0) / (1 + c * l2)


def by_hand(rule, start, l1=0.0, l2=0.0, has_scale=False):
    """The table after each pass."""
    w, t, until, scale = start.astype(np.float64), 0, np.zeros(HEIGHT), np.zeros((HEIGHT, WIDTH))
    if not has_scale:
        scale += 1.0
    for batches in passes():
        for batch in batches:
            t += 1
            rule.begin(t)
            for row, g in slopes(w.copy(), batch).items():
                q = rule.step(w, row, g, t)
                if has_scale:
                    scale[row] = q
                if l1 or l2:
                    w[row] = penalised(w[row], RATE * (t - until[row]) * scale[row], l1, l2)
                    until[row] = t
            if hasattr(rule, "end"):
                rule.end(w)
        for row in range(HEIGHT):
            if l1 or l2:
                w[row] = penalised(w[row], RATE * (t - until[row]) * scale[row], l1, l2)
                until[row] = t
        yield w.copy()


def train(cost, pool, optimizer):
    """The table after each pass."""
    data, found = iter([[], *passes()]), []

    def handler(event):
        if isinstance(event, paddle.event.EndPass):
            found.append(read(pool))

    trainer = paddle.trainer.SGD(cost, pool, optimizer)
    trainer.train(lambda: iter(next(data)), num_passes=3, event_handler=handler)
    return found


L2 = {"regularization": L2Regularization(0.2)}
ROWS = {
    "sgd": (lambda: Momentum(learning_rate=RATE), {}, lambda: Sgd(), {}),
    "momentum": (lambda: Momentum(0.8, learning_rate=RATE), {}, lambda: Sgd(0.8), {}),
    "sgd, l2": (lambda: Momentum(learning_rate=RATE, **L2), {}, lambda: Sgd(), {"l2": 0.2}),
    "sgd, l1 and l2": (
        lambda: Momentum(learning_rate=RATE, **L2),
        {"l1_rate": 0.1},
        lambda: Sgd(),
        {"l1": 0.1, "l2": 0.2},
    ),
    "adagrad": (lambda: AdaGrad(learning_rate=RATE), {}, lambda: Squares(), {}),
    "adagrad, l2": (
        lambda: AdaGrad(learning_rate=RATE, **L2),
        {},
        lambda: Squares(),
        {"l2": 0.2, "has_scale": True},
    ),
    "decayed_adagrad": (
        lambda: DecayedAdaGrad(learning_rate=RATE),
        {},
        lambda: Squares(0.95),
        {},
    ),
    "rmsprop": (lambda: RMSProp(learning_rate=RATE), {}, lambda: Squares(0.95, True), {}),
    "rmsprop, l1": (
        lambda: RMSProp(learning_rate=RATE, rho=0.9),
        {"l1_rate": 0.05},
        lambda: Squares(0.9, True),
        {"l1": 0.05, "has_scale": True},
    ),
    "sparse momentum": (
        lambda: Momentum(0.9, sparse=True, learning_rate=RATE / 2),
        {"learning_rate": 2.0},
        lambda: SparseMomentum(0.9),
        {},
    ),
    "sparse momentum, restarted": (
        lambda: Momentum(0.3, sparse=True, learning_rate=RATE),
        {},
        lambda: SparseMomentum(0.3),
        {},
    ),
    "sparse momentum that never fades": (
        lambda: Momentum(1.0, sparse=True, learning_rate=RATE),
        {},
        lambda: SparseMomentum(1.0),
        {},
    ),
    "sparse momentum without momentum": (
        lambda: Momentum(sparse=True, learning_rate=RATE, **L2),
        {},
        lambda: Sgd(),
        {"l2": 0.2},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_three_passes(name):
    make, attr, rule, penalty = ROWS[name]
    cost, pool = network(**attr)
    rule, start = rule(), read(pool)
    expected = list(by_hand(rule, start, **penalty))
    for got, wanted in zip(train(cost, pool, make()), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5)
    assert np.abs(expected[-1] - start)[1:6].min() > 1e-3
    assert getattr(rule, "restarts", 0) == (2 if name == "sparse momentum, restarted" else 0)


def trained(make, sparse_update, batches, start):
    """The table after some batches, with rows that are updated when touched or all together."""
    with paddle.build.fresh():
        cost, pool = network()
        paddle.build.current().parameters["table"].config.sparse_update = sparse_update
        pool["table"] = start
        paddle.trainer.SGD(cost, pool, make()).train(lambda: iter(batches))
        return read(pool)


START = np.random.default_rng(2).normal(size=(HEIGHT, WIDTH)).astype(np.float32)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Momentum(0.5, learning_rate=0.01),
        lambda: Momentum(0.5, sparse=True, learning_rate=0.01),
        lambda: AdaGrad(learning_rate=RATE),
        lambda: RMSProp(learning_rate=RATE),
        lambda: Adam(learning_rate=RATE, **L2),
        lambda: Adamax(learning_rate=RATE, **L2),
        lambda: AdaDelta(learning_rate=RATE),
    ],
    ids=["momentum", "sparse momentum", "adagrad", "rmsprop", "adam", "adamax", "adadelta"],
)
def test_rows_that_are_always_touched_are_updated_as_ever(make):
    batches = [[(k, np.full(WIDTH, 0.1 * k)) for k in (1, 3, 4, 3)]] * 30
    rows, whole = (trained(make, sparse_update, batches, START) for sparse_update in (True, False))
    np.testing.assert_allclose(rows, whole, rtol=1e-4, atol=1e-6)
    untouched = [0, 2, 5, 6]
    np.testing.assert_array_equal(rows[untouched], START[untouched])
    assert np.abs(rows - START)[[1, 3, 4]].min() > 1e-4


def test_two_layers_may_share_a_table():
    def layers(sparse_update):
        param = Param(name="words", sparse_update=sparse_update)
        ids = [L.data(name=n, type=T.integer_value(HEIGHT)) for n in "ab"]
        rows = [L.embedding(x, size=WIDTH, param_attr=param) for x in ids]
        return L.square_error_cost(input=rows[0], label=rows[1])

    found, batches = [], [[(1, 2), (2, 3), (1, 1)], [(3, 1)]]
    for sparse_update in (True, False):
        with paddle.build.fresh():
            cost = layers(sparse_update)
            pool = paddle.parameters.create(cost)
            pool["words"] = START
            trainer = paddle.trainer.SGD(cost, pool, Momentum(learning_rate=RATE))
            trainer.train(lambda: iter(batches))
            found.append(pool["words"].reshape(HEIGHT, WIDTH))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found[0], START, atol=0.05)


# ---- with what surrounds the formula


def test_clipping_and_pruning_of_rows():
    attr = {"gradient_clipping_threshold": 0.5, "update_hooks": Hook("pruning", 0.5)}
    cost, pool = network(**attr)
    start = read(pool)
    kept = np.zeros(start.size)
    kept[np.argsort(-np.abs(start.ravel()))[: start.size // 2]] = 1
    kept = kept.reshape(start.shape)
    trainer = paddle.trainer.SGD(cost, pool, Momentum(learning_rate=RATE))
    batch = [(1, np.ones(WIDTH)), (4, np.zeros(WIDTH)), (4, np.ones(WIDTH))]
    trainer.train(lambda: iter([batch]))
    w = start * kept
    for row, g in slopes(w.copy(), batch).items():
        w[row] -= RATE * np.clip(g * kept[row], -0.5, 0.5)
    np.testing.assert_allclose(read(pool), w, rtol=1e-5)


@pytest.mark.parametrize("penalty", [{}, L2])
@pytest.mark.parametrize("longest", [None, 4])
def test_averages_of_rows(penalty, longest):
    """The mean over the window of what every row was, touched or not."""
    cost, pool = network()
    average = ModelAverage(1.0, max_average_window=longest)
    optimizer = Momentum(learning_rate=RATE, model_average=average, **penalty)
    trainer, seen = paddle.trainer.SGD(cost, pool, optimizer), []
    window, data = Window(1.0, longest), iter([[], *passes()])

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            window.finish_batch()
            seen.append(read(pool))
        if isinstance(event, paddle.event.EndPass):
            window.finish_pass()
            f = io.BytesIO()
            trainer.save_parameter_to_tar(f)
            f.seek(0)
            found = paddle.parameters.Parameters.from_tar(f)["table"].reshape(HEIGHT, WIDTH)
            expected = np.mean(seen[-(window.current + window.previous) :], 0)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)

    before = read(pool)
    trainer.train(lambda: iter(next(data)), num_passes=3, event_handler=handler)
    assert len(seen) == 30 and (read(pool)[1] != before[1]).all()


def test_a_file_in_the_middle_of_a_pass_has_caught_up():
    cost, pool = network()
    trainer = paddle.trainer.SGD(cost, pool, Momentum(learning_rate=RATE, **L2))
    start, after = read(pool), []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            trainer.save_parameter_to_tar(io.BytesIO())
            after.append(read(pool)[0])

    trainer.train(lambda: iter([[(1, np.ones(WIDTH))]] * 3), event_handler=handler)
    factor = 1 / (1 + RATE * 0.2)
    np.testing.assert_allclose(after, [start[0] * factor**n for n in (1, 2, 3)], rtol=1e-5)
    np.testing.assert_array_equal(read(pool)[0], after[-1])


def test_gradients_are_whole_and_rows_are_written_in_place():
    cost, pool = network()
    trainer, seen = paddle.trainer.SGD(cost, pool, Adam()), []

    def handler(event):
        if isinstance(event, paddle.event.EndForwardBackward):
            seen.append(pool.get_grad("table").reshape(HEIGHT, WIDTH))

    before, batch = read(pool), [(5, np.ones(WIDTH)), (5, np.zeros(WIDTH))]
    trainer.train(lambda: iter([batch]), event_handler=handler)
    expected = np.zeros((HEIGHT, WIDTH))
    expected[5] = slopes(before, batch)[5]
    np.testing.assert_allclose(seen, [expected], rtol=1e-5)
    variable = paddle.build.current().parameters["table"].variable
    assert pd.default_session().store.arrays.buffers[variable][1] is None


def test_rows_are_updated_here_says_the_configuration():
    """2017's trainer cleared the flag of the parameter servers, which stays in the file as 0."""
    cost, pool = network()
    assert pool.__param_conf__["table"].sparse_remote_update
    trainer = paddle.trainer.SGD(cost, pool, Momentum())
    (config,) = trainer.get_topology_proto().parameters
    assert pool.__param_conf__["table"] == config and config.sparse_update
    assert config.HasField("sparse_remote_update") and not config.sparse_remote_update
    assert trainer.__topology__.use_sparse_updater()


@pytest.mark.parametrize(
    ("attr", "optimizer", "message"),
    [
        ({}, Momentum(0.9, **L2), "'table': weight decay with sparse_update needs momentum 0"),
        ({"l1_rate": 0.1}, Momentum(0.9, sparse=True), "'table': l1_rate needs momentum 0, not"),
    ],
)
def test_penalties_of_rows_with_momentum(attr, optimizer, message):
    cost, pool = network(**attr)
    with pytest.raises(pd.GraphError, match=message):
        paddle.trainer.SGD(cost, pool, optimizer)


def test_a_parameter_that_is_not_looked_up():
    x = L.data(name="x", type=T.dense_vector(2))
    y = L.fc(x, size=1, param_attr=Param(name="w", sparse_update=True))
    pool = paddle.parameters.create(y)
    with pytest.raises(pd.GraphError, match="row_sparse, and MatMul reads it otherwise than by"):
        paddle.trainer.SGD(y, pool, Momentum())
