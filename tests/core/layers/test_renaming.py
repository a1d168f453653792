"""`load_dict` with values under other names and in other layouts."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import pd_core as pd
from pd_core import nn

X = np.random.default_rng(1).normal(size=(2, 3, 5, 5)).astype("float32")


def net(name="net"):
    layers = {"conv": nn.Conv2d(4, 3), "norm": nn.BatchNorm2d(), "flat": nn.Flatten()}
    return nn.Sequential({**layers, "fc": nn.FC(2)}, name=name).eval()


@pytest.fixture
def built():
    layer = net()
    layer(pd.Variable([None, 3, 5, 5]))
    return layer


def theirs(layer):
    """Values as another framework has them: filters last to first, matrices transposed."""
    names = {"conv.W": "model/conv/kernel", "conv.B": "model/conv/bias"}
    names |= {"fc.W": "model/dense/kernel", "fc.B": "model/dense/bias"}
    names |= {f"norm.{k}": f"model/norm/{k}" for k in ("scale", "bias", "mean", "variance")}
    rng = np.random.default_rng(0)
    own = {k: rng.normal(size=v.shape).astype("float32") for k, v in layer.state_dict().items()}
    layouts = {"conv.W": (2, 3, 1, 0), "fc.W": (1, 0)}
    given = {names[k]: v.transpose(layouts.get(k, range(v.ndim))) for k, v in own.items()}
    return own, given, {new: old for old, new in names.items()}


MAPS = {
    "dict": lambda names: names,
    "function": lambda names: names.get,
    "pairs": lambda names: [
        (r"^model/", ""),
        (r"^dense/", "fc/"),
        (r"(conv|fc)/kernel$", r"\1/W"),
        (r"(conv|fc)/bias$", r"\1/B"),
        ("/", "."),
    ],
}
TRANSPOSES = [
    {"conv/kernel$": (3, 2, 0, 1), "dense/kernel": None},
    {"conv/kernel$": (3, 2, 0, 1), "dense": (1, 0)},
]


@pytest.mark.parametrize("is_built", [True, False])
@pytest.mark.parametrize("kind", MAPS)
def test_names_and_layouts_of_others(kind, is_built, built):
    own, given, names = theirs(built)
    layer = built if is_built else net("other")
    transpose = {"conv/kernel$": (3, 2, 0, 1), "dense/kernel$": None}
    found = layer.load_dict(given, mapping=MAPS[kind](names), transpose=transpose)
    assert found == ([], [])
    layer.infer_shape(X.shape)
    assert all((v == own[k]).all() for k, v in layer.state_dict().items())


def test_patterns_transpose_matrices_and_leave_vectors(built):
    own, given, names = theirs(built)
    given = {k: given[k] for k in given if "conv" not in k}
    for transpose in ("dense/", ["dense/kernel", "norm"], [r"(dense|norm)/"]):
        assert built.load_dict(given, False, names, transpose).missing == ["conv.W", "conv.B"]
        assert (built.fc.W.val() == own["fc.W"]).all()


def test_none_leaves_out(built):
    _, given, names = theirs(built)
    given |= {"step": np.array(3), "ema/conv/kernel": np.ones(2)}
    transpose = {"model/conv/kernel$": (3, 2, 0, 1), "model/dense/kernel": None}
    pairs = [("^step$", None), ("^ema/", None), *MAPS["pairs"](names)]
    maps = [{**names, "step": None, "ema/conv/kernel": None}, lambda k: names.get(k), pairs]
    for mapping in maps:
        assert built.load_dict(given, mapping=mapping, transpose=transpose) == ([], [])
    with pytest.raises(pd.GraphError, match="unexpected step, ema/conv/kernel"):
        built.load_dict(given, mapping=names, transpose=transpose)


def test_errors_name_both_sides(built):
    _, given, names = theirs(built)
    del given["model/conv/bias"]
    mapping = {k: v for k, v in names.items() if k in given} | {"model/norm/mean": "norm.average"}
    transpose = {"conv/kernel$": (3, 2, 0, 1), "dense/kernel": None}
    with pytest.raises(pd.GraphError) as error:
        built.load_dict(given, mapping=mapping, transpose=transpose)
    assert str(error.value).splitlines()[:3] == [
        "Sequential.load_dict: names do not fit, 2 missing and 1 unexpected",
        "  missing    conv.B, norm.mean",
        "  unexpected model/norm/mean",
    ]
    with pytest.raises(pd.ShapeError) as error:
        built.load_dict(given, mapping=mapping, transpose="dense/kernel")
    text = str(error.value)
    assert "Sequential.load_dict: net/conv/W: a value of [3, 3, 3, 4] is loaded, it is" in text
    assert "[4, 3, 3, 3], as its transpose ('model/conv/kernel' of the values)" in text
    with pytest.raises(pd.ShapeError, match=r"is loaded, it is \[36, 2\], as its transpose"):
        built.load_dict({"fc.W": np.ones((2, 36))}, strict=False)


def test_all_wrong_shapes_are_told(built):
    given = {k: np.ones((*v.shape, 1)) for k, v in built.state_dict().items()}
    with pytest.raises(pd.ShapeError) as error:
        built.load_dict(given, strict=False)
    assert all(f"{k!r} of the values" in str(error.value) for k in given)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"mapping": 3}, TypeError, "mapping is a dict of names, .* not 3"),
        ({"mapping": "fc"}, TypeError, "mapping is a dict of names, .* not 'fc'"),
        ({"mapping": ["fc"]}, TypeError, r"mapping has \(pattern, replacement\) pairs, not 'fc'"),
        ({"mapping": [("(", "")]}, ValueError, r"'\(' is no pattern: "),
        ({"mapping": [("f", r"\1")]}, ValueError, r"is no replacement: "),
        ({"mapping": lambda name: 3}, TypeError, "mapping makes 3 of 'fc.W', which is no text"),
        ({"mapping": lambda name: "a"}, pd.GraphError, "makes 'a' of both 'fc.W' and 'fc.B'"),
        ({"mapping": {"fc.w": "fc.W"}}, pd.GraphError, "has 'fc.w', .*\n  hint: there is 'fc.W'"),
        ({"transpose": "dense"}, pd.GraphError, "transpose has 'dense', which no name of the"),
        ({"transpose": [3]}, TypeError, "transpose has patterns of names, not 3"),
        ({"transpose": "("}, ValueError, r"'\(' is no pattern: "),
        ({"transpose": {"fc.W": (0, 2)}}, pd.GraphError, r"\(0, 2\) is no order of the axes of"),
        ({"transpose": "fc.C"}, pd.GraphError, r"'fc.C' is \[1, 2, 3\], no matrix .*\n  hint: "),
    ],
)
def test_what_is_no_map(options, kind, message):
    layer = nn.Sequential({"fc": nn.FC(2)})
    given = {"fc.W": np.ones((3, 2)), "fc.B": np.ones(2)}
    given |= {"fc.C": np.ones((1, 2, 3))} if "fc.C" in options.get("transpose", "") else {}
    with pytest.raises(kind, match=message):
        layer.load_dict(given, **options)
    assert layer.unused_values() == {}


def test_a_name_of_a_map_may_be_absent_without_strict(built):
    own, given, names = theirs(built)
    given = {"model/dense/bias": given["model/dense/bias"]}
    found = built.load_dict(given, strict=False, mapping=names)
    assert (built.fc.B.val() == own["fc.B"]).all() and len(found.missing) == 7


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float64"])
@pytest.mark.parametrize("is_built", [True, False])
def test_values_of_other_floats(name, is_built):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    layer = nn.FC(2)
    if is_built:
        layer.infer_shape((None, 3))
    want = np.arange(6).reshape(3, 2) / 4
    layer.load_dict({"W": want.astype(dtype), "B": np.ones(2, dtype)})
    layer.infer_shape((None, 3))
    assert layer.W.dtype == np.float32 and (layer.W.val() == want).all()


def test_every_permutation_of_filters(built):
    """An order of axes is that of NumPy's transpose."""
    value = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype("float32")
    for order in itertools.permutations(range(4)):
        given = {"conv.W": value.transpose(np.argsort(order))}
        built.load_dict(given, strict=False, transpose={"conv.W": order})
        assert (built.conv.W.val() == value).all()
