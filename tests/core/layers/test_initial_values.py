"""Initial values of the parameters of layers: names, initializers and arrays, and their scales."""

import inspect
import math
import re

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.graph.initializers import initializers

from .test_reference import ARGUMENTS, PAGE, layers

INPUTS = {
    **{
        f"{kind}{n}d": [(2, 4, 5, 6, 7)[: n + 2]]
        for kind in ("Conv", "ConvTranspose")
        for n in (1, 2, 3)
    },
    "FC": [(2, 4)],
    "Embedding": [np.array([[1, 2]])],
    "BatchNorm1d": [(2, 4)],
    "TransformerDecoderLayer": [(2, 3, 6), (2, 5, 6)],
    **{key: [(2, 3, 4)] for key in ("RNN", "LSTM", "GRU")},
    **{key: [(2, 3, 6)] for key in ("MultiHeadAttention", "TransformerEncoderLayer")},
    "InstanceNorm1d": [(2, 4, 3)],
    **{key: [(2, 4, 3, 3)] for key in ("BatchNorm2d", "GroupNorm", "InstanceNorm2d")},
    **{key: [(2, 4, 3, 3, 3)] for key in ("BatchNorm3d", "InstanceNorm3d")},
    **{key: [(2, 4)] for key in ("LayerNorm", "RMSNorm", "PReLU")},
}
KEYS = {"kernel_init": "W", "recurrent_init": "R", "scale_init": "scale", "bias_init": "bias|B"}
TAKEN = [
    (name, argument)
    for name, kind in layers().items()
    for argument in inspect.signature(kind).parameters
    if argument.endswith("_init")
]


def built(name, **options):
    """A layer of these options, called once, and its parameters by name."""
    if name.startswith("InstanceNorm"):
        options["affine"] = True
    layer = layers()[name](**ARGUMENTS.get(name, ({}, {}))[0], **options)
    layer(*[np.ones(x, np.float32) if isinstance(x, tuple) else x for x in INPUTS[name]])
    return layer, dict(layer.named_parameters())


def meant(parameters, argument):
    """The parameters that an argument is for; a norm inside of a transformer is not."""
    pattern = re.compile(rf"(^|\.)({KEYS[argument]})(_l\d.*)?$")
    return [v for key, v in parameters.items() if pattern.search(key) and "norm" not in key]


@pytest.mark.parametrize("name", INPUTS)
def test_each_parameter_has_an_argument_for_its_initial_value(name):
    """Every parameter is that of one argument of the layer."""
    parameters = built(name)[1]
    arguments = [argument for owner, argument in TAKEN if owner == name]
    found = [v for argument in arguments for v in meant(parameters, argument)]
    assert sorted(v.name for v in found) == sorted(
        v.name for key, v in parameters.items() if "norm" not in key
    )


def test_all_layers_with_parameters_are_tried():
    assert {name for name, _ in TAKEN} == set(INPUTS)


@pytest.mark.parametrize("name, argument", TAKEN)
def test_initializers_by_name_and_instance(name, argument):
    for spec, value in (("ones", 1.0), (pd.constant_initializer(-3.0), -3.0)):
        found = meant(built(name, **{argument: spec})[1], argument)
        assert found and all((v.val() == value).all() for v in found)
    with pytest.raises(pd.GraphError, match="there is no initializer 'he'"):
        built(name, **{argument: "he"})
    with pytest.raises(TypeError, match=r"an initializer is a function \(shape, rng\) -> array, n"):
        built(name, **{argument: 3})


ALIKE = [
    pair for pair in TAKEN if "Transformer" not in pair[0] and pair[0] not in ("RNN", "LSTM", "GRU")
]


@pytest.mark.parametrize("name, argument", ALIKE)
def test_arrays_are_the_initial_values(name, argument, rng):
    first = meant(built(name)[1], argument)[0]
    array = rng.normal(size=first.shape)
    given = array.copy()
    parameters = built(name, **{argument: given})[1]
    given[...] = 0.0
    assert all((v.val() == array.astype("float32")).all() for v in meant(parameters, argument))
    parameters_before = pd.persistent_variables()
    text = rf"the initial value of '\w+' is \[9\], not \[{', '.join(map(str, first.shape))}\]"
    with pytest.raises(pd.ShapeError, match=text):
        built(name, **{argument: np.zeros(9)})
    assert pd.persistent_variables() == parameters_before


def test_functions_and_own_layers_take_arrays(rng):
    array = rng.normal(size=(4, 2)).astype("float32")

    class Own(nn.Layer):
        def forward(self, x):
            return x @ self.parameter("table", [4, 2], array)

    assert (pd.eval(Own()(np.eye(4, dtype="float32"))) == array).all()
    assert (pd.eval(pd.fc(np.eye(4, dtype="float32"), 2, W=array)) == array).all()
    with pytest.raises(pd.ShapeError, match=r"value of 'fc_1.W' is \[4, 2\], not \[4, 3\]"):
        pd.fc(np.eye(4, dtype="float32"), 3, W=array)


# ---- the table of docs/layers.md

TABLE = re.findall(r"^\| (.*?) \| ?(.*?) ?\| (.*) \|$", PAGE.read_text("utf-8"), re.M)
FORMULAS = {
    re.findall(r'"(\w+)"', names)[0]: (call, text)
    for names, call, text in TABLE
    if '"' in names[:3]
}


def test_the_table_has_every_name():
    listed = [name for names, _, _ in TABLE for name in re.findall(r'`"(\w+)"`', names)]
    assert sorted(listed) == sorted(initializers)


def spread(text, n, m):
    """The standard deviation of a formula: of N(0, v), or U(b) on [-b, b)."""
    kind, inner = re.fullmatch(r"(N|U)\((.*)\)", text).groups()
    value = eval(inner.removeprefix("0, "), {"n": n, "m": m, "sqrt": math.sqrt})
    return math.sqrt(value) if kind == "N" else value / math.sqrt(3)


DRAWN = [k for k in FORMULAS if re.search("he_|lecun|xavier", k)]


@pytest.mark.parametrize("name", DRAWN)
def test_formulas_of_the_table_are_the_scales(name):
    call, text = FORMULAS[name]
    for shape, n, m in (((300, 200), 300, 200), ((80, 30, 3, 3), 270, 720)):
        drawn = initializers[name](shape, np.random.default_rng(0))
        assert drawn.std() == pytest.approx(spread(text, n, m), rel=0.02)
        same = eval(call.strip("`"), {"pd": pd})(shape, np.random.default_rng(0))
        assert (drawn == same).all()


# ---- a language model

WORDS, WIDTH, STEPS = 65, 64, 16


class Gpt(nn.Layer):
    """A causal transformer, whose output layer is an FC or the table of its words."""

    def __init__(self, tied, **options):
        super().__init__()
        self.tied = tied
        self.words = nn.Embedding(WORDS, WIDTH, **options)
        self.places = nn.Embedding(STEPS, WIDTH, **options)
        self.block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", True, True)
        self.norm, self.output = nn.LayerNorm(), nn.FC(WORDS)

    def forward(self, ids):
        h = self.norm(self.block(self.words(ids) + self.places(np.arange(STEPS))))
        return h @ pd.matrix_transpose(self.words.W) if self.tied else self.output(h)


def first_loss(rng, *arguments, **options):
    ids = rng.integers(0, WORDS, (8, STEPS + 1))
    logits = Gpt(*arguments, **options)(ids[:, :-1])
    return float(pd.eval(nn.SoftmaxCrossEntropy()(logits, ids[:, 1:])))


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_language_model_begins_near_ln_of_its_words(tied, rng):
    """Uniform guesses cost ln(65) = 4.17; a table of N(0, 1) as output layer is far from them."""
    small = pd.gaussian_initializer(std=0.02)
    assert first_loss(rng, tied, kernel_init=small) == pytest.approx(math.log(WORDS), abs=0.6)
    assert first_loss(rng, tied) == pytest.approx(math.log(WORDS), abs=0.8)
    if tied:
        assert first_loss(rng, tied, kernel_init="normal") > 20.0
