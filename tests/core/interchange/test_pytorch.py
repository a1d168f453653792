"""`from_pytorch` and `to_pytorch`: PyTorch's modules beside our layers, over their options."""

from itertools import product

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.interchange import from_pytorch, to_pytorch

torch = pytest.importorskip("torch")
tn = torch.nn
parametrize = torch.nn.utils.parametrizations
F = 4  # features of the inputs


def every(**options):
    """All combinations of values of options."""
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def linear(bias):
    return nn.FC(5, bias=bias), tn.Linear(F, 5, bias), (3, F)


def conv(n, bias, groups, transposed):
    kind = f"Conv{'Transpose' if transposed else ''}{n}d"
    ours = getattr(nn, kind)(6, 2, bias=bias, groups=groups)
    return ours, getattr(tn, kind)(F, 6, 2, bias=bias, groups=groups), (2, F, *[3] * n)


def recurrent(kind, bias, num_layers, bidirectional):
    options = {"num_layers": num_layers, "bidirectional": bidirectional, "bias": bias}
    ours = getattr(nn, kind)(3, **options)
    return ours, getattr(tn, kind)(F, 3, batch_first=True, **options), (2, 3, F)


def attention(bias):
    theirs = tn.MultiheadAttention(F, 2, bias=bias, batch_first=True)
    return nn.MultiHeadAttention(F, 2, bias), theirs, (2, 3, F)


def transformer(kind, norm_first, act):
    """Norms before branches come without biases here, and with another epsilon."""
    options = {"norm_first": norm_first, "dropout": 0.0, "bias": not norm_first}
    epsilon = 0.5 if norm_first else 1e-5
    ours = getattr(nn, kind)(F, 2, 6, act=act, epsilon=epsilon, **options)
    options |= {"layer_norm_eps": epsilon, "batch_first": True}
    theirs = getattr(tn, kind)(F, 2, 6, activation=act, **options)
    return ours, theirs, (2, 3, F)


def norm(kind, affine):
    if kind == "layer":
        return nn.LayerNorm(affine=affine), tn.LayerNorm(F, elementwise_affine=affine), (3, F)
    if kind == "rms":
        return nn.RMSNorm(epsilon=1e-3, affine=affine), tn.RMSNorm(F, 1e-3, affine), (3, F)
    if kind == "group":
        return nn.GroupNorm(2, affine=affine), tn.GroupNorm(2, F, affine=affine), (3, F, 5)
    ours, theirs = getattr(nn, kind)(affine=affine), getattr(tn, kind)(F, affine=affine)
    axes = 0 if kind == "BatchNorm1d" else int(kind[-2])
    return ours, theirs, (3, F, *[2] * axes)


def wrapped(kind, wrap):
    """A layer of ours around one, and PyTorch's parametrization of the same."""
    makers = {
        "linear": lambda: linear(True),
        "conv": lambda: conv(2, True, 2, False),
        "transposed": lambda: conv(1, False, 1, True),
        "lstm": lambda: recurrent("LSTM", True, 1, False),
        "gru": lambda: recurrent("GRU", False, 1, True),
    }
    ours, theirs, shape = makers[kind]()
    is_recurrent = kind in ("lstm", "gru")
    name = {"parameter": "R_l0"} if is_recurrent else {}
    of = {"name": "weight_hh_l0"} if is_recurrent else {}
    norms = {
        "weight": (nn.WeightNorm, parametrize.weight_norm),
        "spectral": (nn.SpectralNorm, parametrize.spectral_norm),
        "old weight": (nn.WeightNorm, torch.nn.utils.weight_norm),
        "old spectral": (nn.SpectralNorm, torch.nn.utils.spectral_norm),
    }
    around, theirs_around = norms[wrap]
    if wrap == "weight" and kind == "transposed":
        of["dim"] = 1  # PyTorch's axis is that of the inputs by default
    return around(ours, **name), theirs_around(theirs, **of), shape


def wrapped_twice(kind, first, second):
    """A recurrent layer of which two matrices are computed, each by its own layer around it."""
    ours, theirs, shape = recurrent(kind, True, 1, True)
    norms = {
        "weight": (nn.WeightNorm, parametrize.weight_norm),
        "spectral": (nn.SpectralNorm, parametrize.spectral_norm),
    }
    for (around, theirs_around), name in ((norms[first], "ih_l0"), (norms[second], "hh_l0")):
        ours = around(ours, {"ih_l0": "W_l0", "hh_l0": "R_l0"}[name])
        theirs = theirs_around(theirs, f"weight_{name}")
    return ours, theirs, shape


BOTH = [False, True]
PARTS = {
    linear: every(bias=BOTH),
    # groups and layers take turns with the bias, which keeps the rows few
    conv: [{**o, "groups": 1 + o["bias"]} for o in every(n=[1, 2, 3], bias=BOTH, transposed=BOTH)],
    recurrent: [
        {**o, "num_layers": 2 - o["bias"]}
        for o in every(kind=["LSTM", "GRU", "RNN"], bias=BOTH, bidirectional=BOTH)
    ],
    attention: every(bias=BOTH),
    transformer: every(kind=["TransformerEncoderLayer"], norm_first=BOTH, act=["relu", "gelu"]),
    norm: every(
        kind=[
            "layer",
            "rms",
            "group",
            *[f"{k}Norm{n}d" for k in ("Instance", "Batch") for n in (1, 2, 3)],
        ],
        affine=BOTH,
    ),
    wrapped: every(
        kind=["linear", "conv", "transposed", "lstm", "gru"], wrap=["weight", "spectral"]
    )
    + every(kind=["linear", "conv"], wrap=["old weight", "old spectral"]),
    wrapped_twice: every(kind=["LSTM"], first=["weight", "spectral"], second=["weight"])
    + every(kind=["GRU"], first=["weight"], second=["spectral"]),
}
ROWS = [(maker, options) for maker, rows in PARTS.items() for options in rows]
IDS = [f"{maker.__name__} {' '.join(map(str, options.values()))}" for maker, options in ROWS]


def randomized(module):
    """Draw all that a module stores, statistics positive."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, v in module.state_dict().items():
            if v.dtype.is_floating_point and not name.endswith(("_u", "_v")):
                v.copy_(torch.randn(v.shape, generator=generator).abs() * 0.5 + 0.1)
                if "var" not in name:
                    signs = torch.randint(0, 2, v.shape, generator=generator)
                    v.mul_(signs * 2.0 - 1.0)
    return module.eval()


def first(output):
    return output[0] if isinstance(output, tuple) else output


def result(layer, *inputs):
    return pd.eval(first(layer.eval()(*inputs)))


def expected(module, *inputs):
    tensors = [torch.tensor(x) for x in inputs]
    if isinstance(module, tn.MultiheadAttention):
        tensors = tensors * 3 if len(tensors) == 1 else tensors
        return module(*tensors, need_weights=False)[0].detach().numpy()
    return first(module(*tensors)).detach().numpy()


def tensors(state):
    return {name: torch.from_numpy(value) for name, value in state.items()}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the weight norm before 2.0
@pytest.mark.parametrize(("maker", "options"), ROWS, ids=IDS)
def test_same_outputs_in_both_directions(maker, options, rng):
    ours, theirs, shape = maker(**options)
    randomized(theirs)
    x = rng.normal(size=shape).astype("float32")
    want = expected(theirs, x)
    assert from_pytorch(ours, theirs.state_dict()) == ([], [])  # before it is built
    np.testing.assert_allclose(result(ours, x), want, rtol=1e-5, atol=1e-5)

    state = to_pytorch(ours)
    given = theirs.state_dict()
    if "old" not in options.get("wrap", ""):
        assert state.keys() == given.keys()
        theirs.load_state_dict({k: torch.zeros_like(v) for k, v in given.items()})
        theirs.load_state_dict(tensors(state), strict=True)
        np.testing.assert_allclose(expected(theirs, x), want, rtol=1e-5, atol=1e-5)
    for v in ours.parameters():
        pd.default_session().set(v, np.zeros(v.dims, np.float32))
    assert from_pytorch(ours, state) == ([], [])  # when it is built
    np.testing.assert_allclose(result(ours, x), want, rtol=1e-5, atol=1e-5)


def test_attention_to_something_else(rng):
    """Keys and values of other sizes: PyTorch stores three matrices then."""
    theirs = randomized(tn.MultiheadAttention(F, 2, kdim=3, vdim=5, batch_first=True))
    sizes = F, 3, 5
    q, k, v = (rng.normal(size=(2, 3, n)).astype("float32") for n in sizes)
    ours = nn.MultiHeadAttention(F, 2)
    from_pytorch(ours, theirs.state_dict())
    want = expected(theirs, q, k, v)
    np.testing.assert_allclose(result(ours, q, k, v), want, rtol=1e-5, atol=1e-5)
    state = to_pytorch(ours)
    assert list(state) == [
        *("q_proj_weight", "k_proj_weight", "v_proj_weight"),
        *("in_proj_bias", "out_proj.weight", "out_proj.bias"),
    ]
    theirs.load_state_dict(tensors(state))
    np.testing.assert_allclose(expected(theirs, q, k, v), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", BOTH)
def test_a_decoder_layer(norm_first, rng):
    options = {"norm_first": norm_first, "dropout": 0.0}
    theirs = randomized(tn.TransformerDecoderLayer(F, 2, 6, batch_first=True, **options))
    ours = nn.TransformerDecoderLayer(F, 2, 6, causal=False, **options)
    x, memory = (rng.normal(size=(2, n, F)).astype("float32") for n in (3, 5))
    from_pytorch(ours, theirs.state_dict())
    want = expected(theirs, x, memory)
    np.testing.assert_allclose(result(ours, x, memory), want, rtol=1e-5, atol=1e-5)
    assert to_pytorch(ours).keys() == theirs.state_dict().keys()


class Theirs(tn.Module):
    """Modules in a list and a dict, one of them at two places, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.table = tn.Embedding(7, F, padding_idx=0)
        self.blocks = tn.ModuleList([tn.Sequential(tn.Linear(F, F), tn.PReLU()) for _ in range(2)])
        self.heads = tn.ModuleDict({"a": tn.Linear(F, 2)})
        self.again = self.blocks[0]
        self.scale = tn.Parameter(torch.ones(F))
        self.encoder = tn.TransformerEncoder(
            tn.TransformerEncoderLayer(F, 2, 6, 0.0, batch_first=True), 2, tn.LayerNorm(F)
        )

    def forward(self, ids):
        x = self.table(ids) * self.scale
        for block in [*self.blocks, self.again]:
            x = block(x)
        return self.heads["a"](self.encoder(x))


class Encoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = [nn.TransformerEncoderLayer(F, 2, 6, 0.0) for _ in range(2)]
        self.norm = nn.LayerNorm()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Ours(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, F, padding_id=0)
        self.blocks = [nn.Sequential(nn.FC(F), nn.PReLU()) for _ in range(2)]
        self.heads = {"a": nn.FC(2)}
        self.again = self.blocks[0]
        self.scale = pd.Variable(data=np.zeros(F, "float32"))
        self.encoder = Encoder()

    def forward(self, ids):
        x = self.table(ids) * self.scale
        for block in [*self.blocks, self.again]:
            x = block(x)
        return self.heads["a"](self.encoder(x))


IDS_IN = np.array([[0, 3, 6], [1, 2, 2]])


def made():
    torch.manual_seed(3)
    theirs = Theirs().eval()
    with torch.no_grad():
        theirs.scale.copy_(torch.tensor([0.5, -1.0, 2.0, 1.5]))
        for block in theirs.blocks:
            block[1].weight.fill_(0.6)
    return theirs


def loaded():
    theirs, ours = made(), Ours()
    from_pytorch(ours, theirs.state_dict())
    return theirs, ours


def test_nested_modules_of_the_same_attributes():
    theirs, ours = loaded()
    want = expected(theirs, IDS_IN)
    assert np.ptp(want) > 0.5  # it is no constant
    np.testing.assert_allclose(result(ours, IDS_IN), want, rtol=1e-5, atol=1e-5)
    state = to_pytorch(ours)
    assert state.keys() == theirs.state_dict().keys()
    twin = Theirs().eval()
    twin.load_state_dict(tensors(state))
    np.testing.assert_allclose(expected(twin, IDS_IN), want, rtol=1e-5, atol=1e-5)
    assert all(v.flags.writeable and v.flags.c_contiguous for v in state.values())


def test_one_of_the_names_of_a_shared_module_is_enough():
    theirs = made()
    for prefix in ("again.", "blocks.0."):
        state = {k: v for k, v in theirs.state_dict().items() if not k.startswith(prefix)}
        ours = Ours()
        assert from_pytorch(ours, state) == ([], [])
        np.testing.assert_allclose(result(ours, IDS_IN), expected(theirs, IDS_IN), atol=1e-5)
    state = {k: v.clone() for k, v in theirs.state_dict().items()}
    state["again.0.weight"][0, 0] += 1
    with pytest.raises(pd.GraphError, match=r"'blocks.0.0.weight' and 'again.0.weight' are one"):
        from_pytorch(Ours(), state)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "float32"])
def test_tensors_of_other_types_and_with_gradients(dtype, rng):
    theirs = tn.Linear(F, 2).to(getattr(torch, dtype))
    ours = nn.FC(2)
    from_pytorch(ours, dict(theirs.named_parameters()))
    x = rng.normal(size=(3, F)).astype("float32")
    want = x @ theirs.weight.detach().float().numpy().T + theirs.bias.detach().float().numpy()
    np.testing.assert_allclose(result(ours, x), want, rtol=1e-5, atol=1e-5)
    assert ours.W.dtype == np.float32


def test_names_of_another_program():
    theirs = randomized(tn.Sequential(tn.Linear(F, 3), tn.Tanh(), tn.Linear(3, 2)))
    state = {f"module.{k}": v for k, v in theirs.state_dict().items()}
    x = np.ones((2, F), "float32")
    mappings = [
        [(r"^module\.0\.", "hidden."), (r"^module\.2\.", "score.")],
        {f"module.{n}.{k}": f"{m}.{k}" for n, m in ((0, "hidden"), (2, "score")) for k in WEIGHTS},
        lambda name: name.replace("module.0", "hidden").replace("module.2", "score"),
    ]
    for mapping in mappings:
        net = nn.Sequential({"hidden": nn.FC(3, act="tanh"), "score": nn.FC(2)})
        from_pytorch(net, state, mapping=mapping)
        np.testing.assert_allclose(result(net, x), expected(theirs, x), rtol=1e-5, atol=1e-5)


WEIGHTS = ("weight", "bias")


def net():
    return nn.Sequential({"hidden": nn.FC(3), "norm": nn.BatchNorm1d(), "score": nn.FC(2)})


def state():
    theirs = tn.Sequential()
    for name, module in [
        ("hidden", tn.Linear(F, 3)),
        ("norm", tn.BatchNorm1d(3)),
        ("score", tn.Linear(3, 2)),
    ]:
        theirs.add_module(name, module)
    return {k: v.numpy() for k, v in theirs.state_dict().items()}


NAMES = [name for name in state() if name != "norm.num_batches_tracked"]


@pytest.mark.parametrize("is_built", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_names_that_do_not_fit(name, is_built):
    layer, given = net(), state()
    if is_built:
        layer.infer_shape((2, F))
    before = layer.state_dict()
    value = given.pop(name)
    new = name + "x"
    given[new] = value
    with pytest.raises(pd.GraphError) as error:
        from_pytorch(layer, given)
    text = str(error.value)
    assert "from_pytorch: names do not fit, 1 missing and 1 unexpected" in text
    assert f"missing    {name}\n" in text and f"{new!r} may be {name!r} here" in text
    assert all((before[k] == v).all() for k, v in layer.state_dict().items())
    found = from_pytorch(layer, given, strict=False)
    assert found == ([name], [new])
    assert found.missing_keys == [name] and found.unexpected_keys == [new]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_that_do_not_fit(name):
    layer, given = net(), state()
    layer.infer_shape((2, F))
    before = layer.state_dict()
    shape = list(given[name].shape)
    given[name] = np.zeros([n + 1 for n in shape])
    for strict in BOTH:
        with pytest.raises(pd.ShapeError) as error:
            from_pytorch(layer, given, strict=strict)
        wanted = f"from_pytorch: {name!r} is {[n + 1 for n in shape]}, not {shape}; here are "
        assert str(error.value).startswith(wanted)
    assert all((before[k] == v).all() for k, v in layer.state_dict().items())


def test_what_has_no_counterpart_is_unexpected():
    lstm = tn.LSTM(F, 4, proj_size=2, batch_first=True)
    with pytest.raises(pd.GraphError, match="unexpected weight_hr_l0"):
        from_pytorch(nn.LSTM(4), lstm.state_dict())
    attention = tn.MultiheadAttention(F, 2, add_bias_kv=True)
    with pytest.raises(pd.GraphError, match="unexpected bias_k, bias_v"):
        from_pytorch(nn.MultiHeadAttention(F, 2), attention.state_dict())
    tracking = tn.InstanceNorm2d(F, affine=True, track_running_stats=True)
    with pytest.raises(pd.GraphError, match="unexpected running_mean, running_var"):
        from_pytorch(nn.InstanceNorm2d(affine=True), tracking.state_dict())


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (tn.Linear(2, 2), TypeError, r"not a Linear\n  hint: pass module.state_dict\(\)"),
        ("net.pt", TypeError, r"not a str\n  hint: pass torch.load"),
        ({"state_dict": {}}, TypeError, r"hint: .* pass checkpoint\['state_dict'\]"),
        ({1: np.ones(2)}, TypeError, "names are text, not 1"),
        ({"weight": "text"}, pd.DTypeError, "the value of weight is <U4, not numbers"),
        ({"weight": torch.ones(2, 2).to_sparse()}, TypeError, "'weight' cannot be read"),
        ({"in_proj_weight": np.ones((4, 2))}, pd.GraphError, "unexpected in_proj_weight"),
    ],
)
def test_what_is_no_state_dict(given, kind, message):
    with pytest.raises(kind, match=message):
        from_pytorch(nn.FC(2), given)


def test_what_is_no_layer_or_not_built():
    for function in (to_pytorch, lambda x: from_pytorch(x, {})):
        with pytest.raises(TypeError, match=r"takes a layer of pd.nn, not 3"):
            function(3)
    with pytest.raises(pd.NotInitialized, match="Sequential has no parameters yet"):
        to_pytorch(net())
    relu = nn.ReLU()
    relu(np.ones(2, "float32"))
    assert to_pytorch(relu) == {}


def test_the_vector_of_a_padding():
    """It is zero here; in PyTorch it is what is stored."""
    theirs, ours = tn.Embedding(5, 2, padding_idx=1), nn.Embedding(5, 2, padding_id=1)
    from_pytorch(ours, theirs.state_dict())
    ids = np.arange(5)
    assert (result(ours, ids) == expected(theirs, ids)).all()
    drawn = nn.Embedding(5, 2, padding_id=1)
    drawn.infer_shape(pd.Variable([None], dtype="int64"))
    theirs.load_state_dict(tensors(to_pytorch(drawn)))
    assert (result(drawn, ids) == expected(theirs, ids)).all()
    given = {"weight": np.ones((5, 2))}
    with pytest.raises(pd.GraphError, match=r"'weight': row 1, the padding, is not zero"):
        from_pytorch(ours, given)
    from_pytorch(nn.Embedding(5, 2), given)


def test_a_packed_matrix_that_does_not_split():
    layer = nn.MultiHeadAttention(F, 2)
    given = {**tn.MultiheadAttention(F, 2).state_dict(), "in_proj_weight": np.ones((13, F))}
    with pytest.raises(pd.ShapeError, match=r"'in_proj_weight' is \[13, 4\], which is no query.W"):
        from_pytorch(layer, given)
    layer.infer_shape((2, 3, F))
    with pytest.raises(pd.ShapeError, match=r"is \[13, 4\], not \[12, 4\]; here are query.W"):
        from_pytorch(layer, given)
