"""Recurrent layers against PyTorch's, from the same weights: values and gradients."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import thinned

B, T, F, H = 3, 5, 4, 3
LENGTHS = np.array([3, 5, 1])
ORDER = {"RNN": [0], "LSTM": [2, 0, 1, 3], "GRU": [1, 0, 2]}  # of PyTorch's gates in ours
STATES = {"RNN": 1, "LSTM": 2, "GRU": 1}
KINDS = pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "relu"])


def layers_of(kind, num_layers, bidirectional):
    """Return our layer, PyTorch's, and the kind that names both."""
    torch = pytest.importorskip("torch")
    act, kind = ("relu", "RNN") if kind == "relu" else ("tanh", kind)
    options = {"num_layers": num_layers, "bidirectional": bidirectional}
    theirs = {"nonlinearity": act} if kind == "RNN" else {}
    ours = {"act": act} if kind == "RNN" else {}
    theirs = getattr(torch.nn, kind)(F, H, batch_first=True, **options, **theirs)
    return getattr(pd.nn, kind)(H, name="layer", **options, **ours), theirs, kind


def in_our_order(kind, array):
    parts = np.split(array, len(ORDER[kind]))
    return np.concatenate([parts[k] for k in ORDER[kind]])


def from_torch(kind, arrays):
    """Return parameters, or their gradients, under our names; {PyTorch's name: array}."""
    values = {}
    for name, array in arrays.items():
        role, _, suffix = name.rpartition("_l")
        key, array = f"_l{suffix}", in_our_order(kind, array)
        if role.startswith("weight"):
            values[("W" if role == "weight_ih" else "R") + key] = array.T
        else:
            values[role + key] = array
    for name in [name for name in values if name.startswith("bias_ih")]:
        key = name.removeprefix("bias_ih")
        ours, theirs = values.pop(name), values.pop("bias_hh" + key)
        values["B" + key] = (ours, theirs)
    return values


def loaded(kind, arrays):
    """Merge PyTorch's two biases."""
    values = from_torch(kind, arrays)
    for name, value in values.items():
        if name[0] == "B":
            a, b = value
            gru = kind == "GRU"
            values[name] = (
                np.concatenate([a[: 2 * H] + b[: 2 * H], a[-H:], b[-H:]]) if gru else a + b
            )
    return values


def slopes(kind, arrays):
    """Return PyTorch's gradients: either of two added biases has the gradient of the sum."""
    values = from_torch(kind, arrays)
    for name, value in values.items():
        if name[0] == "B":
            a, b = value
            values[name] = np.concatenate([a, b[-H:]]) if kind == "GRU" else a
    return values


def run_torch(net, x, states, lengths, weights):
    """Return values, and gradients of x, of states and of parameters, for weights of the values."""
    torch = pytest.importorskip("torch")
    rnn = torch.nn.utils.rnn
    x = torch.tensor(x, requires_grad=True)
    states = [torch.tensor(s, requires_grad=True) for s in states]
    rows = x
    if lengths is not None:
        rows = rnn.pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted=False)
    first = None if not states else tuple(states) if len(states) == 2 else states[0]
    y, final = net(rows, first)
    if lengths is not None:
        y, _ = rnn.pad_packed_sequence(y, batch_first=True, total_length=T)
    values = [y, *(final if isinstance(final, tuple) else [final])]
    sum((v * torch.tensor(w)).sum() for v, w in zip(values, weights, strict=True)).backward()
    parameters = {name: p.grad.numpy() for name, p in net.named_parameters()}
    arrays = [v.detach().numpy() for v in values]
    return arrays, [v.grad.numpy() for v in (x, *states)], parameters


STACKS = itertools.product(
    KINDS.args[1], [(1, False), (1, True), (2, True)], [None, LENGTHS], [False, True]
)


@pytest.mark.parametrize("kind, stack, lengths, given", thinned(STACKS, 5))
def test_same_as_pytorch(kind, stack, lengths, given, rng):
    """`given`: the first state is, not zeros."""
    num_layers, bidirectional = stack
    ours, theirs, kind = layers_of(kind, num_layers, bidirectional)
    ours.load_dict(loaded(kind, {n: p.detach().numpy() for n, p in theirs.named_parameters()}))
    count = num_layers * (2 if bidirectional else 1)
    x, sizes = pd.Variable([None, None, F]), pd.Variable([None], dtype="int64")
    states = [pd.Variable([count, None, H]) for _ in range(STATES[kind] if given else 0)]
    first = None if not given else states if len(states) == 2 else states[0]
    y, final = ours(x, first, None if lengths is None else sizes)
    values = [y, *(final if isinstance(final, tuple) else [final])]
    weights = [pd.Variable([None] * 3) for _ in values]
    total = sum(pd.reduce_sum(v * w) for v, w in zip(values, weights, strict=True))
    names, parameters = zip(*ours.named_parameters(), strict=True)
    gradients = pd.gradients(total, [x, *states, *parameters])
    assert y.shape == (None, None, H * count // num_layers)
    assert [v.shape for v in values[1:]] == [(count, None, H)] * STATES[kind]

    arrays = [rng.standard_normal(s).astype("float32") for s in [(B, T, F)] + [(count, B, H)] * 2]
    factors = [rng.standard_normal(s).astype("float32") for s in [(B, T, H * count // num_layers)]]
    factors += [rng.standard_normal((count, B, H)).astype("float32") for _ in values[1:]]
    feeds = dict(zip([x, *states], arrays, strict=False)) | dict(zip(weights, factors, strict=True))
    feeds |= {} if lengths is None else {sizes: lengths}
    got = pd.eval([*values, *gradients], feeds=feeds)
    wanted, inputs, rest = run_torch(
        theirs, arrays[0], arrays[1 : 1 + len(states)], lengths, factors
    )
    rest = slopes(kind, rest)
    for a, b in zip(got, [*wanted, *inputs, *(rest[name] for name in names)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("lengths", [[0, 0, 0], [0, 5, 1]])
@pytest.mark.parametrize("kind", ["LSTM", "relu"])
def test_an_empty_sequence_keeps_its_initial_state(kind, lengths, rng):
    layer, _, kind = layers_of(kind, 1, True)
    states = [np.full((2, B, H), k + 1, "float32") for k in range(STATES[kind])]
    x = rng.standard_normal((B, T, F)).astype("float32")
    y, final = layer(x, states if len(states) == 2 else states[0], np.array(lengths))
    final = final if isinstance(final, tuple) else [final]
    (gradient,) = pd.gradients(
        pd.reduce_sum(y) + sum(map(pd.reduce_sum, final)), layer.parameters()[:1]
    )
    y, gradient, *final = pd.eval([y, gradient, *final])
    assert np.isfinite(gradient).all()
    for k, length in enumerate(lengths):
        assert (y[k, length:] == 0).all()
        assert all(
            (f[:, k] == s[:, k]).all() == (length == 0) for f, s in zip(final, states, strict=True)
        )


def test_padding_is_not_read(rng):
    x = rng.standard_normal((B, T, F)).astype("float32")
    beyond = np.arange(T) >= LENGTHS[:, None]
    layer, slot = pd.nn.LSTM(H, bidirectional=True), pd.Variable([None, None, F])
    y, (h, _) = layer(slot, lengths=LENGTHS)
    total = pd.reduce_sum(pd.square(y)) + pd.reduce_sum(h)
    targets = [y, *pd.gradients(total, [slot, *layer.parameters()])]
    results = []
    for filler in (0.0, np.nan):
        x[beyond] = filler
        results.append(pd.eval(targets, feeds={slot: x}))
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("length", [-1, T + 1])
def test_a_length_outside_of_the_batch_is_an_error(length):
    x, sizes = pd.Variable([None, None, F]), pd.Variable([None], dtype="int32", name="sizes")
    y, _ = pd.nn.GRU(H)(x, lengths=sizes)
    with pytest.raises(pd.OutOfRange, match=rf"^sizes: {length} in row 0 is outside 0 … {T}\n"):
        pd.eval(y, feeds={x: np.zeros((1, T, F), "float32"), sizes: [length]})


def test_dropout_is_between_layers_in_training(rng):
    x = pd.constant(rng.standard_normal((B, T, F)))
    one, two = pd.nn.GRU(H, dropout=0.9), pd.nn.GRU(H, num_layers=2, dropout=0.9)
    alone, stacked = one(x)[0], two(x)[0]
    np.testing.assert_allclose(pd.eval(alone), pd.eval(alone, training=True), atol=1e-6)
    assert not np.array_equal(pd.eval(stacked), pd.eval(stacked, training=True))
    below, above = pd.nn.GRU(H), pd.nn.GRU(H)
    pd.eval(above(below(x)[0])[0])
    values = {
        name.replace("l0", f"l{k}"): v
        for k, r in enumerate((below, above))
        for name, v in r.state_dict().items()
    }
    two.load_dict(values)
    assert np.allclose(pd.eval(stacked), pd.eval(above(below(x)[0])[0]), atol=1e-6)


def test_functions_and_layers_compute_the_same(rng):
    x = pd.constant(rng.standard_normal((B, T, F)))
    for function, layer in (
        (pd.simple_rnn, pd.nn.RNN(H, num_layers=2, bidirectional=True)),
        (pd.lstm, pd.nn.LSTM(H, num_layers=2, bidirectional=True)),
        (pd.gru, pd.nn.GRU(H, num_layers=2, bidirectional=True)),
    ):
        wanted, _ = layer(x)
        by_role = {r: [v for n, v in layer.named_parameters() if n[0] == r] for r in "WRB"}
        y, _ = function(x, H, num_layers=2, bidirectional=True, **by_role)
        assert np.array_equal(*pd.eval([y, wanted]))


def test_functions_create_named_parameters():
    pd.lstm(pd.Variable([None, None, F]), H, bidirectional=True, B=False)
    names = {v.name: v.shape for v in pd.trainable_variables()}
    assert names == {
        "lstm_0.W_l0": (F, 4 * H),
        "lstm_0.R_l0": (H, 4 * H),
        "lstm_0.W_l0_reverse": (F, 4 * H),
        "lstm_0.R_l0_reverse": (H, 4 * H),
    }


def test_an_lstm_learns_where_its_sequences_end(rng):
    """The sum of a sequence's first feature is learned from padded batches."""
    x, sizes, target = (
        pd.Variable([None, None, 1]),
        pd.Variable([None], dtype="int64"),
        pd.Variable([None, 1]),
    )
    _, (h, _) = pd.nn.LSTM(8)(x, lengths=sizes)
    loss = pd.nn.MSE()(pd.fc(pd.squeeze(h, [0]), 1), target)
    update = pd.AdamOptimizer(0.02).minimize(loss)
    losses = []
    for _ in range(150):
        rows, lengths = rng.uniform(-1, 1, (16, 6, 1)).astype("float32"), rng.integers(1, 7, 16)
        sums = (rows[:, :, 0] * (np.arange(6) < lengths[:, None])).sum(1, keepdims=True)
        losses.append(pd.eval([update, loss], feeds={x: rows, sizes: lengths, target: sums})[1])
    assert np.mean(losses[-10:]) < 0.1 * np.mean(losses[:10])


# uint8 has no -1
WRONG = [(7, "int64"), (-1, "int64"), (7, "uint8")]
WRONG = [(x, *each) for x in (pd.nn.RNN, pd.nn.GRU, pd.nn.LSTM) for each in WRONG]


@pytest.mark.parametrize("layer, length, kind", thinned(WRONG, 4))
def test_lengths_beyond_the_padding(layer, length, kind, rng):
    values, wrong = rng.standard_normal((3, 6, F)).astype("f"), np.array([2, length, 6], kind)
    words = rf": {length} in row 1 is outside 0 … 6"
    x, sizes = pd.Variable([None, None, F]), pd.Variable([None], dtype=kind, name="lengths")
    options = {"bidirectional": True}
    y, _ = layer(H, **options)(x, lengths=sizes)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(y))
    for target in (y, step):
        with pytest.raises(pd.OutOfRange, match=f"^lengths{words}"):
            pd.eval(target, {x: values, sizes: wrong})
    fed = {x: values[None], sizes: wrong[None]}
    with pytest.raises(pd.OutOfRange, match=f"^step 0: lengths{words}"):
        pd.run_steps([step], fed)
    with pytest.raises(pd.OutOfRange, match=words):
        layer(H, **options)(pd.constant(values), lengths=wrong)[0].eval()
    with pd.guard(), pytest.raises(pd.OutOfRange, match=words):
        layer(H, **options)(pd.to_variable(values), lengths=wrong)[0].numpy()


@pytest.mark.parametrize("lengths", [[1, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("layer", [pd.nn.RNN, pd.nn.GRU, pd.nn.LSTM])
def test_a_length_for_each_sequence(layer, lengths):
    words = f"3 sequences, but {len(lengths)} lengths"
    values = np.ones((3, 6, F), "f")
    with pytest.raises(pd.ShapeError, match=words):
        layer(H)(values, lengths=np.array(lengths))
    with pd.guard(), pytest.raises(pd.ShapeError, match=words):
        layer(H)(pd.to_variable(values), lengths=pd.to_variable(np.array(lengths)))


def test_errors_of_recurrent_layers():
    x = pd.Variable([None, None, F])
    with pytest.raises(
        pd.ShapeError, match=r"lstm: takes sequences \[B, T, F\] with known F, not float32\[\?, 4\]"
    ):
        pd.nn.LSTM(H)(pd.Variable([None, F]))
    with pytest.raises(
        pd.ShapeError, match=r"initial state is \[2, B, 3\], not float32\[1, \?, 3\]"
    ):
        pd.nn.GRU(H, num_layers=2)(x, pd.Variable([1, None, H]))
    with pytest.raises(pd.GraphError, match="2 initial states, not 1"):
        pd.nn.LSTM(H)(x, pd.Variable([1, None, H]))
    with pytest.raises(pd.DTypeError, match=r"lengths are integers \[B\], not float32"):
        pd.nn.LSTM(H)(x, lengths=pd.Variable([None]))
    with pytest.raises(
        pd.GraphError, match="simple_rnn: the activation is tanh or relu, not 'sin'"
    ):
        pd.nn.RNN(H, act="sin")(x)
    with pytest.raises(
        pd.GraphError, match="LSTM: hidden and num_layers are positive, not 3 and 0"
    ):
        pd.nn.LSTM(H, num_layers=0)
    with pytest.raises(pd.GraphError, match="gru: R has 1 parts for 2 layers and directions"):
        pd.gru(x, H, num_layers=2, R=["a"])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("stack", [(1, False), (2, True)], ids=str)
def test_projections_are_those_of_pytorch(stack, rng):
    torch = pytest.importorskip("torch")
    num_layers, bidirectional = stack
    options = {"num_layers": num_layers, "bidirectional": bidirectional, "proj_size": 2}
    theirs = torch.nn.LSTM(F, H, batch_first=True, **options)
    ours = pd.nn.LSTM(H, **options)
    pd.interchange.from_pytorch(ours, theirs.state_dict())
    count = num_layers * (1 + bidirectional)
    arrays = [(B, T, F), (count, B, 2), (count, B, H)]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in arrays]
    x, h, c = slots = [pd.Variable([a.shape[0], None, a.shape[2]]) for a in arrays]
    targets, wanted = [], []
    for lengths, given in ((None, False), (None, True), (LENGTHS, True)):
        y, (last, memory) = ours(x, (h, c) if given else None, lengths)
        assert y.shape[2] == 2 * (1 + bidirectional)
        names, parameters = zip(*ours.named_parameters(), strict=True)
        weights = [np.arange(1.0, 1.0 + v.shape[-1]) for v in (y, last, memory)]
        total = sum(pd.reduce_sum(v * w) for v, w in zip((y, last, memory), weights, strict=True))
        slopes = pd.gradients(total, [x, *([h, c] if given else []), *parameters])
        targets += [y, last, memory, *slopes]
        theirs.zero_grad()
        factors = [np.broadcast_to(w, (1, 1, len(w))).astype("float32") for w in weights]
        values, inputs, rest = run_torch(theirs, arrays[0], arrays[1:] * given, lengths, factors)
        projections = {k: v for k, v in rest.items() if "weight_hr" in k}
        rest = from_torch("LSTM", {k: v for k, v in rest.items() if k not in projections})
        rest |= {k: v[0] for k, v in rest.items() if k[0] == "B"}
        rest |= {k.replace("weight_hr", "P"): v.T for k, v in projections.items()}
        wanted += [*values, *inputs, *(rest[name] for name in names)]
    found = pd.eval(targets, dict(zip(slots, arrays, strict=True)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    back = pd.interchange.to_pytorch(ours)
    assert (back["weight_hr_l0"] == theirs.weight_hr_l0.detach().numpy()).all()


def test_a_projection_is_narrower_than_the_state():
    for size in (3, -1):
        with pytest.raises(pd.GraphError, match=f"LSTM: proj_size is below hidden, 3, not {size}"):
            pd.nn.LSTM(3, proj_size=size)
        with pytest.raises(pd.GraphError, match="lstm: proj_size is below hidden, 3, not"):
            pd.lstm(pd.Variable([None, None, F]), 3, proj_size=size)
    layer = pd.nn.LSTM(3, proj_size=2)
    assert repr(layer).endswith("LSTM(3, num_layers=1, proj_size=2)")
    with pytest.raises(pd.ShapeError, match=r"an initial state is \[1, B, 2\], not"):
        layer(pd.Variable([2, None, F]), (np.zeros((1, 2, 3)), np.zeros((1, 2, 3))))
