"""Which stored tensors of a file are trained by default, and how a user overrides it."""

import io
import math
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pd_core as pd
from pd_core.backend import ort

RATE = 0.05


def model_of(nodes, tensors, inputs, outputs, opset=17):
    """A model of nodes (operator, inputs, outputs, attributes) and stored arrays by name."""
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), o.split(), **a) for op, i, o, a in map(padded, nodes)],
        "weights",
        [helper.make_tensor_value_info(n, kinds[t], d) for n, (t, d) in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs.split()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def padded(node):
    return (*node, {}) if len(node) == 3 else node


def normal(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def trained(f):
    return {name for name, v in f.parameters.items() if v.trainable}


def step_on(f, feeds, **options):
    """Compare outputs with ONNX Runtime; return them and the names that a training step changed."""
    slots = {n: pd.Variable([None, *a.shape[1:]], dtype=a.dtype) for n, a in feeds.items()}
    y = f(**slots, **options)
    y = y[0] if isinstance(y, tuple) else y
    fed = {slots[n]: a for n, a in feeds.items()}
    found = pd.eval(y, fed)
    before = {n: v.val() for n, v in f.parameters.items()}
    pd.eval(pd.SGDOptimizer(RATE).minimize(pd.reduce_sum(pd.sin(y))), fed)
    return found, {n for n, v in f.parameters.items() if (v.val() != before[n]).any()}


def checked(model, feeds, weights):
    """Check that these weights are trained and no others, and that outputs equal ONNX Runtime's."""
    f = pd.import_onnx(model)
    assert trained(f) == set(weights)
    found, changed = step_on(f, feeds)
    assert changed == set(weights)
    wanted = ort.session(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-4, atol=1e-5)
    return f


def attention(rng):
    """One head with a scale, a causal mask and a table of positions, as exporters write it."""
    mask = np.triu(np.full((5, 5), -1e9, "float32"), 1)[None]
    tensors = {
        **{n: normal(rng, 8, 8) for n in ("q.w", "k.w", "v.w")},
        **{n: normal(rng, 8) for n in ("q.b", "gain", "offset")},
        "tokens": normal(rng, 11, 8),
        "positions": normal(rng, 1, 5, 8),
        "root": np.array([8.0], "float32"),
        "mask": mask,
    }
    nodes = [
        ("Gather", "tokens ids", "e"),
        ("Add", "e positions", "h"),
        ("LayerNormalization", "h gain offset", "n"),
        *[("MatMul", f"n {k}.w", f"{k}0") for k in "qkv"],
        ("Add", "q0 q.b", "q1"),
        ("Transpose", "k0", "k1", {"perm": [0, 2, 1]}),
        ("MatMul", "q1 k1", "s0"),
        ("Div", "s0 root", "s1"),
        ("Add", "s1 mask", "s2"),
        ("Softmax", "s2", "p"),
        ("MatMul", "p v0", "y"),
    ]
    return model_of(nodes, tensors, {"ids": ("int64", ["N", 5])}, "y")


def test_scales_and_masks_are_no_weights(rng):
    weights = ["q.w", "k.w", "v.w", "tokens", "positions", "q.b", "gain", "offset"]
    checked(attention(rng), {"ids": rng.integers(0, 11, (3, 5))}, weights)


def test_the_table_of_decisions(rng):
    f = pd.import_onnx(attention(rng), frozen="v.*")
    lines = f.summary().splitlines()
    assert lines[0].split() == ["name", "shape", "dtype", "use", "trained"]
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:-3]}
    assert rows["q.w"] == "[8, 8] float32 MatMul weight yes"
    assert rows["q.b"] == "[8] float32 Add bias yes"
    assert rows["v.w"] == "[8, 8] float32 MatMul weight no: frozen"
    assert rows["positions"] == "[1, 5, 8] float32 Add shift yes"
    assert rows["mask"] == "[1, 5, 5] float32 Add operand no: a mask"
    assert "root" not in rows  # a single number
    assert lines[-3:] == [
        "trained: 7 tensors, 280 elements, 1,120 bytes",
        "not trained: 1 tensors, 64 elements, 256 bytes",
        "constants: 2 tensors, 26 elements, 104 bytes, of which 1 are single numbers",
    ]
    f.freeze()
    assert "trained: 0 tensors, 0 elements" in f.summary()


def test_the_user_decides(rng):
    model = attention(rng)
    with pd.fresh():
        f = pd.import_onnx(model, trainable=["mask", "root"], frozen=["q.*", "tokens"])
        assert trained(f) == {"k.w", "v.w", "positions", "gain", "offset", "mask", "root"}
    with pd.fresh():
        f = pd.import_onnx(model, trainable="q.*", frozen="*")
        assert trained(f) == {"q.w", "q.b"}
        f.unfreeze("k.w", "g*")
        assert trained(f) == {"q.w", "q.b", "k.w", "gain"}
        f.freeze("q.w")
        assert trained(f) == {"q.b", "k.w", "gain"}
        _, changed = step_on(f, {"ids": rng.integers(0, 11, (3, 5))})
        assert changed == trained(f)
        f.unfreeze()
        assert len(trained(f)) == 8
        f.freeze()
        assert not trained(f)
        who = "unfreeze: 'mask' is no parameter but Add operand, a mask"
        with pytest.raises(pd.ModelError, match=rf"{who}\n.*trainable=\['mask'\]"):
            f.unfreeze("mask")
        with pytest.raises(pd.ModelError, match=r"freeze: no parameter matches 'z\*'"):
            f.freeze("z*")
    with (
        pd.fresh(),
        pytest.raises(pd.ModelError, match="'z' matches no stored tensor that could be"),
    ):
        pd.import_onnx(model, frozen=["z"])
    with pd.fresh():
        assert not trained(pd.import_onnx(model, trainable=False))


# ---- where weights are stored


def test_weights_in_constant_nodes(rng):
    """As Paddle's exporter writes them."""
    filters, scale = normal(rng, 4, 3, 3, 3), [rng.uniform(0.5, 1.5, 4).astype("float32")] * 4
    values = dict(zip(("s", "b", "m", "v"), scale, strict=True))
    values |= {"w": filters, "three": np.float32(3.0), "six": np.array([6.0], "float32")}
    nodes = [
        *[("Constant", "", n, {"value": numpy_helper.from_array(a)}) for n, a in values.items()],
        ("Conv", "x w", "c"),
        ("BatchNormalization", "c s b m v", "n"),
        ("Add", "n three", "a"),
        ("Clip", "a", "r"),
        ("Div", "r six", "d"),
        ("Mul", "n d", "y"),
    ]
    model = model_of(nodes, {}, {"x": ("float32", ["N", 3, 6, 6])}, "y")
    f = checked(model, {"x": normal(rng, 2, 3, 6, 6)}, ["w", "s", "b"])
    assert set(f.parameters) == {"w", "s", "b", "m", "v"}
    f.unfreeze("*")
    assert trained(f) == {"w", "s", "b"}
    with pytest.raises(pd.ModelError, match="'m' is no parameter but BatchNormalization statistic"):
        f.unfreeze("m")
    with pd.fresh():
        f = pd.import_onnx(model, training=True)
        _, changed = step_on(f, {"x": normal(rng, 2, 3, 6, 6)})
        assert changed == {"w", "s", "b", "m", "v"}


def test_weights_in_branches(rng):
    """Each branch has its own tensor under the same name."""

    def body(name, seed):
        w = numpy_helper.from_array(normal(np.random.default_rng(seed), 3, 2), "w")
        b = numpy_helper.from_array(normal(np.random.default_rng(seed + 1), 2))
        nodes = [
            helper.make_node("Constant", [], ["b"], value=b),
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Add", ["m", "b"], [name]),
        ]
        y = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [y], [w])

    nodes = [("If", "c", "y", {"then_branch": body("t", 1), "else_branch": body("e", 3)})]
    model = model_of(nodes, {}, {"x": ("float32", ["N", 3]), "c": ("bool", [])}, "y")
    f = pd.import_onnx(model)
    assert len(trained(f)) == 4
    x, c = pd.Variable([None, 3]), pd.Variable.of((), "bool", "c")
    y = f(x, c)
    step = pd.SGDOptimizer(RATE).minimize(pd.reduce_sum(pd.sin(y)))
    rows = normal(rng, 4, 3)
    session = ort.session(model.SerializeToString())
    for chosen in (True, False):
        wanted = session.run(None, {"x": rows, "c": np.array(chosen)})[0]
        np.testing.assert_allclose(pd.eval(y, {x: rows, c: chosen}), wanted, rtol=1e-5)
    before = {n: v.val() for n, v in f.parameters.items()}
    pd.eval(step, {x: rows, c: True})
    changed = {n for n, v in f.parameters.items() if (v.val() != before[n]).any()}
    assert len(changed) == 2


def quantized(rng, symmetric=True):
    """A product with int8 weights and a bias of int32, its input rounded to int8 too."""
    weight = normal(rng, 6, 4)
    scale = (np.abs(weight).max(0) / 127).astype("float32")
    tensors = {
        "w": np.round(weight / scale).astype("int8"),
        "w.scale": scale,
        "w.zero": np.zeros(4, "int8"),
        "x.scale": np.float32(0.02),
        "x.zero": np.int8(0 if symmetric else 7),
        "b": rng.integers(-100, 100, 4).astype("int32"),
        "b.scale": (scale * 0.02).astype("float32"),
    }
    nodes = [
        ("QuantizeLinear", "h x.scale x.zero", "hq"),
        ("DequantizeLinear", "hq x.scale x.zero", "hd"),
        ("DequantizeLinear", "w w.scale w.zero", "wd", {"axis": 1}),
        ("DequantizeLinear", "b b.scale", "bd", {"axis": 0}),
        ("MatMul", "hd wd", "m"),
        ("Add", "m bd", "y"),
    ]
    return nodes, tensors


def test_weights_stored_as_integers_are_trained_as_floats(rng):
    nodes, tensors = quantized(rng)
    tensors["first"] = normal(rng, 5, 6) * 0.3
    model = model_of(
        [("MatMul", "x first", "h"), *nodes], tensors, {"x": ("float32", ["N", 5])}, "y"
    )
    feeds = {"x": normal(rng, 3, 5)}
    f = checked(model, feeds, ["first", "w", "b"])
    np.testing.assert_allclose(
        f.parameters["w"].initial((6, 4), None), tensors["w"] * tensors["w.scale"], rtol=1e-6
    )
    with pd.fresh():
        f = pd.import_onnx(model, trainable=False)  # and as they are where nothing is trained
        assert set(f.parameters) == {"first"}
        x = pd.Variable([None, 5])
        stored = pd.export_onnx(None, f(x)).graph.initializer
        assert TensorProto.INT8 in {t.data_type for t in stored}


def test_integer_weights_are_found_if_the_domain_is_spelled_out(rng):
    nodes, tensors = quantized(rng)
    model = model_of([("Identity", "x", "h"), *nodes], tensors, {"x": ("float32", ["N", 6])}, "y")
    for node in model.graph.node:
        node.domain = "ai.onnx"
    assert set(pd.import_onnx(model).parameters) == {"w", "b"}


@pytest.mark.parametrize("symmetric", [True, False])
def test_rounding_lets_gradients_through_where_it_does_not_clip(symmetric, rng):
    nodes, tensors = quantized(rng, symmetric)
    model = model_of([("Identity", "x", "h"), *nodes], tensors, {"x": ("float32", ["N", 6])}, "y")
    x = pd.Variable([None, 6])
    (g,) = pd.gradients(pd.import_onnx(model)(x), [x])
    rows = np.array([[0.5, -0.5, 2.5, -2.6, -2.65, 99.0]], "float32")
    zero = int(tensors["x.zero"])
    inside = (rows >= (-128 - zero) * 0.02) & (rows <= (127 - zero) * 0.02)
    slopes = (tensors["w"] * tensors["w.scale"]).sum(1)
    np.testing.assert_allclose(pd.eval(g, {x: rows}), np.where(inside, slopes, 0), rtol=1e-5)


def test_equal_statistics_are_stored_once_and_moved_apart(rng):
    """Exporters write layers of equal statistics with one tensor, and Identity for the others."""
    tensors = {"w": normal(rng, 3, 3, 1, 1), "ones": np.ones(3, "float32")}
    tensors["zeros"] = np.zeros(3, "float32")
    copies = [(n, f"{n}2") for n in ("ones", "zeros")]
    nodes = [
        *[("Identity", a, b) for a, b in copies],
        ("Conv", "x w", "a"),
        ("BatchNormalization", "a ones zeros zeros ones", "b"),
        ("Conv", "b w", "c"),
        ("BatchNormalization", "c ones2 zeros2 zeros2 ones2", "y"),
    ]
    model = model_of(nodes, tensors, {"x": ("float32", ["N", 3, 4, 4])}, "y")
    f = pd.import_onnx(model, training=True)
    _, changed = step_on(f, {"x": normal(rng, 4, 3, 4, 4)})
    assert changed == set(f.parameters) and len(changed) == 9  # w, and four for each layer


# ---- values that were computed


def test_what_was_computed_stays(rng):
    """Filter banks, bases, windows and tables as inputs that weights usually have."""
    n = np.arange(16)
    window = np.pad(np.hanning(13), (1, 2))  # shorter than the frame, as speech features have it
    waves = [f(2 * np.pi * k * n / 16) * window for f in (np.cos, np.sin) for k in range(1, 8)]
    centres = np.linspace(0, 13, 6)
    bank = np.maximum(0, 1 - np.abs(np.arange(14)[:, None] - centres) / 1.5)
    place, rate = np.arange(32)[:, None], 100.0 ** (-np.arange(4) / 4)
    tensors = {
        "basis": np.stack(waves)[:, None],
        "sinc": (np.sinc(np.arange(-6, 7) / 2) * np.hamming(13))[None, None],
        "mel": bank,
        "mean": rng.standard_normal(6),
        "first": rng.standard_normal((6, 8)),
        "bias": np.zeros(8),
        "places": np.concatenate([np.sin(place * rate), np.cos(place * rate)], 1),
        "grid": rng.integers(1, 9, (2, 8)) * 0.5,
        "last": rng.standard_normal((8, 3)),
        "deviation": rng.uniform(1, 2, 3),
    }
    nodes = [
        ("Conv", "x sinc", "r", {"pads": [6, 6]}),
        ("Conv", "r basis", "s", {"strides": [16]}),
        ("Abs", "s", "a"),
        ("Transpose", "a", "t", {"perm": [0, 2, 1]}),
        ("MatMul", "t mel", "m0"),
        ("Sub", "m0 mean", "m"),
        ("MatMul", "m first", "h0"),
        ("Add", "h0 bias", "h1"),
        ("Constant", "", "two", {"value_ints": [2]}),
        ("Constant", "", "none", {"value_ints": [0]}),
        ("Constant", "", "one", {"value_ints": [1]}),
        ("Slice", "places none two none", "seen"),
        ("Add", "h1 seen", "h2"),
        ("Mul", "h2 grid", "h3"),
        ("MatMul", "h3 last", "z"),
        ("Mul", "z deviation", "y"),
    ]
    tensors = {k: np.asarray(a, "float32") for k, a in tensors.items()}
    model = model_of(nodes, tensors, {"x": ("float32", ["N", 1, 32])}, "y")
    f = checked(model, {"x": normal(rng, 2, 1, 32)}, ["first", "bias", "last"])
    reasons = {
        "sinc": "symmetric filters",
        "basis": "waves in a window",
        "mel": "a filter bank",
        "mean": "operand 1 of Sub, which holds no weights",
        "places": "samples of sinusoids or lines",
        "grid": "whole numbers",
        "deviation": "no weights behind it",
    }
    for name, why in reasons.items():
        (line,) = [row for row in f.summary().splitlines() if row.startswith(f"{name} ")]
        assert line.endswith(f"no: {why}")


def test_one_number_may_be_a_weight(rng):
    """A line through points: a matrix and a bias of one element each, and a number that is none."""
    tensors = {"w": normal(rng, 1, 1), "b": normal(rng, 1), "half": np.float32([0.5])}
    nodes = [("MatMul", "x w", "m"), ("Add", "m b", "z"), ("Mul", "z half", "y")]
    model = model_of(nodes, tensors, {"x": ("float32", ["N", 1])}, "y")
    checked(model, {"x": normal(rng, 4, 1)}, ["w", "b"])


def test_gates_that_are_cut_by_the_size_of_a_value(rng):
    """A recurrence whose stored gates are put into ONNX's order, as PyTorch's exporter does."""
    tensors = {
        **{name: normal(rng, 9, 3) for name in "wr"},
        **{name: normal(rng, 9) for name in ("b", "rb")},
    }
    nodes = [
        ("Constant", "", "zero", {"value_ints": [0]}),
        ("Constant", "", "two", {"value_ints": [2]}),
        ("Constant", "", "all", {"value_ints": [99]}),
        ("Transpose", "x", "steps", {"perm": [1, 0, 2]}),
        ("Shape", "x", "sizes", {"start": 2}),
    ]
    for name in "wrb":  # exchange the first gate with the two others
        nodes += [
            ("Slice", f"{name} zero sizes zero", f"{name}1"),
            ("Slice", f"{name} sizes all zero", f"{name}2"),
            ("Concat", f"{name}2 {name}1", f"{name}3", {"axis": 0}),
        ]
    nodes += [
        ("Concat", "b3 rb", "both", {"axis": 0}),
        *(("Unsqueeze", f"{n} zero", f"{n}4") for n in ("w3", "r3", "both")),
        ("GRU", "steps w34 r34 both4", "h last", {"hidden_size": 3}),
        ("Squeeze", "last zero", "y"),
    ]
    model = model_of(nodes, tensors, {"x": ("float32", [2, 5, 3])}, "y")
    checked(model, {"x": normal(rng, 2, 5, 3)}, ["w", "r", "b", "rb"])


# ---- what PyTorch trains is what is trained here


def encoder(torch, nn):
    class Encoder(nn.Module):
        """Tokens, positions, a causal mask, rotated keys, a scale for each feature, tied output."""

        def __init__(self, width=16):
            super().__init__()
            self.tokens = nn.Embedding(20, width)
            self.first = nn.Parameter(torch.randn(1, 1, width))
            self.places = nn.Parameter(torch.randn(1, 8, width) * 0.02)
            self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.gain = nn.Parameter(torch.rand(width))
            self.head = nn.Linear(width, 20, bias=False)
            angle = torch.arange(8)[:, None] * 100.0 ** (-torch.arange(width) / width)
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())
            self.register_buffer("mask", torch.full((8, 8), float("-inf")).triu(1))

        def forward(self, x):
            h = torch.cat([self.first.expand(x.shape[0], -1, -1), self.tokens(x)], 1) + self.places
            q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
            q, k = (z * self.cos + z.flip(-1) * self.sin for z in (q, k))
            seen = (q @ k.transpose(1, 2) / math.sqrt(16) + self.mask).softmax(-1) @ v
            return self.head(self.last(h + self.gain * self.out(seen)))

    return Encoder(), torch.randint(0, 20, (3, 7))


def image_network(torch, nn):
    network = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU()),
        *(nn.Conv2d(8, 8, 3, groups=8), nn.PReLU(8), nn.ConvTranspose2d(8, 4, 2, 2)),
        *(nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.Linear(4 * 144, 3)),
    )
    for p in network.parameters():
        nn.init.uniform_(p, 0.1, 0.9)
    return network, torch.randn(2, 1, 8, 8)


def recurrent(torch, nn):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)
            self.gru, self.head = nn.GRU(16, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.gru(self.lstm(x)[0])[0])

    return Recurrent(), torch.randn(3, 5, 6)


@pytest.mark.parametrize("make", [encoder, image_network, recurrent])
@pytest.mark.parametrize("opset", [11, 17])
def test_the_parameters_are_those_of_pytorch(make, opset, rng):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network, sample = make(torch, torch.nn)
    out = io.BytesIO()
    with warnings.catch_warnings():  # of the exporter's, about itself and about constants
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            (sample,),
            out,
            dynamo=False,
            opset_version=opset,
            input_names=["x"],
            dynamic_axes={"x": {0: "rows"}},
        )
    f = pd.import_onnx(out.getvalue())
    weights = [v for v in f.parameters.values() if v.trainable]
    wanted = sum(p.numel() for p in network.parameters())
    assert sum(math.prod(v.dims) for v in weights) == wanted
    named = {n: p.detach().numpy() for n, p in network.named_parameters()}
    for name in set(named) & set(f.parameters):
        np.testing.assert_array_equal(f.parameters[name].val(), named[name])
    values = sample.numpy()
    found, _ = step_on(f, {"x": values})
    np.testing.assert_allclose(found, network(sample).detach().numpy(), rtol=1e-4, atol=1e-5)
