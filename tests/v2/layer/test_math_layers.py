"""Layers of arithmetic, products, arrangement and ids against their formulas."""

from dataclasses import dataclass

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param

from . import layer_checks as layers
from .layer_rows import IM, A, Dense, Ids, L, Row, T, X, Z


@dataclass(frozen=True)
class Positive(Dense):
    """Numbers within [0.5, 2)."""

    def draw(self, rng, n):
        return rng.uniform(0.5, 2.0, (n, self.size)).astype(np.float32)


ONE, WIDE = Dense(1), Dense(12)


def cosines(v):
    x, m = v["x"][:, None], v["m"].reshape(-1, 3, 4)
    return (x * m).sum(2) / np.linalg.norm(x, axis=2) / np.linalg.norm(m, axis=2)


def shifted(v):
    a, b = v["x"], v["z"]
    y = np.zeros_like(a)
    for i, j in np.ndindex(4, 3):
        y[:, i] += a[:, (i + j - 1) % 4] * b[:, j]
    return y


def bilinear(v):
    w = v["w0"].reshape(5, 4, 3)  # the five matrices, one after the other
    return np.einsum("na,kab,nb->nk", v["x"], w, v["z"])


def pairs(v):
    x, w = v["x"], v["w0"]
    y = np.zeros((len(x), 1))
    for j in range(4):
        for i in range(j):
            y[:, 0] += x[:, i] * x[:, j] * (w[i] @ w[j])
    return y


def leaky(v, groups, size=60):
    x = v["im"] if "im" in v else v["x"]
    return np.where(x > 0, x, x * np.repeat(v["w0"][0], size // groups))


ROWS = [
    Row(
        "interpolation",
        {"x": X, "z": X, "w": ONE},
        lambda x, z, w: L.interpolation(input=[x, z], weight=w, name="y"),
        lambda v: v["w"] * v["x"] + (1 - v["w"]) * v["z"],
    ),
    Row(
        "power",
        {"x": Positive(4), "w": ONE},
        lambda x, w: L.power(input=x, weight=w, name="y"),
        lambda v: v["x"] ** v["w"],
    ),
    Row(
        "scaling",
        {"x": X, "w": ONE},
        lambda x, w: L.scaling(input=x, weight=w, name="y"),
        lambda v: v["w"] * v["x"],
    ),
    Row(
        "slope-intercept",
        {"x": X},
        lambda x: L.slope_intercept(x, name="y", slope=2.5, intercept=-0.5),
        lambda v: 2.5 * v["x"] - 0.5,
    ),
    Row("slope-intercept-of-defaults", {"x": X}, lambda x: L.slope_intercept(x, name="y"),
        lambda v: v["x"]),
    Row(
        "cos-sim",
        {"x": X, "z": X},
        lambda x, z: L.cos_sim(a=x, b=z, scale=5, name="y"),
        lambda v: 5
        * (v["x"] * v["z"]).sum(1, keepdims=True)
        / np.linalg.norm(v["x"], axis=1, keepdims=True)
        / np.linalg.norm(v["z"], axis=1, keepdims=True),
    ),
    Row(
        "cos-sim-of-several",
        {"x": X, "m": WIDE},
        lambda x, m: L.cos_sim(a=x, b=m, size=3, name="y"),
        cosines,
    ),
    Row(
        "l2-distance",
        {"x": X, "z": X},
        lambda x, z: L.l2_distance(x=x, y=z, name="y"),
        lambda v: np.linalg.norm(v["x"] - v["z"], axis=1, keepdims=True),
    ),
    Row(
        "dot-prod",
        {"x": X, "z": X},
        lambda x, z: L.dot_prod(input1=x, input2=z, name="y"),
        lambda v: (v["x"] * v["z"]).sum(1, keepdims=True),
    ),
    Row(
        "out-prod",
        {"x": X, "z": Z},
        lambda x, z: L.out_prod(input1=x, input2=z, name="y"),
        lambda v: np.stack([np.outer(a, b).ravel() for a, b in zip(v["x"], v["z"], strict=True)]),
    ),
    Row(
        "linear-comb",
        {"z": Z, "m": WIDE},
        lambda z, m: L.linear_comb(weights=z, vectors=m, name="y"),
        lambda v: sum(v["z"][:, [i]] * v["m"][:, 4 * i : 4 * i + 4] for i in range(3)),
    ),
    Row(
        "convex-comb-of-one-size",
        {"z": Z, "m": WIDE},
        lambda z, m: L.convex_comb(weights=z, vectors=m, size=4, name="y"),
        lambda v: sum(v["z"][:, [i]] * v["m"][:, 4 * i : 4 * i + 4] for i in range(3)),
    ),
    Row(
        "conv-shift", {"x": X, "z": Z}, lambda x, z: L.conv_shift(a=x, b=z, name="y"), shifted
    ),
    Row(
        "tensor",
        {"x": X, "z": Z},
        lambda x, z: L.tensor(a=x, b=z, size=5, name="y", act=A.Tanh()),
        lambda v: np.tanh(bilinear(v) + v["wbias"]),
    ),
    Row(
        "tensor-without-bias",
        {"x": X, "z": Z},
        lambda x, z: L.tensor(a=x, b=z, size=5, name="y", bias_attr=False),
        bilinear,
    ),
    Row(
        "factorization-machine",
        {"x": X},
        lambda x: L.factorization_machine(input=x, factor_size=3, name="y", act=A.Sigmoid()),
        lambda v: 1 / (1 + np.exp(-pairs(v))),
    ),
    Row(
        "sum-to-one",
        {"x": Positive(4)},
        lambda x: L.sum_to_one_norm(x, name="y"),
        lambda v: v["x"] / v["x"].sum(1, keepdims=True),
    ),
    Row(
        "row-l2-norm",
        {"x": X},
        lambda x: L.row_l2_norm(x, name="y"),
        lambda v: v["x"] / np.linalg.norm(v["x"], axis=1, keepdims=True),
    ),
    Row(
        "multiplex",
        {"index": Ids(3), "x": X, "z": X, "u": X},
        lambda index, x, z, u: L.multiplex([index, x, z, u], name="y"),
        lambda v: np.stack([v["xzu"[k]][i] for i, k in enumerate(v["index"])]),
    ),
    Row(
        "clip",
        {"x": X},
        lambda x: L.clip(x, min=-0.5, max=0.75, name="y"),
        lambda v: np.clip(v["x"], -0.5, 0.75),
    ),
    Row(
        "scale-shift",
        {"x": X},
        lambda x: L.scale_shift(x, name="y"),
        lambda v: v["w0"] * v["x"] + v["wbias"],
    ),
    Row(
        "scale-shift-without-bias",
        {"x": X},
        lambda x: L.scale_shift(x, name="y", bias_attr=False),
        lambda v: v["w0"] * v["x"],
    ),
    Row(
        "prelu-of-elements",
        {"x": X},
        lambda x: L.prelu(x, name="y"),
        lambda v: leaky(v, 4, 4),
    ),
    Row("prelu-of-pairs", {"im": IM}, lambda im: L.prelu(im, name="y", partial_sum=5),
        lambda v: leaky(v, 12)),
    Row("prelu-of-channels", {"im": IM}, lambda im: L.prelu(im, name="y", channel_shared=False),
        lambda v: leaky(v, 2)),
    Row("prelu-of-all", {"im": IM}, lambda im: L.prelu(im, name="y", channel_shared=True),
        lambda v: leaky(v, 1)),
    Row(
        "repeat",
        {"x": X},
        lambda x: L.repeat(x, num_repeats=3, name="y", act=A.Tanh()),
        lambda v: np.tanh(np.tile(v["x"], (1, 3))),
    ),
    Row(
        "repeat-each",
        {"x": X},
        lambda x: L.repeat(x, num_repeats=3, as_row_vector=False, name="y"),
        lambda v: np.repeat(v["x"], 3, axis=1),
    ),
    Row(
        "rotate",
        {"im": IM},
        lambda im: L.rotate(im, height=5, width=6, name="y"),
        lambda v: np.rot90(IM.of(v["im"]), -1, axes=(2, 3)).reshape(-1, 60),
    ),
]  # fmt: skip


class TestRows(layers.LayerChecks):
    """Layers that combine rows, each against its formula."""

    rows = ROWS


# ---- layers whose result is no row for each row


def test_resize_takes_the_elements_of_the_whole_batch(rng):
    x = layers.dense("x", 6)
    value = rng.standard_normal((4, 6)).astype(np.float32)
    found, slope = layers.gradient_of(L.resize(x, size=8, name="y"), x, {x: value})
    np.testing.assert_array_equal(found, value.reshape(3, 8))
    np.testing.assert_array_equal(slope, np.ones((4, 6)))
    assert pd.eval(L.get_layer("y"), {x: value[:0]}).shape == (0, 8)
    assert L.get_layer("y").size == 8


def test_trans_turns_the_batch(rng):
    x = layers.dense("x", 3)
    turned = L.trans(x)
    value = rng.standard_normal((3, 3)).astype(np.float32)
    np.testing.assert_array_equal(pd.eval(turned, {x: value}), value.T)
    assert turned.size == 3
    for n in (1, 0):
        assert pd.eval(turned, {x: value[:n]}).shape == (3, n)
    y = L.fc(turned, size=2, act=A.Linear(), bias_attr=False, name="y")
    w = pd.get_variable("_y.w0")
    np.testing.assert_allclose(pd.eval(y, {x: value}), value.T @ w.val(), rtol=1e-5)


# ---- ids


def test_max_id_is_the_first_largest_column_and_its_value():
    x = layers.dense("x", 3)
    best = L.max_id(x)
    parameters = paddle.parameters.create(L.fc(x, size=1))
    rows = [([1.0, 3.0, 3.0],), ([-1.0, -2.0, -3.0],)]
    ids, prob = paddle.infer(
        output_layer=best, parameters=parameters, input=rows, field=["id", "prob"]
    )
    assert ids.tolist() == [1, 0] and ids.dtype == np.int32
    assert prob.tolist() == [[3.0], [-1.0]]
    assert (best.size, best.shape, best.name) == (3, (None,), "__maxid_layer_0__")
    with pytest.raises(ValueError, match="an output has no field 'value'"):
        paddle.infer(output_layer=best, parameters=parameters, input=rows)


def test_ids_feed_other_layers():
    x = layers.dense("x", 3)
    best = L.max_id(x)
    y = L.embedding(best, size=2, name="y")
    end = L.eos(best, eos_id=1)
    found, ends = pd.eval([y, end], {x: np.eye(3, dtype=np.float32)})
    np.testing.assert_array_equal(found, pd.get_variable("_y.w0").val())
    assert ends.tolist() == [0, 1, 0] and end.size == 2
    assert pd.eval(best, {x: np.zeros((0, 3))}).shape == (0,)


def test_ids_in_an_exported_model(rng, tmp_path):
    x = layers.dense("x", 3)
    best = L.max_id(x, name="y")
    path = str(tmp_path / "y.onnx")
    pool = paddle.parameters.create(L.fc(x, size=1))
    paddle.topology.Topology(best).export_onnx(path, pool)
    session = layers.onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    value = rng.standard_normal((4, 3)).astype(np.float32)
    (found,) = session.run(["y"], {"x": value})
    np.testing.assert_array_equal(found, value.argmax(1))


def test_sampling_id_draws_by_the_probabilities():
    x = layers.dense("x", 3)
    drawn = L.sampling_id(x)
    rows = np.tile(np.array([[0.5, 0.2, 0.3]], np.float32), (20000, 1))
    ids = pd.eval(drawn, {x: rows})
    np.testing.assert_allclose(np.bincount(ids, minlength=3) / 20000, rows[0], atol=0.015)
    assert (pd.eval(drawn, {x: rows}) != ids).any()
    sure = pd.eval(drawn, {x: np.eye(3, dtype=np.float32)})
    assert sure.tolist() == [0, 1, 2]
    rest = pd.eval(drawn, {x: np.array([[0, 0, 0], [2, 1, 0], [0, 3, 0]], np.float32)})
    assert rest.tolist() == [2, 0, 1]  # what is left of 1 belongs to the last column
    assert pd.eval(drawn, {x: rows[:0]}).shape == (0,)
    assert drawn.size == 3


# ---- names, parameters and mistakes


def test_automatic_names():
    x, w, ids = layers.dense("x", 4), layers.dense("w", 1), L.data("ids", T.integer_value(2))
    made = [
        L.interpolation([x, x], weight=w),
        L.power(x, weight=w),
        L.linear_comb(x, x),
        L.convex_comb(x, x),
        L.multiplex([ids, x, x]),
        L.clip(x, min=0, max=1),
        L.scale_shift(x),
        L.resize(x, size=2),
        L.gated_unit(x, size=2),
        L.factorization_machine(x, factor_size=2),
        L.sampling_id(x),
    ]
    assert [y.name for y in made] == [
        *("__interpolation_layer_0__", "__power_layer_0__", "__linear_comb_layer_0__"),
        *("__linear_comb_layer_1__", "__multiplex_layer_0__", "__clip_0__", "__scale_shift_0__"),
        *("__resize_0__", "__gated_unit_layer_0___gated_act", "__factorization_machine_0__"),
        "__sampling_id_layer_0__",
    ]


def test_layer_types():
    x, m = layers.dense("x", 4), layers.dense("m", 8)
    assert L.cos_sim(x, x).layer_type == L.cos_sim(x, m, size=2).layer_type == "cos"


def test_starts():
    x = layers.dense("x", 4)
    made = [
        L.prelu(x, name="p"),
        L.prelu(x, name="q", param_attr=Param(initial_std=0.5)),
        L.scale_shift(x, name="s"),
    ]
    conf = paddle.parameters.create(made).__param_conf__
    starts = {name: (c.initial_mean, c.initial_std) for name, c in conf.items()}
    assert starts == {
        "_p.w0": (0.25, 0.0),
        "_q.w0": (0.0, 0.5),
        "_s.w0": (0.0, 1.0),
        "_s.wbias": (0.0, 0.0),
    }


def test_prelu_knows_its_channels():
    image = layers.image()
    y = L.prelu(image, channel_shared=False)
    assert (y.num_filters, y.height, y.width) == (3, 6, 4)
    assert L.prelu(layers.dense("x", 4), num_channels=2).num_filters == 2


def test_an_id_outside_a_multiplex(rng):
    ids, x = L.data("ids", T.integer_value(9)), layers.dense("x", 4)
    y = L.multiplex([ids, x, x])
    feeds = {ids: np.array([2]), x: np.ones((1, 4))}
    with pytest.raises(pd.BackendError, match="is outside"):
        pd.eval(y, feeds)


@pytest.fixture
def net():
    """Layers by name: x [4], z [3], w [1], two [2], ids (4)."""
    sizes = {"x": 4, "z": 3, "w": 1, "two": 2}
    ids = L.data(name="ids", type=T.integer_value(4))
    return {**{name: layers.dense(name, size) for name, size in sizes.items()}, "ids": ids}


# fmt: off
MISTAKES = [
    (lambda x, w, **_: L.interpolation([x], weight=w), pd.GraphError,
     "an interpolation is of two layers, not 1"),
    (lambda x, z, w, **_: L.interpolation([x, z], weight=w), pd.ShapeError,
     "interpolation layer '__interpolation_layer_0__', .*: 'x' is 4 wide, 'z' 3"),
    (lambda x, z, **_: L.scaling(x, weight=z), pd.ShapeError, "weight 'z' is 3 wide, not 1"),
    (lambda x, ids, **_: L.scaling(x, weight=ids), pd.DTypeError, "'ids' holds ids"),
    (lambda x, ids, **_: L.power(ids, weight=x), pd.DTypeError, "'ids' holds ids"),
    (lambda x, z, **_: L.power(x, weight=z), pd.ShapeError, "weight 'z' is 3 wide, not 1"),
    (lambda x, z, **_: L.cos_sim(x, z), pd.ShapeError,
     "'z' is 3 wide, which is not 1 times the 4 of 'x'"),
    (lambda x, ids, **_: L.cos_sim(x, ids), pd.DTypeError, "'ids' holds ids"),
    (lambda x, z, **_: L.l2_distance(x, z), pd.ShapeError, "'x' is 4 wide, 'z' 3"),
    (lambda x, z, **_: L.dot_prod(x, z), pd.ShapeError, "'x' is 4 wide, 'z' 3"),
    (lambda x, z, **_: L.linear_comb(z, x), pd.ShapeError,
     "'x' is 4 wide, which is not 3 vectors of 1"),
    (lambda x, two, **_: L.conv_shift(x, two), pd.ShapeError, "size of 'two' is odd, not 2"),
    (lambda x, ids, **_: L.multiplex([ids, x]), pd.GraphError,
     "a multiplex has ids and at least two layers, not 2 inputs"),
    (lambda x, **_: L.multiplex([x, x, x]), pd.DTypeError, "'x' holds rows of numbers, no ids"),
    (lambda x, ids, **_: L.multiplex([ids, x, ids]), pd.DTypeError, "'ids' holds ids, no rows"),
    (lambda x, z, ids, **_: L.multiplex([ids, x, z]), pd.ShapeError, "'x' is 4 wide, 'z' 3"),
    (lambda x, **_: L.clip(x, min=1, max=1), pd.GraphError, "clip: min 1 is not below max 1"),
    (lambda x, **_: L.prelu(x, partial_sum=3), pd.ShapeError,
     "'x' is 4 wide, which does not split into groups of 3"),
    (lambda x, **_: L.prelu(x, channel_shared=False), pd.ShapeError, "into groups of 0"),
    (lambda x, **_: L.rotate(x, height=2, width=3), pd.ShapeError,
     "'x' is 4 wide, which is no image of 2 x 3 pixels"),
    (lambda x, **_: L.eos(x, eos_id=1), pd.DTypeError, "'x' holds rows of numbers, no ids"),
    (lambda ids, **_: L.max_id(ids), pd.DTypeError, "max_id layer .*'ids' holds ids, no rows"),
    (lambda x, **_: L.tensor(x, x, size=0, name="y"), pd.ShapeError,
     r"a size is a positive integer, not in \[0, 4, 4\]"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(net, mistake, error, message):
    known = set(paddle.build.current().layers)
    with pytest.raises(error, match=message):
        mistake(**net)
    assert set(paddle.build.current().layers) == known
