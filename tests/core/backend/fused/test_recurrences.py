"""Loops over time as operators of their own: the same values and gradients as the loops."""

import platform
import threading

import numpy as np
import pytest
from onnx import AttributeProto

import pd_core as pd
from pd_core.backend.fused import program
from pd_core.backend.fused.build import available
from pd_core.backend.fused.recurrences import scans
from pd_core.backend.passes import forms
from pd_core.graph.node import ancestors
from tests.thinned import in_turn, thinned, words

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

H = 6


def floats(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(np.float32)


def loops(graph):
    """The number of Scans in a graph and in its bodies."""
    bodies = [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    return sum(node.op_type == "Scan" for node in graph.node) + sum(map(loops, bodies))


@pytest.fixture
def left(monkeypatch):
    """A list of the loops before and after, of each program that is fused."""
    found = []

    def fuse(model, kinds, equal):
        before = loops(model.graph)
        result = scans.fuse(model, kinds, equal)
        found.append((before, loops(model.graph)))
        return result

    monkeypatch.setattr(program, "FUSERS", [program.Fuser(fuse)])
    monkeypatch.setattr(program, "_remembered", lambda name: None)  # but libraries are
    pd.clear_programs()
    with pd.fresh():
        yield found
    pd.clear_programs()


def leaves(target):
    """What a value depends on that has a gradient."""
    read = (x for node in ancestors([target]) for x in node.inputs if x is not None)
    found = dict.fromkeys(x for x in read if x.node is None and x.value is None)
    return [x for x in found if x.dtype == np.float32]


def targets(outputs):
    """Values, and the gradients of a cost of all of them."""
    cost = sum(pd.reduce_sum(pd.square(y) + y) for y in outputs)
    return [*outputs, cost, *pd.gradients(cost, leaves(cost))]


def both(values, feeds):
    """The values without and with fused kernels."""
    results = []
    for on in (False, True):
        with pd.fused(on):
            results.append(pd.eval(values, feeds))
    return results


def same(values, feeds, rtol=1e-5):
    for a, b in zip(*both(values, feeds), strict=True):
        assert np.shape(a) == np.shape(b)
        scale = np.abs(a).max() if np.size(a) else 0
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-6 + rtol * scale)


LAYERS = {
    "lstm": pd.lstm,
    "gru": pd.gru,
    "tanh": pd.simple_rnn,
    "relu": lambda x, hidden, **more: pd.simple_rnn(x, hidden, act="relu", **more),
}


def as_list(y, states):
    return [y, *(states if isinstance(states, tuple) else [states])]


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_of_sequences_of_one_length(kind, left):
    x = pd.Variable([None, None, 5])
    values = targets(as_list(*LAYERS[kind](x, H)))
    for batch, steps in [(3, 4), (1, 1), (50, 7), (0, 4), (2, 0)]:  # one program for all of them
        same(values, {x: floats(batch, steps, 5)})
    assert {*left} == {(2, 0)}


@pytest.mark.parametrize("kind", thinned(LAYERS, 2))
def test_layers_of_sequences_of_different_lengths(kind, left):
    x, lengths = pd.Variable([None, None, 5]), pd.Variable([None], dtype="int64")
    values = targets(as_list(*LAYERS[kind](x, H, bidirectional=True, lengths=lengths)))
    for n in [[3, 1, 4, 0], [7] * 30 + [1] * 5]:
        same(values, {x: floats(len(n), max(n), 5), lengths: np.array(n)})
    assert all(before > 0 and not after for before, after in left)


def peepholes():
    w, p = pd.Variable("w", data=floats(H, 4 * H)), pd.Variable("p", data=floats(3, H, seed=1))
    parts = [pd.squeeze(v, 0) for v in pd.split(p, [1] * 3)]

    def step(states, x):
        h, c = pd.lstm_cell(pd.matmul(states[0], w) + x, states[1], tuple(parts))
        return [h, c], h

    return step, 2, 4 * H


def other_activations():
    w = pd.Variable("w", data=floats(H, 4 * H))

    def step(states, x):
        gates, c = pd.matmul(states[0], w) + x, states[1]
        h, c = pd.lstm_cell(gates, c, None, pd.relu, pd.hard_sigmoid, pd.softsign)
        return [h, c], h * c

    return step, 2, 4 * H


def reset_before():
    w, v = pd.Variable("w", data=floats(H, 2 * H)), pd.Variable("v", data=floats(H, H, seed=1))

    def step(states, x):
        h = pd.gru_cell(x, states[0], w, v)
        return [h], h

    return step, 1, 3 * H


def no_product():
    decay = pd.Variable("decay", data=np.float32(0.9))

    def step(states, x):
        h = decay * states[0] + pd.tanh(x) * (1.0 - decay)
        return [h], pd.concat([h, x], axis=1)

    return step, 1, H


def some_columns():
    w = pd.Variable("w", data=floats(2, H))

    def step(states, x):
        first, x = pd.split(x, [1, H], axis=1)
        _, two, rest = pd.split(states[0], [1, 2, H - 3], axis=1)
        h = pd.sigmoid(pd.matmul(two, w) + x)
        return [h], pd.concat([first, rest * rest, two], axis=1)

    return step, 1, H + 1


CELLS = [peepholes, other_activations, reset_before, no_product, some_columns]


@pytest.mark.parametrize("cell, reverse", in_turn(CELLS, [False, True]), ids=words)
def test_cells_of_scans(cell, reverse, left):
    step, states, width = cell()
    x, init = pd.Variable([None, None, width]), pd.Variable([None, H])
    final, y = pd.scan(step, [init] * states, x, reverse)
    values = targets([*final, y])
    for steps, batch in [(3, 4), (2, 29)]:
        same(values, {x: floats(steps, batch, width), init: floats(batch, H, seed=2)})
    assert left == [(2, 0)]


def test_states_that_a_mask_keeps(left):
    x, lengths, w = pd.Variable([None, H]), pd.Variable([None], dtype="int64"), floats(H, H)
    sequences = pd.Segments(lengths)
    w = pd.Variable("w", data=w)

    def step(h, x):
        h = pd.relu(pd.matmul(h, w) + x)
        return h, h

    final, y = sequences.scan(step, sequences.zeros(H), x)
    same(targets([final, y]), {x: floats(9, H), lengths: np.array([2, 4, 0, 3])})
    assert left[0][0] == 2 and left[0][1] == 0


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_layers_train_as_those_of_pytorch(kind, left):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    order = {"lstm": [2, 0, 1, 3], "gru": [1, 0, 2]}[kind]  # of its gates in ours
    theirs = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](5, H, batch_first=True, bias=False)

    def ours(weight):
        parts = np.split(weight.detach().numpy(), len(order))
        return np.concatenate([parts[k] for k in order]).T.copy()

    weights = [pd.Variable(k, data=ours(v)) for k, v in theirs.named_parameters()]
    x, target = pd.Variable([None, None, 5]), pd.Variable([None, None, H])
    layer = {"lstm": pd.lstm, "gru": pd.gru}[kind]
    y, _ = layer(x, H, W=weights[0], R=weights[1], B=False)
    cost = pd.reduce_mean(pd.square(y - target))
    step = pd.AdamOptimizer(0.01).minimize(cost)
    optimizer = torch.optim.Adam(theirs.parameters(), 0.01)
    for k in range(3):
        batch, wanted = floats(7, 9, 5, seed=k), floats(7, 9, H, seed=k + 9)
        with pd.fused():
            found, _ = pd.eval([cost, step], {x: batch, target: wanted})
        loss = torch.nn.functional.mse_loss(theirs(torch.tensor(batch))[0], torch.tensor(wanted))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert found == pytest.approx(loss.item(), rel=1e-5)
    for mine, weight in zip(weights, theirs.parameters(), strict=True):
        np.testing.assert_allclose(mine.val(), ours(weight), rtol=0, atol=1e-5)
    assert left == [(2, 0)]


def test_special_values_spread_as_in_the_loop(left):
    x = pd.Variable([None, None, 5])
    values = targets([pd.lstm(x, H)[0], pd.gru(x, H)[0]])
    rng = np.random.default_rng(0)
    special = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0, 100, -100]
    for seed in range(4):
        data = floats(13, 5, 5, seed=seed)
        for v in special:
            data[rng.integers(0, 13), rng.integers(0, 5), rng.integers(0, 5)] = v
        for a, b in zip(*both(values, {x: data}), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert left == [(4, 0)]


@pytest.fixture
def layer(left):
    """An LSTM's input, its outputs, and the gradient of its input."""
    x = pd.Variable([None, None, 5])
    y, _ = pd.lstm(x, H)
    (dx,) = pd.gradients(pd.reduce_sum(y * y), [x])
    with pd.fused():
        yield x, [y, dx]


def test_a_sequence_has_the_same_bits_in_every_batch(layer):
    x, values = layer
    data = floats(75, 40, 5)
    whole = pd.eval(values, {x: data})
    for rows in (slice(0, 1), slice(3, 20), slice(30, 75)):
        for a, b in zip(whole, pd.eval(values, {x: data[rows]}), strict=True):
            assert np.array_equal(a[rows], b)


def test_threads_run_one_program_at_the_same_time(layer):
    x, values = layer
    feeds = [{x: floats(25 + 10 * k, 6 + k, 5, seed=k)} for k in range(3)]
    expected = [pd.eval(values, f) for f in feeds]
    session = pd.default_session()
    model = session.compiler  # compiled: the threads only run it
    failed = []

    def run(k):
        with session, pd.fused():
            for _ in range(10):
                for a, b in zip(expected[k], pd.eval(values, feeds[k]), strict=True):
                    if not np.array_equal(a, b):
                        failed.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and model is session.compiler


def test_rows_that_differ_are_an_error_of_the_run(left):
    step, _, width = reset_before()
    x, init = pd.Variable([None, None, width]), pd.Variable([None, H])
    final, _ = pd.scan(step, [init], x)
    with pd.fused():
        with pytest.raises(pd.BackendError, match=r"the same sizes: 5 and 4, that of axis 1 of "):
            pd.eval(final, {x: floats(3, 4, width), init: floats(5, H)})
        (h,) = pd.eval(final, {x: floats(3, 4, width), init: floats(4, H)})  # it goes on
    assert h.shape == (4, H)


def attention(states, x):
    h = states[0] * pd.softmax(states[0] + x, axis=1)
    return [h], h


def in_float64(states, x):
    h = pd.cast(pd.tanh(pd.cast(states[0], "float64")), "float32") + x
    return [h], h


def along_rows(states, x):
    h = pd.tanh(states[0] + x) - pd.reduce_mean(states[0], 0)
    return [h], h


def matrix_of_the_step(states, x):
    h = pd.matmul(states[0], pd.matmul(pd.transpose(x), x))
    return [h], h


@pytest.mark.parametrize("step", [attention, in_float64, along_rows, matrix_of_the_step])
def test_other_loops_stay(step, left):
    x, init = pd.Variable([None, None, H]), pd.Variable([None, H])
    final, y = pd.scan(step, [init], x)
    same([*final, y], {x: floats(3, 4, H), init: floats(4, H)})
    assert left == [(1, 1)]


def test_loops_with_large_matrices_stay(left, monkeypatch):
    monkeypatch.setattr(scans, "LOOP_BYTES", 4 * H * 4 * H - 1)
    x = pd.Variable([None, None, 5])
    same(targets([pd.simple_rnn(x, H)[0], pd.lstm(x, H)[0]]), {x: floats(3, 4, 5)})
    assert left == [(4, 2)]


@pytest.mark.parametrize("layer", [pd.nn.LSTM, pd.nn.GRU, pd.nn.RNN])
@pytest.mark.parametrize("batch", [0, 1, 2, 3, 30])
def test_inference(layer, batch, left):
    """Without gradients layers are loops, too, instead of the runtime's operators."""
    x = pd.Variable([None, None, 5])
    y, state = layer(19, num_layers=2, bidirectional=True)(x)
    same([y, *(state if isinstance(state, tuple) else [state])], {x: floats(batch, 4, 5)})
    assert left == [(4, 0)]


@pytest.mark.parametrize("layer", [pd.nn.RNN, pd.nn.GRU, pd.nn.LSTM])
def test_inference_with_lengths(layer):
    """All kinds of kernels: a Size reads what would be inside of a group."""
    x, lengths = pd.Variable([None, None, 5]), pd.Variable([None], dtype="int64")
    y = layer(4)(x, lengths=lengths)[0]
    same([y], {x: floats(3, 4, 5), lengths: np.array([1, 4, 0])})


def test_inference_with_large_matrices(left, monkeypatch):
    """The runtime's operators stay: reading the matrices is the limit."""
    monkeypatch.setattr(forms, "LOOP_BYTES", 4 * H * 4 * H - 1)
    x = pd.Variable([None, None, 5])
    same([pd.nn.LSTM(H)(x)[0]], {x: floats(3, 4, 5)})
    assert left == [(0, 0)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this CPU has no such kernels")
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v3"])
def test_code_for_other_processors(level, left, monkeypatch):
    """The widest vectors that every processor of tests has, and none of those."""
    options = lambda: {"flags": [f"-march={level}"]}  # noqa: E731
    monkeypatch.setattr(program, "FUSERS", [program.Fuser(scans.fuse, options)])
    x = pd.Variable([None, None, 5])
    same(targets([pd.lstm(x, 19)[0]]), {x: floats(30, 4, 5)})


def test_equal_layers_have_one_source():
    """Names, of layers or of values, do not decide what is compiled."""
    sources = []

    def fuse(model, kinds, equal):
        source, found = scans.fuse(model, kinds, equal)
        sources.append((source, found.loops, found.kinds))
        return source, found

    for name in ("a", "z"):
        with pytest.MonkeyPatch.context() as patch, pd.fresh():
            patch.setattr(program, "FUSERS", [program.Fuser(fuse)])
            patch.setattr(program, "_remembered", lambda name: None)
            pd.clear_programs()
            x = pd.Variable([None, None, H], name=f"{name}/x")
            y = pd.nn.LSTM(H, num_layers=2, name=f"{name}/lstm")(x)[0]
            with pd.fused():
                pd.eval(pd.gradients(pd.reduce_sum(y * y), [x]), {x: floats(2, 3, H)})
    assert sources[0] == sources[1]
    assert sources[0][1] == 4 and sources[0][2] == 3  # both forward loops are one


def test_memory_of_runs_is_freed(layer):
    resource = pytest.importorskip("resource")
    x, values = layer
    feeds = {x: floats(64, 40, 5)}

    def peak():
        for _ in range(100):
            pd.eval(values, feeds)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first = peak()
    assert peak() - first < 4096  # KiB; a run has 200 for itself


def test_a_step_may_have_one_number_of_each_row(left):
    x, kept = pd.Variable([None, None, H]), pd.Variable([None, None])
    w = pd.Variable("w", data=floats(H, H))

    def step(h, slices):
        x, kept = slices
        h = h + pd.unsqueeze(kept, 1) * (pd.tanh(pd.matmul(h, w) + x) - h)
        return h, h

    final, y = pd.scan(step, pd.zeros([pd.shape_of(x)[1], H]), [x, kept])
    same(targets([final, y]), {x: floats(5, 3, H), kept: floats(5, 3, seed=2)})
    assert left[0][0] >= 2
