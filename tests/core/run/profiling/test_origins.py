"""Every operator of a backward pass counts for the layer of the operator that it differentiates."""

import gc
from collections import Counter
from weakref import ref

import numpy as np
import pytest

import pd_core as pd
from pd_core.gradients import engine, gradient, gradient_rules
from pd_core.graph import node as nodes
from pd_core.run.profiling import timed
from tests.thinned import in_turn, words

f32 = np.float32


def inner_nodes(node):
    """A node and those in its bodies."""
    yield node
    for block in node.blocks.values():
        for inner in nodes.ancestors(block.outputs, set(block.inputs)):
            yield from inner_nodes(inner)


def first(name):
    """The outermost namespace of a scope or of a layer."""
    return name.split("/")[0]


class Truth:
    """What differentiates what, by the calls of the engine: layers of outputs by their names."""

    def __init__(self):
        self.layers: dict[str, set[str]] = {}
        self.running: list[set[str]] = []
        self.checked: Counter = Counter()  # (layer, operator) of the backward pass

    def of(self, node):
        """The layers that differentiating a node may count for."""
        name = node.outputs[0].name
        if name in self.layers:
            return self.layers[name]
        # what is summed after a loop may be of each operator in its body
        return {first(inner.scope) for inner in inner_nodes(node)}

    def watch(self, function, node_of):
        """A function during whose calls what is built differentiates node_of(its arguments)."""

        def call(*args):
            node = node_of(*args)
            if node is not None:
                self.running.append(self.of(node))
            try:
                return function(*args)
            finally:
                if node is not None:
                    self.running.pop()

        return call

    def built(self, node):
        """Note a node that was built; one that is rewritten has its name already."""
        if self.running:
            self.layers.setdefault(node.outputs[0].name, self.running[-1])

    def check(self, origins):
        """Check the origins of a program."""
        for node, origin in origins.items():
            name = node.outputs[0].name
            if name in self.layers:
                assert origin.phase == "backward", node
                assert first(origin.layer) in self.layers[name], (node, origin.layer)
            elif origin.phase == "backward":  # the gradient of the cost, or a sum at a parameter
                assert origin.layer, node
            if origin.phase == "backward":
                self.checked[first(origin.layer), node.op_type] += 1
            if origin.phase == "forward":
                assert first(origin.layer) == first(node.scope), node


@pytest.fixture
def truth(monkeypatch):
    truth = Truth()
    partials = truth.watch(engine.partials, lambda node, *rest: node)
    monkeypatch.setattr(engine, "partials", partials)
    for name in ("add", "total", "result"):
        method = truth.watch(getattr(engine.Adjoints, name), lambda self, x, *rest: x.node)
        monkeypatch.setattr(engine.Adjoints, name, method)
    construct, origins_of = nodes.Node.__init__, timed.origins_of

    def constructed(self, *args, **kwargs):
        construct(self, *args, **kwargs)
        truth.built(self)

    def checked(*args):
        origins = origins_of(*args)
        truth.check(origins)
        return origins

    monkeypatch.setattr(nodes.Node, "__init__", constructed)
    monkeypatch.setattr(timed, "origins_of", checked)
    return truth


# ---- networks: layers, a function of the batch, and the batch


def perceptron(rng):
    first, second = pd.nn.FC(5, act="relu", name="first"), pd.nn.FC(4, act="tanh", name="second")
    third = pd.nn.FC(5, name="third")

    def network(x):
        hidden = first(x)
        with pd.namespace("drop"):
            dropped = pd.dropout(hidden, 0.5)
        with pd.namespace("residual"):
            both = third(second(dropped)) + hidden
        with pd.namespace("cost"):
            return pd.reduce_mean(pd.square(pd.softmax(both) - 0.5))

    return network, rng.standard_normal((6, 3)).astype(f32), {"first", "second", "third", "drop"}


def convolution(rng):
    conv, norm = pd.nn.Conv2d(4, 3, padding=1, name="conv"), pd.nn.BatchNorm2d(name="norm")
    pool, head = pd.nn.MaxPool2d(2, name="pool"), pd.nn.FC(3, name="head")

    def network(x):
        y = pool(norm(conv(x)))
        with pd.namespace("relu"):
            y = pd.relu(y)
        with pd.namespace("flat"):
            y = pd.reshape(y, [0, 4 * 3 * 3])
        y = head(y)
        with pd.namespace("cost"):
            return pd.reduce_mean(pd.abs(y))

    layers = {"conv", "norm", "relu", "pool", "flat", "head"}
    return network, rng.standard_normal((2, 3, 6, 6)).astype(f32), layers


def recurrence(rng):
    low, high = pd.nn.FC(16, name="low"), pd.nn.FC(16, name="high")
    head = pd.nn.FC(3, name="head")

    def cell(layer, name, x, h, c):
        gates = layer(pd.concat([x, h], axis=1))
        with pd.namespace(name):
            i, f, o, g = (pd.slice(gates, [4 * k], [4 * k + 4], [1]) for k in range(4))
            c = pd.sigmoid(f) * c + pd.sigmoid(i) * pd.tanh(g)
            return pd.sigmoid(o) * pd.tanh(c), c

    def network(x):
        def step(states, row):
            h, c, u, d = states
            with pd.namespace("low"):
                h, c = cell(low, "cell", row, h, c)
            with pd.namespace("high"):
                u, d = cell(high, "cell", h, u, d)
            return (h, c, u, d), None

        with pd.namespace("loop"):
            zero = pd.constant(np.zeros((2, 4), f32))
            (_, _, last, _), _ = pd.scan(step, (zero,) * 4, x)
        last = head(last)
        with pd.namespace("cost"):
            return pd.reduce_mean(pd.square(last))

    return network, rng.standard_normal((5, 2, 3)).astype(f32), {"loop", "low", "high", "head"}


def attention(rng):
    layer = pd.nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, name="layer")
    attend, norm = pd.nn.MultiHeadAttention(8, 2, name="attend"), pd.nn.LayerNorm(name="norm")

    def network(x):
        y = norm(attend(layer(x)))
        with pd.namespace("cost"):
            return pd.reduce_mean(pd.exp(y))

    x = rng.standard_normal((2, 4, 8)).astype(f32)
    return network, x, {"layer", "attend", "norm"}


def embedding(rng):
    table, head = pd.nn.Embedding(9, 4, name="table"), pd.nn.FC(3, name="head")

    def network(x):
        y = table(x)
        with pd.namespace("pool"):
            y = pd.reduce_sum(y, [1])
        y = head(y)
        with pd.namespace("cost"):
            return pd.reduce_mean(pd.square(y))

    return network, rng.integers(0, 9, (3, 5)), {"table", "pool", "head"}


NETWORKS = [perceptron, convolution, recurrence, attention, embedding]


def check(profile, truth, layers):
    """All layers are in the backward pass, and its kernels are of them."""
    assert {layer for layer, _ in truth.checked} >= layers
    seen = {first(row.layer) for row in profile.rows("node") if row.phase == "backward"}
    assert layers <= seen <= {*layers, "cost"}


@pytest.mark.parametrize("make", NETWORKS, ids=[f.__name__ for f in NETWORKS])
def test_static_steps(make, truth, rng):
    network, batch, layers = make(rng)
    x = pd.Variable([None, *batch.shape[1:]], dtype=batch.dtype, name="x")
    cost = network(x)
    step = pd.AdamOptimizer(0.1).minimize(cost)
    with pd.profile() as profile:
        for _ in range(2):
            pd.eval([cost, step], {x: batch})
    check(profile, truth, layers)


@pytest.mark.parametrize("make", NETWORKS, ids=[f.__name__ for f in NETWORKS])
def test_gradients_alone(make, truth, rng):
    network, batch, layers = make(rng)
    x = pd.Variable([None, *batch.shape[1:]], dtype=batch.dtype, name="x")
    gradients = pd.gradients(network(x), pd.trainable_variables())
    with pd.profile() as profile:
        for _ in range(2):
            pd.eval(gradients, {x: batch}, training=True)
    check(profile, truth, layers)
    assert "update" not in {row.phase for row in profile.rows()}


@pytest.mark.parametrize("make, calls_backward", in_turn(NETWORKS, [True, False]), ids=words)
def test_values_at_hand(make, calls_backward, truth, rng):
    network, batch, layers = make(rng)
    optimizer = pd.AdamOptimizer(0.1)
    with pd.guard(), pd.profile() as profile:
        for _ in range(3):
            cost = network(pd.to_variable(batch))
            if calls_backward:
                cost.backward()
            optimizer.minimize(cost)
            cost.numpy()
    check(profile, truth, layers)


def test_loops_with_two_layers(truth, rng):
    network, batch, _ = recurrence(rng)
    x = pd.Variable([None, *batch.shape[1:]], name="x")
    cost = network(x)
    step = pd.SGDOptimizer(0.1).minimize(cost)
    with pd.profile() as profile:
        pd.eval([cost, step], {x: batch})
    counts = {
        layer: Counter(op for own, op in truth.checked.elements() if own == layer)
        for layer in ("low", "high")
    }
    low, high = (
        {op: n for op, n in counts[layer].items() if op in ("Mul", "Sub", "MatMul", "Sum")}
        for layer in ("low", "high")
    )
    assert low == high  # two layers of the same operators
    assert low["MatMul"] == 2  # for the input in the loop, and for W behind it
    products = [row.layer for row in profile.rows("node") if "MatMul" in row.name]
    assert Counter(first(name) for name in products if name) >= Counter(low=2, high=2)


def test_sums_of_several_contributions(truth, rng):
    layer = pd.nn.FC(3, bias=False, name="shared")
    x = pd.Variable([None, 3], name="x")
    with pd.namespace("early"):
        start = pd.exp(x)
    with pd.namespace("late"):
        y = layer(layer(start)) * start
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y))
    dx = pd.gradients(y, [x])
    with pd.profile():
        pd.eval([step, dx], {x: rng.standard_normal((4, 3))})
    sums = {layer for layer, op in truth.checked if op == "Add"}
    # of the two uses of W, and of the two uses of exp(x), whose operator is in the first layer
    assert sums == {"early", "shared"}


def test_gradients_of_gradients(truth, rng):
    network, batch, layers = perceptron(rng)
    x = pd.Variable([*batch.shape], name="x")
    (dx,) = pd.gradients(network(x), [x])
    with pd.namespace("penalty"):
        penalty = pd.reduce_sum(pd.square(dx))
    step = pd.SGDOptimizer(0.1).minimize(penalty)
    with pd.profile() as profile:
        for _ in range(2):
            pd.eval(step, {x: batch})
    check(profile, truth, {*layers, "penalty"})


def test_rows_of_a_table(rng):
    ids = pd.Variable([None], dtype="int64", name="ids")
    W = pd.Variable("table.W", data=rng.standard_normal((9, 4)), row_sparse=True)
    y = pd.gather(W, ids)
    with pd.namespace("cost"):
        cost = pd.reduce_sum(pd.square(y))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    with pd.profile() as profile:
        pd.eval(step, {ids: [1, 3, 1]})
    found = {(row.operator, row.layer) for row in profile.rows("node") if row.phase == "backward"}
    assert ("TopK", "table") in found
    assert {layer for _, layer in found} == {"table", "cost"}


def test_a_step_after_its_gradients(rng):
    layer, optimizer = pd.nn.FC(2, name="only"), pd.SGDOptimizer(0.1)
    with pd.guard(), pd.profile() as profile:
        for _ in range(3):
            cost = pd.reduce_mean(pd.square(layer(pd.to_variable(np.ones((4, 3), f32)))))
            cost.backward()
            layer.W.gradient()  # which has to be computed before the step
            optimizer.minimize(cost)
    phases = {row.phase for row in profile.rows() if row.name == "only"}
    assert phases == {"forward", "backward", "update"}


def test_lines_of_rules_of_others(rng):
    def rule(node, dy):
        return [dy * 2.0]  # rule

    x = pd.Variable([2], name="x")
    y = pd.exp(x)
    before = gradient_rules[y.node.op_type]
    gradient(y.node.op_type, replace=True)(rule)
    try:
        (dx,) = pd.gradients(y, [x])
    finally:
        gradient_rules[y.node.op_type] = before
    with open(__file__, encoding="utf-8") as file:
        line = 1 + next(k for k, text in enumerate(file) if text.endswith("# rule\n"))
    assert dx.node.site == (__file__, line)
    assert dx.node.site.line == y.node.site


def test_gradients_keep_no_operators():
    x = pd.Variable([2], name="x")
    y = x + pd.exp(x)
    node = ref(y.node)
    (dx,) = pd.gradients(pd.reduce_sum(y), [x])
    del y
    gc.collect()
    assert node() is None
    assert dx.node.site.line is not None
