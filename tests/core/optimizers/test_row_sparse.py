"""Row-sparse training: only gathered rows move, by the numbers of numpy and PyTorch."""

import itertools
import json

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from pd_core.backend.stages import stages
from pd_core.optimizers.row_sparse import summed_rows
from tests.thinned import thinned

f32 = np.float32
HEIGHT, WIDTH, STEPS = 9, 3, 6


def table_data():
    return np.random.default_rng(5).normal(size=(HEIGHT, WIDTH))


def table():
    return pd.Variable("table", data=table_data(), row_sparse=True)


def batches(seed=7):
    """Ids with repetitions, each row of the table left out of some batches."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, HEIGHT, n) for n in (5, 8, 1, 4, 9, 6)]


def squared(w, ids):
    """A cost whose gradient depends on what was gathered, and on where."""
    weights = pd.cast(pd.unsqueeze(ids, 1), "float32") * 0.1 + 1.0
    return pd.reduce_sum(pd.square(pd.gather(w, ids)) * weights) * 0.5


def row_slopes(w, ids):
    """{row: gradient} of that cost."""
    found = {}
    for k in ids:
        found[k] = found.get(k, 0.0) + w[k] * (1.0 + 0.1 * k)
    return found


# ---- lazy updates: the rules of numpy, applied to the rows of the batch


def sgd(w, g, t, s):
    return w - 0.1 * g


def momentum(w, g, t, s):
    s["v"] = 0.9 * s.get("v", 0.0) - 0.1 * g
    return w + s["v"]


def adam(w, g, t, s):
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * g * g
    m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.999**t)
    return w - 0.1 * m / (np.sqrt(v) + 1e-8)


def adagrad(w, g, t, s):
    s["s"] = s.get("s", 0.0) + g * g
    return w - 0.1 * g / np.sqrt(s["s"] + 1e-6)


def decayed_adagrad(w, g, t, s):
    s["s"] = 0.9 * s.get("s", 0.0) + 0.1 * g * g
    return w - 0.1 * g / np.sqrt(s["s"] + 1e-4)


def rmsprop(w, g, t, s):
    s["s"] = 0.9 * s.get("s", 0.0) + 0.1 * g * g
    return w - 0.1 * g / (np.sqrt(s["s"]) + 1e-4)


def adadelta(w, g, t, s):
    s["s"] = 0.95 * s.get("s", 0.0) + 0.05 * g * g
    u = g * np.sqrt((s.get("e", 0.0) + 1e-4) / (s["s"] + 1e-4))
    s["e"] = 0.95 * s.get("e", 0.0) + 0.05 * u * u
    return w - u


def adamw(w, g, t, s):
    return adam(w, g, t, s) - 0.1 * 0.2 * w


def adamax(w, g, t, s):
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0.0), np.abs(g) + 1e-8)
    return w - 0.1 / (1 - 0.9**t) * s["m"] / s["u"]


def nadam(w, g, t, s):
    mu = [0.9 * (1 - 0.5 * 0.96 ** (0.004 * k)) for k in range(1, t + 2)]
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * g * g
    change = mu[t] * s["m"] / (1 - np.prod(mu)) + (1 - mu[t - 1]) * g / (1 - np.prod(mu[:t]))
    return w - 0.1 * change / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-8)


def radam(w, g, t, s):
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * g * g
    rho = 1999 - 2 * t * 0.999**t / (1 - 0.999**t)
    change = 0.1 * s["m"] / (1 - 0.9**t)
    if rho <= 5:
        return w - change
    r = np.sqrt((rho - 4) * (rho - 2) * 1999 / (1995 * 1997 * rho))
    return w - change * r * np.sqrt(1 - 0.999**t) / (np.sqrt(s["v"]) + 1e-8)


def lion(w, g, t, s):
    direction = np.sign(0.9 * s.get("m", 0.0) + 0.1 * g)
    s["m"] = 0.99 * s.get("m", 0.0) + 0.01 * g
    return w - 0.1 * (direction + 0.2 * w)


def momentum_of_gradients(w, g, t, s):
    s["b"] = 0.9 * s.get("b", 0.0) + g
    return w - 0.1 * s["b"]


# One row for each optimizer of pd, except LAMB and those that take no rows.
RULES = {
    "sgd": (lambda **k: pd.SGDOptimizer(0.1, **k), sgd),
    "momentum": (lambda **k: pd.MomentumOptimizer(0.1, 0.9, **k), momentum),
    "momentum_of_gradients": (
        lambda **k: pd.MomentumOptimizer(0.1, 0.9, rate_in_velocity=False, **k),
        momentum_of_gradients,
    ),
    "adam": (lambda **k: pd.AdamOptimizer(0.1, **k), adam),
    "adagrad": (lambda **k: pd.AdaGradOptimizer(0.1, **k), adagrad),
    "decayed_adagrad": (
        lambda **k: pd.DecayedAdaGradOptimizer(0.1, decay=0.9, epsilon=1e-4, **k),
        decayed_adagrad,
    ),
    "rmsprop": (lambda **k: pd.RMSPropOptimizer(0.1, decay=0.9, epsilon=1e-4, **k), rmsprop),
    "adadelta": (lambda **k: pd.AdaDeltaOptimizer(1.0, epsilon=1e-4, **k), adadelta),
    "adamw": (lambda **k: pd.AdamWOptimizer(0.1, weight_decay=0.2, **k), adamw),
    "adamax": (lambda **k: pd.AdamaxOptimizer(0.1, **k), adamax),
    "nadam": (lambda **k: pd.NAdamOptimizer(0.1, **k), nadam),
    "radam": (lambda **k: pd.RAdamOptimizer(0.1, **k), radam),
    "lion": (lambda **k: pd.LionOptimizer(0.1, weight_decay=0.2, **k), lion),
    "muon": (
        lambda **k: pd.MuonOptimizer(0.1, weight_decay=0.2, use_muon=False, **k),
        adamw,
    ),
}


def lazily(rule, start, change=lambda g, w: g):
    """The table after each batch in float64."""
    w, slots = start.astype(np.float64), [{} for _ in range(HEIGHT)]
    for t, ids in enumerate(batches(), 1):
        for k, g in row_slopes(w, ids).items():
            w[k] = rule(w[k], change(g, w[k]), t, slots[k])
        yield w.copy()


@pytest.mark.parametrize("name", RULES)
def test_rows_follow_the_rule_and_others_stay(name):
    make, rule = RULES[name]
    w, ids = table(), pd.Variable([None], dtype="int64")
    step, start = make().minimize(squared(w, ids)), w.val()
    for batch, expected in zip(batches(), lazily(rule, start), strict=True):
        before = w.val()
        pd.eval(step, {ids: batch})
        np.testing.assert_allclose(w.val(), expected, rtol=2e-5, atol=1e-6)
        others = np.setdiff1d(np.arange(HEIGHT), batch)
        np.testing.assert_array_equal(w.val()[others], before[others])


@pytest.mark.parametrize("name", RULES)
def test_a_step_that_reads_every_row_is_that_of_a_whole_table(name):
    make, _ = RULES[name]
    found = []
    for row_sparse in (True, False):
        pd.reset()
        w = table()
        w.row_sparse = row_sparse
        ids = pd.Variable([None], dtype="int64")
        step = make(regularizer=pd.L2(0.1), clip=pd.ClipElements(1.0)).minimize(squared(w, ids))
        for k in range(4):
            pd.eval(step, {ids: np.random.default_rng(k).permutation(HEIGHT)})
        found.append(w.val())
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "make, message",
    [
        (pd.AdaFactorOptimizer, r"AdaFactorOptimizer: table.* is row_sparse, and the means of its"),
        (pd.MuonOptimizer, r"MuonOptimizer: table.* is row_sparse, and its steps are of whole"),
        (
            lambda: pd.Lookahead(pd.SGDOptimizer()),
            r"Lookahead: table.* is row_sparse, and its slow weights are of all rows",
        ),
    ],
    ids=["adafactor", "muon", "lookahead"],
)
def test_optimizers_that_take_no_rows(make, message):
    with pytest.raises(pd.GraphError, match=message):
        make().minimize(squared(table(), pd.Variable([None], dtype="int64")))


def test_lamb_has_the_norms_of_the_gathered_rows():
    w, ids = table(), pd.Variable([None], dtype="int64")
    step, expected = pd.LAMBOptimizer(0.1).minimize(squared(w, ids)), w.val().astype(np.float64)
    slopes = row_slopes(expected, batches()[0])
    rows, g = list(slopes), np.array(list(slopes.values()))
    r = g / (np.abs(g) + 1e-6)  # of the first step
    expected[rows] -= 0.1 * np.linalg.norm(expected[rows]) / np.linalg.norm(r) * r
    pd.eval(step, {ids: batches()[0]})
    np.testing.assert_allclose(w.val(), expected, rtol=2e-5)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad"])
def test_the_same_rows_as_torch(name):
    torch = pytest.importorskip("torch")
    make, peer = {
        "sgd": (lambda: pd.SGDOptimizer(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        "adam": (lambda: pd.AdamOptimizer(0.1), lambda p: torch.optim.SparseAdam(p, 0.1)),
        "adagrad": (
            lambda: pd.AdaGradOptimizer(0.1, epsilon=1e-20),
            lambda p: torch.optim.Adagrad(p, 0.1, eps=1e-10),
        ),
    }[name]
    w, ids = table(), pd.Variable([None], dtype="int64")
    theirs = torch.nn.Embedding.from_pretrained(torch.tensor(w.val()), freeze=False, sparse=True)
    optimizer = peer(list(theirs.parameters()))
    step = make().minimize(squared(w, ids))
    for batch in batches():
        optimizer.zero_grad()
        k = torch.tensor(batch)
        (0.5 * theirs(k).square() * (1 + 0.1 * k[:, None])).sum().backward()
        optimizer.step()
        pd.eval(step, {ids: batch})
        np.testing.assert_allclose(w.val(), theirs.weight.detach(), rtol=1e-4, atol=1e-5)


CHANGES = {
    "l2": ({"regularizer": pd.L2(0.3)}, lambda g, w: g + 0.3 * w),
    "l1": ({"regularizer": pd.L1(0.3)}, lambda g, w: g + 0.3 * np.sign(w)),
    "clip": ({"clip": pd.ClipElements(0.5)}, lambda g, w: np.clip(g, -0.5, 0.5)),
    "one's own": ({"clip": lambda g, w: pd.abs(w) * g}, lambda g, w: np.abs(w) * g),
}


@pytest.mark.parametrize("change", CHANGES)
def test_penalties_and_clips_see_the_rows(change):
    options, by_hand = CHANGES[change]
    w, ids = table(), pd.Variable([None], dtype="int64")
    step = pd.MomentumOptimizer(0.1, 0.9, **options).minimize(squared(w, ids))
    for batch, expected in zip(batches(), lazily(momentum, w.val(), by_hand), strict=True):
        pd.eval(step, {ids: batch})
        np.testing.assert_allclose(w.val(), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("clip", [pd.ClipNorm, pd.ClipGlobalNorm])
def test_a_norm_is_that_of_the_summed_rows(clip):
    w, b = pd.Variable(data=np.zeros((4, 1)), row_sparse=True), pd.Variable(data=0.0)
    cost = pd.reduce_sum(pd.gather(w, np.int64([2, 2, 0]))) + 2.0 * b
    pd.eval(pd.SGDOptimizer(1.0, clip=clip(1.0)).minimize(cost))
    rows, bias = np.array([1.0, 0.0, 2.0, 0.0]), 2.0
    length = np.sqrt(5.0) if clip is pd.ClipNorm else 3.0
    np.testing.assert_allclose(w.val()[:, 0], -rows / length, rtol=1e-6)
    assert np.isclose(b.val(), -1.0 if clip is pd.ClipNorm else -bias / 3)


# ---- what may be gathered, and how


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_several_reads_of_any_rank_with_negative_ids(device, dtype):
    with pd.fresh(device=device):
        data = np.random.default_rng(2).normal(size=(6, 2, 2))
        one = pd.Variable("one", data=data, row_sparse=True)
        other = pd.Variable("other", data=data)
        a, b = pd.Variable([None], dtype=dtype), pd.Variable([None, 2], dtype=dtype)

        def cost(w):
            fixed = pd.reduce_sum(pd.square(pd.gather(w, np.int64(-6))))
            return fixed + pd.reduce_sum(pd.exp(pd.gather(w, a))) + pd.reduce_sum(pd.gather(w, b))

        steps = [pd.SGDOptimizer(0.1).minimize(cost(w)) for w in (one, other)]
        for first, second in [([3, -1], [[0, 3], [5, -6]]), ([], np.zeros((0, 2)))]:
            pd.eval(steps, {a: np.array(first, dtype), b: np.array(second, dtype)})
            np.testing.assert_allclose(one.val(), other.val(), rtol=1e-6, atol=1e-7)
        assert np.abs(one.val() - data).max() > 0.1


def test_a_table_of_numbers_and_an_empty_batch():
    w, ids = pd.Variable(data=np.ones(5), row_sparse=True), pd.Variable([None], dtype="int64")
    step = pd.AdamOptimizer(0.5).minimize(pd.reduce_sum(pd.gather(w, ids)))
    pd.eval(step, {ids: np.zeros(0)})
    assert w.val().tolist() == [1] * 5
    pd.eval(step, {ids: [4, 4, 0]})
    assert w.val().tolist()[1:4] == [1] * 3 and (w.val()[[0, 4]] < 1).all()


COLUMNS = {
    "SGD": lambda: pd.SGDOptimizer(0.5),
    "a schedule": lambda: pd.SGDOptimizer(lambda t: 1.0 / (t + 1.0)),
    "L2": lambda: pd.SGDOptimizer(0.5, regularizer=pd.L2(0.1)),
    "a clip": lambda: pd.SGDOptimizer(0.5, clip=pd.ClipNorm(2.0)),
    "a group": lambda: pd.SGDOptimizer(0.1, groups=[{"params": "c*", "learning_rate": 0.5}]),
    "momentum": lambda: pd.MomentumOptimizer(0.5, 0.9),
}


SHAPES = [(6,), (6, 1), (6, 1, 1)]
TABLES = thinned(itertools.product(COLUMNS, SHAPES, ["cpu", "reference"]), 5)


@pytest.mark.parametrize("name, shape, device", TABLES, ids=str)
def test_tables_of_one_column(name, shape, device):
    """Rows that repeat, counted from either end: as a whole table if every row is gathered."""
    with pd.fresh(device=device):
        data = np.random.default_rng(2).normal(size=shape)
        one = pd.Variable("column", data=data, row_sparse=True)
        other = pd.Variable("c_whole", data=data)
        ids = pd.Variable([None, 2], dtype="int64")
        costs = [pd.reduce_sum(pd.square(pd.gather(w, ids))) for w in (one, other)]
        steps = [COLUMNS[name]().minimize(cost) for cost in costs]
        every = np.int64([[0, 1], [2, 3], [4, 5], [-6, -1], [3, 3]])
        for rows in (every, every[::-1], every):
            pd.eval(steps, {ids: rows})
        pd.eval(steps[0], {ids: every[:0]})  # no rows: nothing moves
        np.testing.assert_allclose(one.val(), other.val(), rtol=1e-5, atol=1e-6)
        assert np.abs(one.val() - data).max() > 0.1


def test_a_step_that_adds_needs_no_distinct_rows():
    w, ids = pd.Variable(data=np.ones((9, 1)), row_sparse=True), pd.Variable([None], dtype="int64")
    cost = pd.reduce_sum(pd.gather(w, ids))
    operators = [node.op_type for node in pd.subgraph(pd.SGDOptimizer(0.1).minimize(cost))]
    assert "ScatterElements" in operators and "TopK" not in operators
    pd.eval(pd.SGDOptimizer(0.1).minimize(cost), {ids: [1, 1, -1]})
    first = buffer(w)[0]
    pd.eval(pd.SGDOptimizer(0.1).minimize(cost), {ids: [1, 1, -1]})
    assert buffer(w)[0] is first and buffer(w)[1] is None
    np.testing.assert_allclose(w.val()[[0, 1, 8], 0], [1, 0.6, 0.8], rtol=1e-6)


class Decayed(pd.SGDOptimizer):
    """Another rule than that of its base."""

    def rule(self, w, g, slots, rate, step):
        return w - rate * (g + 0.1 * w), {}


def test_a_subclass_with_a_rule_of_its_own():
    one = pd.Variable(data=np.full((4, 1), 2.0), row_sparse=True)
    other = pd.Variable(data=np.full((4, 1), 2.0))
    costs = [pd.reduce_sum(pd.square(pd.gather(w, np.arange(4)))) for w in (one, other)]
    steps = [Decayed(0.5).minimize(cost) for cost in costs]
    for _ in range(2):
        pd.eval(steps)
    np.testing.assert_allclose(one.val(), other.val(), rtol=1e-6)
    assert np.allclose(other.val(), 0.005)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_rows_are_summed_in_order(device, rng):
    with pd.fresh(device=device):
        rows, values = pd.Variable([None], dtype="int64"), pd.Variable([None, 2])
        found = summed_rows(rows, values)
        for ids in ([7, 2, 7, 7, 2, 9], [1], [], [0] * 50):
            data = rng.normal(size=(len(ids), 2)).astype(f32)
            got, total = pd.eval([found.rows, found.values], {rows: np.int64(ids), values: data})
            assert got.tolist() == sorted(set(ids))
            for k, row in zip(got, total, strict=True):
                expected = f32([0, 0])
                for i in np.flatnonzero(np.int64(ids) == k):
                    expected = expected + data[i]
                np.testing.assert_array_equal(row, expected)


def test_other_uses_are_refused():
    w = table()
    rows = pd.gather(w, np.int64([1]))
    optimizer = pd.SGDOptimizer(0.1)
    with pytest.raises(pd.GraphError, match="row_sparse, and MatMul reads it otherwise than by"):
        optimizer.minimize(pd.reduce_sum(rows) + pd.reduce_sum(pd.matmul(w, np.ones((WIDTH, 1)))))
    with pytest.raises(pd.GraphError, match=r"node   Gather, built at .*test_row_sparse\.py"):
        optimizer.minimize(pd.gather(w, np.int64([1]), axis=1))
    with pytest.raises(pd.GraphError, match="row_sparse, and Scan reads it"):
        step = lambda h, k: (h + pd.reduce_sum(pd.gather(w, k)), None)  # noqa: E731
        optimizer.minimize(pd.scan(step, pd.constant(0.0), pd.constant(np.int64([1, 2])))[0])
    with pytest.raises(pd.GraphError, match="row_sparse, and a cost itself"):
        optimizer.minimize([pd.reduce_sum(rows), w])
    w.row_sparse = False
    pd.eval(optimizer.minimize(pd.reduce_sum(pd.matmul(w, np.ones((WIDTH, 1))))))


def test_uses_without_a_derivative_are_allowed():
    w = table()
    height = pd.cast(pd.size_of(w, 0), "float32")
    cost = pd.reduce_sum(pd.gather(w, np.int64([2]))) * height
    cost = cost + pd.reduce_sum(pd.square(pd.stop_gradient(w)))
    before = w.val()
    _, value = pd.eval([pd.SGDOptimizer(1.0).minimize(cost), cost])
    np.testing.assert_allclose(value, before[2].sum() * HEIGHT + (before**2).sum(), rtol=1e-5)
    np.testing.assert_allclose((before - w.val())[2], [HEIGHT] * WIDTH, rtol=1e-6)


@pytest.mark.parametrize("shape", [[None, 2], []])
def test_what_has_no_rows_of_its_own_is_not_row_sparse(shape):
    with pytest.raises(pd.ShapeError, match="row_sparse is for parameters with rows"):
        pd.Variable(shape, row_sparse=True)


def test_the_gradient_itself_is_whole():
    w = table()
    (g,) = pd.gradients(pd.reduce_sum(pd.gather(w, np.int64([1, 1]))), [w])
    assert pd.eval(g).tolist() == [[2.0 * (k == 1)] * WIDTH for k in range(HEIGHT)]


# ---- writes in place


def buffer(w):
    return pd.default_session().store.arrays.buffers[w]


def test_tables_and_slots_have_one_buffer_that_stays():
    w, ids = table(), pd.Variable([None], dtype="int64")
    step = pd.AdamOptimizer(0.1).minimize(squared(w, ids))
    pd.eval(step, {ids: [1]})
    slots = [v for v in pd.persistent_variables("adamoptimizer_0/") if v.dims == w.dims]
    assert len(slots) == 2
    first = {v: buffer(v)[0] for v in (w, *slots)}
    pd.eval(step, {ids: [2]})
    for v, value in first.items():
        assert buffer(v)[0] is value and buffer(v)[1] is None


def test_no_value_of_a_step_has_the_height_of_the_table():
    w, ids = table(), pd.Variable([None], dtype="int64")
    step = pd.AdamOptimizer(0.1, regularizer=pd.L2(0.1)).minimize(squared(w, ids))
    tall = [n for n in pd.subgraph(step) if any(HEIGHT in y.dims for y in n.outputs)]
    assert [n.op_type for n in tall] == ["ScatterND"] * 3


def test_all_reads_see_the_table_from_before_the_step():
    """A linear cost: the gather of the forward pass is not needed for the new rows."""
    w, ids = table(), pd.Variable([None], dtype="int64")
    cost = pd.reduce_sum(pd.gather(w, ids))
    later = cost
    for _ in range(50):
        later = later + 0.0
    total = pd.reduce_sum(w)
    step = pd.SGDOptimizer(1.0).minimize(cost)
    for batch in batches():
        before = w.val()
        _, a, b, whole, value = pd.eval([step, later, total, w, cost], {ids: batch})
        np.testing.assert_allclose([a, value], [before[batch].sum()] * 2, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(whole, before)
        np.testing.assert_allclose(b, before.sum(), rtol=1e-5, atol=1e-6)
        assert (w.val() != before).any()


def test_a_new_table_that_something_else_reads_is_computed():
    w, ids = table(), pd.Variable([None], dtype="int64")
    average = pd.MovingAverage(0.5)
    step = average.follow(pd.SGDOptimizer(0.1).minimize(squared(w, ids)))
    seen = []
    for batch in batches():
        pd.eval(step, {ids: batch})
        seen.append(w.val())
    weights = 0.5 ** np.arange(STEPS, 0, -1)
    expected = np.tensordot(weights, seen, 1) / weights.sum()
    with average.applied():
        np.testing.assert_allclose(w.val(), expected, rtol=1e-5, atol=1e-6)


def graph_of(*assignments):
    from pd_core.backend.program import build

    return build([], list(assignments), [], True, {})


def written(w, **attributes):
    return pd.apply("ScatterND", w, np.int64([[1]]), np.ones((1, WIDTH), f32), **attributes)


def test_which_writes_stand_apart():
    w, other = table(), pd.Variable("other", data=np.zeros((HEIGHT, WIDTH)))
    new = written(w)
    step, writes = stages(graph_of((w, new), (other, other + 1.0)))
    assert writes.in_place and writes.updated == (0,) and writes.graph.updates[0][0] is w
    assert not step.in_place and [v for v, _ in step.graph.updates] == [other]
    assert not stages(graph_of((w, new)))[0].in_place  # nothing is before it
    values = pd.gather(other, np.int64([0]))
    from_other = pd.apply("ScatterND", w, np.int64([[1]]), values)
    assert len(stages(graph_of((w, from_other), (other, written(other))))) == 2
    whole = pd.apply("ScatterND", w, np.arange(HEIGHT)[:, None], other)
    before, last = stages(graph_of((w, whole), (other, written(other))))
    assert before.updated == (0,) and last.updated == (1,)  # w reads what other was
    for together in (
        [(w, written(w, reduction="add"))],
        [(w, written(other))],
        [(w, new), (other, new)],
        [(w, new), (other, new + 1.0)],
    ):
        graph = graph_of(*together)
        (whole,) = stages(graph)
        assert whole.graph is graph and not whole.in_place


@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
def test_writes_of_what_is_written(operator):
    """Two tables from each other: both writes see the values from before."""
    a, b = (pd.Variable(name, data=np.full((2, 1), k + 1.0)) for k, name in enumerate("ab"))
    index = np.int64([[0], [1]])
    options = {"axis": 0, "reduction": "add"} if operator == "ScatterElements" else {}
    new_a, new_b = (pd.apply(operator, x, index, y, **options) for x, y in ((a, b), (b, a)))
    pd.eval([pd.assign(a, new_a), pd.assign(b, new_b)])
    expected = [2, 1] if operator == "ScatterND" else [3, 3]
    assert [a.val()[0, 0], b.val()[0, 0]] == expected


def test_a_step_that_fails_changes_nothing():
    w, ids = table(), pd.Variable([None], dtype="int64")
    b = pd.Variable(data=0.0)
    step = pd.MomentumOptimizer(0.1).minimize(squared(w, ids) + b)
    pd.eval(step, {ids: [1]})
    before = pd.default_session().values()
    with pytest.raises(pd.OutOfRange, match=f"{HEIGHT} in row 1 is outside"):
        pd.eval(step, {ids: [2, HEIGHT]})
    for v, value in pd.default_session().values().items():
        np.testing.assert_array_equal(value, before[v])


def test_values_may_be_set_between_steps():
    w, ids = table(), pd.Variable([None], dtype="int64")
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(pd.gather(w, ids)))
    for k in range(3):
        pd.default_session().set(w, np.full((HEIGHT, WIDTH), k, f32))
        pd.eval(step, {ids: [0]})
        assert w.val()[:2].tolist() == [[k - 1] * WIDTH, [k] * WIDTH]
    w.trainable = False
    pd.eval(step, {ids: [0]})
    assert w.val()[0].tolist() == [1] * WIDTH


def test_an_exported_step_gives_the_same_numbers(tmp_path):
    w, ids = table(), pd.Variable("ids", shape=[None], dtype="int64")
    cost = squared(w, ids)
    step = pd.AdamOptimizer(0.1).minimize(cost)
    model = pd.export_step(tmp_path / "step.onnx", step, [cost])
    assert {o.domain for o in model.opset_import} == {""}
    runtime = onnxruntime.InferenceSession(str(tmp_path / "step.onnx"))
    following = json.loads(runtime.get_modelmeta().custom_metadata_map["pd.state"])
    names, state = [o.name for o in runtime.get_outputs()], {}
    for batch in batches():
        out = dict(zip(names, runtime.run(None, {"ids": batch, **state}), strict=True))
        _, value = pd.eval([step, cost], {ids: batch})
        np.testing.assert_allclose(out[cost.name], value, rtol=1e-6)
        state = {into: out[name] for name, into in following.items()}
        np.testing.assert_allclose(state["table"], w.val(), rtol=1e-6, atol=1e-7)


def test_an_embedding_layer_asks_for_it_by_its_parameter():
    ids = pd.Variable([None, 1], dtype="int64")
    rows = pd.embedding(ids, [HEIGHT, WIDTH], W={"name": "words", "row_sparse": True})
    pd.eval(pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(rows)), {ids: [[1]]})
    assert buffer(pd.get_variable("words"))[1] is None


def test_a_product_with_sparse_rows(rng):
    """x W for rows x of which the non-zero columns and their values are fed."""
    lengths, columns = (pd.Variable([None], dtype="int64") for _ in range(2))
    values, x = pd.Variable([None]), pd.Variable([None, HEIGHT])
    w, whole = table(), pd.Variable("whole", data=table_data())
    rows = pd.gather(w, columns) * pd.unsqueeze(values, 1)
    costs = [pd.Segments(lengths).sum(rows), pd.matmul(x, whole)]
    costs = [pd.reduce_sum(pd.square(y - 1.0)) for y in costs]
    steps = [pd.MomentumOptimizer(0.01, 0.0).minimize(cost) for cost in costs]
    for _ in range(3):
        dense = rng.normal(size=(6, HEIGHT)) * (rng.uniform(size=(6, HEIGHT)) < 0.3)
        dense[2] = 0.0
        where = np.nonzero(dense)
        feeds = {
            lengths: (dense != 0).sum(1),
            columns: where[1],
            values: dense[where].astype(f32),
            x: dense.astype(f32),
        }
        _, found = pd.eval([steps, costs], feeds)
        np.testing.assert_allclose(*found, rtol=1e-5)
        np.testing.assert_allclose(w.val(), whole.val(), rtol=1e-5, atol=1e-6)
    assert np.abs(w.val() - table_data()).max() > 0.01


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_embeddings_of_pytorch(name):
    """`pd.nn.Embedding(row_sparse=True)`, static and in a guard, trains as one with sparse=True."""
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Embedding(HEIGHT, WIDTH, sparse=True)
    theirs.weight.data = torch.tensor(table_data().astype(f32))
    sparse = torch.optim.SGD if name == "SGD" else torch.optim.SparseAdam
    optimizer = sparse(theirs.parameters(), lr=0.1)
    for ids in batches():
        optimizer.zero_grad()
        theirs(torch.tensor(ids)).square().sum().backward()
        optimizer.step()

    def ours():
        pd.reset(seed=0)
        layer = pd.nn.Embedding(
            HEIGHT, WIDTH, kernel_init=lambda shape, rng: table_data(), row_sparse=True
        )
        return layer, getattr(pd, f"{name}Optimizer")(0.1)

    layer, optimizer = ours()
    ids = pd.Variable([None], dtype="int64")
    step = optimizer.minimize(pd.reduce_sum(pd.square(layer(ids))))
    for batch in batches():
        pd.eval(step, {ids: batch})
    expected = theirs.weight.detach().numpy()
    np.testing.assert_allclose(layer.W.val(), expected, rtol=1e-5, atol=1e-5)
    layer, optimizer = ours()
    for batch in batches():
        with pd.guard():
            optimizer.minimize(pd.reduce_sum(pd.square(layer(batch))))
    np.testing.assert_allclose(layer.W.val(), expected, rtol=1e-5, atol=1e-5)
    assert repr(layer) == f"Embedding({HEIGHT}, {WIDTH}, row_sparse=True)"
