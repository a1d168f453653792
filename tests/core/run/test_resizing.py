"""Programs made of one for other sizes: with their sizes those that are compiled, byte by byte."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper

import pd_core as pd
from pd_core.backend.base import NO_SEAM
from pd_core.backend.ort import OrtBackend, OrtProgram
from pd_core.graph.size_reads import SizeReads, at_most, filled, holds
from pd_core.graph.variable import constant
from pd_core.run.changes import changes_of, computed_changes
from pd_core.run.programs import Source, compiled
from pd_core.run.resizing import Templates
from tests.thinned import in_turn, thinned, words


class Opened:
    """What stands for a session."""

    def __init__(self, model, device, **options):
        self.model, self.options = ModelProto.FromString(model), {"device": device, **options}


class Models(OrtBackend):
    """A backend that keeps the models of its programs, and opens none."""

    def __init__(self):
        super().__init__("cpu", exact_convolutions=False)

    def compile(self, graph, seam=NO_SEAM):
        return OrtProgram(graph, seam, self.device, Opened)


def perceptron(sizes, dtype, act="relu"):
    """A classifier of a batch; returns its cost and feeds."""
    wide, *hidden, classes = sizes
    x, y = pd.Variable(["n", wide], dtype=dtype), pd.Variable(["n"], dtype="int64")
    h = x
    for n in hidden:
        w, b = pd.Variable([h.dims[1], n], dtype=dtype), pd.Variable([n], dtype=dtype)
        h = getattr(pd, act)(h @ w + b)
    w = pd.Variable([h.dims[1], classes], dtype=dtype)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(h @ w, y))
    return cost, {x: np.zeros((32, wide), dtype), y: np.zeros(32, np.int64)}


def regression(sizes, dtype):
    n, hidden, outputs = sizes
    x, y = pd.Variable(["n", n], dtype=dtype), pd.Variable(["n", outputs], dtype=dtype)
    w, v = pd.Variable([n, hidden], dtype=dtype), pd.Variable([hidden, outputs], dtype=dtype)
    cost = pd.reduce_sum(pd.square(pd.tanh(x @ w) @ v - y))
    return cost, {x: np.zeros((5, n), dtype), y: np.zeros((5, outputs), dtype)}


def normalized(sizes, dtype):
    n, hidden, classes = sizes
    cost, feeds = perceptron((n, hidden, classes), dtype, "sigmoid")
    x = next(iter(feeds))
    h = pd.l2_normalize(x @ pd.Variable([n, hidden], dtype=dtype), axis=1)
    return cost + pd.reduce_mean(pd.dropout(h, 0.3)), feeds


def embedding(sizes, dtype):
    rows, width, outputs = sizes
    ids = pd.Variable(["n", 3], dtype="int64")
    found = pd.gather(pd.Variable([rows, width], dtype=dtype), ids)
    cost = pd.reduce_mean(pd.reduce_max(found @ pd.Variable([width, outputs], dtype=dtype), axis=1))
    return cost, {ids: np.zeros((4, 3), np.int64)}


def joined(sizes, dtype):
    """Sizes that a constant has, that are sums, and that are read of shapes."""
    n, m, k = sizes
    x = pd.Variable(["n", n], dtype=dtype)
    w, v = pd.Variable([n, m], dtype=dtype), pd.Variable([n, k], dtype=dtype)
    both = pd.concat([x @ w, x @ v], axis=1) * np.full(m + k, 0.5, dtype)
    cost = pd.reduce_sum(pd.reshape(both, [-1])) * (1.0 / m) + pd.reduce_sum(w[:, 0] * 2.0)
    return cost, {x: np.zeros((6, n), dtype)}


def convolution(sizes, dtype):
    n, m, _ = sizes
    image = pd.Variable(["n", 1, 8, 8], dtype=dtype)
    h = pd.relu(pd.conv(image, pd.Variable([n, 1, 3, 3], dtype=dtype)))
    cost = pd.reduce_mean(pd.square(pd.conv(h, pd.Variable([m, n, 3, 3], dtype=dtype))))
    return cost, {image: np.zeros((2, 1, 8, 8), dtype)}


NETWORKS = [perceptron, regression, normalized, embedding, joined, convolution]
OPTIMIZERS = {
    "SGD": lambda: pd.SGDOptimizer(0.1),
    "momentum": lambda: pd.MomentumOptimizer(0.1, 0.9, regularizer=pd.L2(0.01)),
    "Adam": lambda: pd.AdamOptimizer(0.1),
    "AdamW": lambda: pd.AdamWOptimizer(0.1, clip=pd.ClipGlobalNorm(1.0)),
    "RMSProp": lambda: pd.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "LAMB": lambda: pd.LAMBOptimizer(0.1),
    "AdaFactor": lambda: pd.AdaFactorOptimizer(),
}


def source_of(network, sizes, dtype, optimizer):
    """The source of a training step."""
    with pd.fresh():
        cost, feeds = network(sizes, dtype)
        update = optimizer.minimize(cost)
        computed = computed_changes(changes_of([update]))
        return Source.of([cost], computed, NO_SEAM, feeds, True)


def facts(program):
    """Return the attributes of a compiled program that evaluations use, without its session."""
    names = ("fed", "states", "updated", "draws", "equal", "operators", "bytes", "lengths", "sizes")
    parts = [
        {k: v for k, v in vars(part).items() if k not in ("equal", "sites")}
        for part in program.graph.parts
    ]
    found = {name: getattr(program, name) for name in names}
    found["equal"] = [[(isinstance(d, str) or d, k) for d, k in pair] for pair in program.equal]
    return found, parts


def at_its_sizes(program, fixed):
    """Return the model of a program of any sizes with the sizes that another model has for them.

    Each name stands for one size, and what its inputs are given takes the place of constants.
    """
    (session,), given = program.sessions, dict(program.constants)
    model, sizes = ModelProto.FromString(session.model.SerializeToString()), {}
    graph = model.graph
    for value in [v for v in graph.input if v.name in given]:
        graph.input.remove(value)
    for side in ("input", "output"):
        for ours, theirs in zip(getattr(graph, side), getattr(fixed.graph, side), strict=True):
            dims = ours.type.tensor_type.shape.dim, theirs.type.tensor_type.shape.dim
            for a, b in zip(*dims, strict=True):
                if a.dim_param and b.dim_value:
                    assert sizes.setdefault(a.dim_param, b.dim_value) == b.dim_value
                    a.dim_value = b.dim_value
    arrays = {t.name: t for t in graph.initializer}
    arrays |= {name: numpy_helper.from_array(v.numpy(), name) for name, v in given.items()}
    del graph.initializer[:]
    graph.initializer.extend([arrays[t.name] for t in fixed.graph.initializer])
    return model, len(sizes)


def compare(network, dtype, optimizer, every):
    """Compile a step for one list of sizes after the other; return how many were made of others."""
    templates, made = Templates(), 0
    for sizes in every:
        one = templates.compiled(Models(), source_of(network, sizes, dtype, optimizer()), compiled)
        other = compiled(Models(), source_of(network, sizes, dtype, optimizer()))
        for ours, theirs in zip(one.graph.sessions, other.graph.sessions, strict=True):
            assert ours.options == theirs.options, sizes
            if one.graph.any_sizes is None:
                assert ours.model == theirs.model, sizes
            else:
                model, named = at_its_sizes(one.graph, theirs.model)
                assert model == theirs.model and named >= one.is_resized, sizes
        assert facts(one) == facts(other), sizes
        made += one.is_resized
    return made


# the same but for one size; others equal, or 1; below and above thresholds; those of constants
SIZES = [(7, 20, 3), (7, 21, 3), (40, 21, 17), (30, 30, 30), (9, 1, 2), (20, 2100, 4), (2, 3, 41)]


@pytest.mark.parametrize("network, name", in_turn(NETWORKS, ["SGD", "Adam"]), ids=words)
def test_steps_for_other_sizes_are_those_that_are_compiled(network, name):
    made = compare(network, np.float32, OPTIMIZERS[name], SIZES)
    if network in (perceptron, regression):
        assert made


CASES = [(name, np.float32) for name in OPTIMIZERS]
CASES += [(name, np.float64) for name in ("SGD", "momentum", "RMSProp")]


@pytest.mark.parametrize("name, dtype", thinned(CASES, 2))
def test_steps_of_every_optimizer_are_those_that_are_compiled(name, dtype):
    rng = np.random.default_rng(len(name))
    every = [(64, 33, 48, 10), (64, 41, 35, 10)]
    every += [tuple(rng.integers(1, 60, 4).tolist()) for _ in range(2)]
    made = compare(perceptron, dtype, OPTIMIZERS[name], every)
    assert made or name in ("AdaFactor", "LAMB", "AdamW")


def test_a_step_for_other_sizes_computes_the_same(rng):
    """The second of two models of different widths trains to the numbers it has alone."""

    def trained(n, session):
        with pd.fresh(), session:
            x, y = pd.Variable(["n", 6]), pd.Variable(["n"], dtype="int64")
            net = pd.nn.Sequential(pd.nn.FC(n, "relu"), pd.nn.FC(n, "tanh"), pd.nn.FC(4))
            cost = pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))
            update, feeds = pd.AdamOptimizer(0.01).minimize(cost), {x: batch[0], y: batch[1]}
            costs = [float(pd.eval([update, cost], feeds)[1]) for _ in range(4)]
            return costs, [pd.eval(w) for w in net.parameters()]

    batch = rng.random((8, 6), np.float32), rng.integers(0, 4, 8)
    pd.clear_programs()
    alone = trained(23, pd.Session(seed=3))
    pd.clear_programs()
    trained(37, pd.Session(seed=3))
    after = trained(23, pd.Session(seed=3))
    assert after[0] == alone[0] and after[0][-1] < after[0][0]
    for a, b in zip(after[1], alone[1], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def opened(monkeypatch):
    """The sessions of ONNX Runtime that are opened in a test, as references."""
    found, real = [], onnxruntime.InferenceSession

    def open_session(*arguments, **options):
        session = real(*arguments, **options)
        found.append(weakref.ref(session))
        return session

    monkeypatch.setattr(onnxruntime, "InferenceSession", open_session)
    return found


def steps(n, batch):
    """A function that trains a model of width n by one step, and returns the cost."""
    session = pd.Session(seed=n)
    with pd.fresh(), session:
        x, y = pd.Variable(["n", 6]), pd.Variable(["n"], dtype="int64")
        net = pd.nn.Sequential(pd.nn.FC(n, "relu"), pd.nn.FC(n, "tanh"), pd.nn.FC(4))
        cost = pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))
        update, feeds = pd.AdamOptimizer(0.01).minimize(cost), {x: batch[0], y: batch[1]}
    return lambda: float(session.eval([update, cost], feeds)[1])


def test_models_of_other_widths_share_a_session(rng, opened):
    """Trained in turns, and in several threads at once, they compute what each does alone."""
    batch, widths = (rng.random((8, 6), np.float32), rng.integers(0, 4, 8)), (37, 23, 41)
    alone = []
    for n in widths:
        pd.clear_programs()
        step = steps(n, batch)
        alone.append([step() for _ in range(6)])
    pd.clear_programs()
    opened.clear()
    every = [steps(n, batch) for n in widths]
    costs = [[step() for step in every] for _ in range(3)]
    assert len(opened) == 1
    with ThreadPoolExecutor(3) as pool:
        rest = list(pool.map(lambda step: [step() for _ in range(3)], every))
    for k, expected in enumerate(alone):
        assert [row[k] for row in costs] + rest[k] == expected


def test_a_session_is_open_as_long_as_a_model_is(rng, opened):
    batch = rng.random((8, 6), np.float32), rng.integers(0, 4, 8)
    pd.clear_programs()
    opened.clear()
    first, second = steps(37, batch), steps(23, batch)
    first(), second()
    del first
    gc.collect()
    assert len(opened) == 1 and opened[0]() is not None
    second()
    pd.clear_programs()
    del second
    gc.collect()
    assert opened[0]() is None


def test_an_error_of_a_step_for_other_sizes_has_its_own_line():
    def step(n, gathered):
        ids = pd.Variable(["n"], dtype="int64")
        cost = pd.reduce_sum(pd.square(gathered(pd.Variable([n, 3]), ids)))
        return pd.SGDOptimizer(0.1).minimize(cost), {ids: np.array([10**6])}

    def first(w, ids):
        return pd.gather(w, ids)

    def second(w, ids):
        return pd.gather(w, ids)

    for n, gathered in ((40, first), (41, second)):
        with pytest.raises(pd.OutOfRange, match=f"outside -{n}") as caught:
            pd.eval(*step(n, gathered))
        assert f"test_resizing.py:{gathered.__code__.co_firstlineno + 1}" in str(caught.value)


# ---- what is recorded


def test_sizes_that_were_read_stay():
    with SizeReads() as reads:
        x = pd.Variable.of((30, 4, 7), np.float32)
        assert x.rank == 3 and x.is_static and x.symbolic_dims[0] == 30
        assert not reads.fixed
        assert x.dims[1:2] == (4,)
    assert reads.fixed == {30, 4, 7}
    assert reads.renamed([30, 9], [30, 8]) == {9: 8}
    assert reads.renamed([30, 9], [29, 9]) is None
    assert reads.renamed([30, 9], [30, 4]) is None  # it was another size
    x.dims  # noqa: B018  # after the block nothing is recorded
    assert reads.fixed == {30, 4, 7}


def test_answers_hold_for_sizes_with_the_same_answer():
    with SizeReads() as reads:
        assert at_most((3, "n", 5), 40, 2) and holds(lambda a, b: a < b, (3, 5))
    assert not reads.fixed
    assert reads.renamed([3, 5], [2, 6]) == {3: 2, 5: 6}
    assert reads.renamed([3, 5], [4, 6]) is None
    assert reads.renamed([3, 5], [5, 3]) is None


def test_constants_fix_their_sizes_and_numbers():
    with SizeReads() as reads:
        constant(np.zeros((4, 9), np.float32)), constant([17, 3])
    assert reads.fixed == {4, 9, 17, 3, 2}


def test_what_is_computed_of_sizes_in_another_way_reads_them():
    with SizeReads() as reads:
        x = pd.Variable.of((30, 4), np.float32)
        y = x + pd.Variable.of((4,), np.float32)
        assert not reads.fixed
        pd.concat([y, y], axis=0)
    assert {30, 4, 60} <= reads.fixed


def test_filled_constants_have_the_sizes_they_are_for():
    np.testing.assert_array_equal(filled((2, 1), 0.5, np.float32).array(), [[0.5], [0.5]])
    sizes = filled((2, 1), None, np.int64)
    assert sizes.dims == (2,) and sizes.array().tolist() == [2, 1] and sizes.value is None
