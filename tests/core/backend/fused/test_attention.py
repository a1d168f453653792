"""Attention as one operator, and its gradients, against the operators that they replace."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused import program
from pd_core.backend.fused.attention.operators import DOMAIN, fuse
from pd_core.backend.fused.build import available, build
from tests.core.backend.fused.alone import kinds_of, model_of, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT = TensorProto.FLOAT
_TURNED, _LAST = [0, 1, 3, 2], [0, 2, 1, 3]


def model(n, h, t, s, d, e, mask=(), last=False, scores=False):
    """Return attention of t queries on s keys with all gradients, as nodes of its own.

    `mask` are the sizes of a mask, `last` has heads behind steps, `scores` scales these instead of
    the queries.
    """
    nodes, names = [], {}
    for x in ("q", "k", "v", "dy"):
        names[x] = x
        if last:
            nodes.append(N("Transpose", [x], [f"{x}4"], perm=_LAST))
            names[x] = f"{x}4"
    q, k, v, dy = (names[x] for x in ("q", "k", "v", "dy"))
    nodes.append(N("Transpose", [k], ["kt"], perm=_TURNED))
    if scores:
        nodes += [N("MatMul", [q, "kt"], ["s0"]), N("Mul", ["s0", "c"], ["s"])]
        a = q
    else:
        nodes += [N("Mul", [q, "c"], ["a"]), N("MatMul", ["a", "kt"], ["s"])]
        a = "a"
    if mask:
        nodes.append(N("Add", ["s", "m"], ["masked"]))
    nodes += [
        N("Softmax", ["masked" if mask else "s"], ["p"], axis=-1),
        N("MatMul", ["p", v], ["y4"]),
        N("Transpose", [v], ["vt"], perm=_TURNED),
        N("MatMul", [dy, "vt"], ["dp"]),
        N("Mul", [dy, "y4"], ["products"]),
        N("ReduceSum", ["products", "three"], ["total"], keepdims=1),
        N("Sub", ["dp", "total"], ["apart"]),
        N("Mul", ["p", "apart"], ["ds"]),
    ]
    ds = "ds"
    if scores:
        nodes.append(N("Mul", ["ds", "c"], ["ds1"]))
        ds = "ds1"
    nodes += [
        N("Transpose", [dy], ["dyt"], perm=_TURNED),
        N("MatMul", ["dyt", "p"], ["dvt"]),
        N("Transpose", [ds], ["dst"], perm=_TURNED),
        N("MatMul", ["dst", a], ["dk4"]),
        N("MatMul", [ds, k], ["da"]),
        N("Identity", ["da"], ["dq4"]) if scores else N("Mul", ["da", "c"], ["dq4"]),
    ]
    order = [0, 3, 1, 2] if last else _TURNED
    nodes.append(N("Transpose", ["dvt"], ["dv"], perm=order))
    for x in ("y", "dq", "dk"):
        nodes.append(
            N("Transpose", [f"{x}4"], [x], perm=_LAST) if last else N("Identity", [f"{x}4"], [x])
        )
    sizes = {"q": (t, d), "k": (s, d), "v": (s, e), "dy": (t, e)}
    inputs = {
        x: (FLOAT, [n, rows, h, width] if last else [n, h, rows, width])
        for x, (rows, width) in sizes.items()
    }
    if mask:
        inputs["m"] = FLOAT, list(mask)
    constants = {"c": np.float32(d**-0.5), "three": np.int64([3])}
    return model_of(nodes, inputs, ["y", "dq", "dk", "dv"], constants)


def fused(made):
    """Return (the fused model, its library, what was found)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    source, found = fuse(copy, kinds_of(made))
    return copy, None if source is None else build(source), found


def feeds_of(made, seed=0):
    rng = np.random.default_rng(seed)
    return {
        v.name: rng.normal(size=[d.dim_value for d in v.type.tensor_type.shape.dim]).astype("f")
        for v in made.graph.input
    }


def compare(made, feeds, tolerance=3e-6):
    """Check the fused model against the other one; return its results."""
    changed, library, found = fused(made)
    assert (found.forward, found.backward) == (1, 1)
    assert sum(node.domain == DOMAIN for node in changed.graph.node) == 2
    expected, result = run(made, feeds), run(changed, feeds, library)
    for name, x in expected.items():
        y = result[name]
        assert x.shape == y.shape and (np.isnan(x) == np.isnan(y)).all(), name
        kept = np.isfinite(x) & np.isfinite(y)
        assert (np.isinf(x) <= ~np.isfinite(y)).all(), name
        scale = np.abs(x[kept]).max(initial=1e-3)
        assert np.abs(x[kept] - y[kept]).max(initial=0) <= tolerance * scale, name
    return result


CASES = {
    "one key and query more than a block": {"n": 2, "h": 3, "t": 25, "s": 25, "d": 8, "e": 8},
    "other widths": {"n": 1, "h": 2, "t": 40, "s": 19, "d": 17, "e": 5},
    "heads behind steps": {"n": 2, "h": 2, "t": 33, "s": 33, "d": 20, "e": 20, "last": True},
    "scaled scores": {"n": 2, "h": 2, "t": 20, "s": 30, "d": 16, "e": 16, "scores": True},
    "more heads than parts": {"n": 9, "h": 2, "t": 16, "s": 16, "d": 4, "e": 4},
    "one vector of columns": {"n": 1, "h": 1, "t": 300, "s": 17, "d": 1, "e": 1},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sizes(case):
    compare(model(**case), feeds_of(model(**case)))


def causal(t, s, hidden):
    return np.where(np.tril(np.ones((t, s))) > 0, 0, hidden).astype("f")


MASKS = {
    "causal": (40, 40),
    "of a batch": (2, 1, 1, 40),
    "of all": (2, 3, 40, 40),
    "of heads": (3, 1, 40),
}


@pytest.mark.parametrize("hidden", [-np.inf, -1e9, -1.7e38, -5.0])
@pytest.mark.parametrize("sizes", MASKS.values(), ids=MASKS)
def test_masks(sizes, hidden):
    """Keys that a mask hides are left out, which changes nothing."""
    made = model(2, 3, 40, 40, 16, 16, mask=sizes)
    feeds = feeds_of(made)
    if len(sizes) == 2:
        feeds["m"] = causal(40, 40, hidden)
    else:
        rng = np.random.default_rng(1)
        feeds["m"] = np.where(np.arange(40) < rng.integers(1, 41, (*sizes[:-1], 1)), 0, hidden)
        feeds["m"] = np.broadcast_to(feeds["m"], sizes).astype("f")
    compare(made, feeds)


SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 1e-41, 1e30]


@pytest.mark.parametrize("value", SPECIAL)
@pytest.mark.parametrize("name", ["q", "k", "v", "dy", "m"])
def test_special_values(name, value):
    """NaN and infinities reach what they reach in the unfused operators, hidden keys included."""
    made = model(1, 2, 30, 30, 8, 8, mask=(30, 30))
    feeds = feeds_of(made)
    feeds["m"] = causal(30, 30, -1.7e38)
    feeds[name].reshape(-1)[-40 if name != "m" else 40] = value
    changed, library, _ = fused(made)
    expected, result = run(made, feeds), run(changed, feeds, library)
    largest = 0.01 * value if value > 1 and np.isfinite(value) else 0  # differences cancel out
    for key, x in expected.items():
        np.testing.assert_array_equal(np.isfinite(x), np.isfinite(result[key]), key)
        kept = np.isfinite(x)
        scale = max(np.abs(x[kept]).max(initial=1e-3), largest)
        assert np.abs(x[kept] - result[key][kept]).max(initial=0) <= 1e-5 * scale


def test_products_of_hidden_values_that_overflow():
    """An infinite product of a value with a gradient is NaN behind a weight of 0."""
    made = model(1, 2, 30, 30, 8, 8, mask=(30, 30))
    feeds = feeds_of(made)
    feeds["m"] = causal(30, 30, -1.7e38)
    feeds["v"][..., 29, :] = feeds["dy"][..., 0, :] = 1e20
    changed, library, _ = fused(made)
    expected, result = run(made, feeds), run(changed, feeds, library)
    assert np.isnan(expected["dq"]).any()
    for key, x in expected.items():
        np.testing.assert_array_equal(np.isfinite(x), np.isfinite(result[key]), key)


def test_no_key_is_visible():
    """Rows of -infinity are NaN, and those of the lowest number equal weights."""
    made = model(1, 1, 20, 20, 4, 4, mask=(20, 20))
    for value in (-np.inf, np.finfo("f").min):
        feeds = feeds_of(made)
        feeds["m"] = np.zeros((20, 20), "f")
        feeds["m"][3] = value
        compare(made, feeds)


def test_results_do_not_depend_on_threads():
    made = model(3, 4, 60, 60, 16, 16, mask=(60, 60))
    feeds = feeds_of(made)
    changed, library, _ = fused(made)
    first = run(changed, feeds, library)
    for _ in range(3):
        for name, x in run(changed, feeds, library).items():
            assert x.tobytes() == first[name].tobytes()


def kept(change):
    """A model after a change of its nodes is no attention."""
    made = model(1, 2, 20, 20, 8, 8)
    change(made.graph)
    return fused(made)[2].forward


def _fetch_weights(graph):
    graph.output.append(onnx.ValueInfoProto(name="p"))


def _other_axis(graph):
    node = next(n for n in graph.node if n.op_type == "Softmax")
    node.attribute[0].i = 1


def _other_gradient(graph):
    node = next(n for n in graph.node if n.output[0] == "products")
    node.input[0] = "q"


def _other_values(graph):
    node = next(n for n in graph.node if n.output[0] == "vt")
    node.input[0] = "k"


@pytest.mark.parametrize("change", [_fetch_weights, _other_axis, _other_gradient, _other_values])
def test_what_stays(change):
    assert kept(change) == 0


def test_few_steps_stay():
    made = model(1, 2, 15, 40, 8, 8)
    assert fused(made)[2].forward == 0


@pytest.mark.parametrize("form", [{"is_causal": True}, {}, {"mask": True}])
def test_layers(form):
    """Training steps and inference of a layer, for other batches than the first, and none."""
    x = pd.Variable([None, 32, 24])
    layer = pd.nn.MultiHeadAttention(24, 3, causal=form.get("is_causal", False))
    mask = pd.Variable([None, 1, 1, 32]) if "mask" in form else None
    y = layer(x) if mask is None else layer(x, mask=mask)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(y)))
    results = []
    for is_fused in (False, True):
        with pd.Session(fused=is_fused):
            found = []
            rng = np.random.default_rng(0)
            for n in (3, 1, 5):
                feeds = {x: rng.normal(size=(n, 32, 24)).astype("f")}
                if mask is not None:
                    feeds[mask] = np.where(rng.random((n, 1, 1, 32)) < 0.7, 0, -1e9).astype("f")
                found += pd.eval([y, step], feeds)[:1]
                found.append(pd.eval(y, feeds))
            feeds = {v: a[:0] for v, a in feeds.items()}
            found.append(pd.eval(y, feeds))
        results.append(found)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_layers_are_fused(monkeypatch):
    counts = []

    def counted(*arguments):
        source, found = fuse(*arguments)
        counts.append((found.forward, found.backward))
        return source, found

    monkeypatch.setattr(program, "FUSERS", [program.Fuser(counted)])
    monkeypatch.setattr(program, "_remembered", lambda name: None)  # but libraries are
    pd.clear_programs()
    x = pd.Variable([None, 18, 12])
    y = pd.nn.MultiHeadAttention(12, 2, causal=True)(x)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(y))
    with pd.fused():
        pd.eval(y, {x: np.ones((2, 18, 12), "f")})
        pd.eval(step, {x: np.ones((2, 18, 12), "f")})
    assert counts == [(1, 0), (1, 1)]
