"""Sizes that a file leaves open, where they meet others, and where loops have no steps."""

import itertools

import numpy as np
import pytest
from onnx import parser

import pd_core as pd
from pd_core.backend import ort

from ...training.tuning import models

HEAD = '<ir_version: 8, opset_import: ["": 18]> g '


def model_of(inputs, nodes, outputs="y"):
    kinds = ", ".join(f"float[?] {y}" for y in outputs.split())
    model = parser.parse_model(f"{HEAD}({inputs}) => ({kinds}) {{ {nodes} }}")
    for y in model.graph.output:
        y.type.tensor_type.ClearField("shape")
    return model


def beside_the_runtime(model, feeds):
    """Compare values of an import whose sizes are not known, and return (slots, outputs)."""
    wanted = ort.session(model.SerializeToString()).run(None, feeds)
    f = pd.import_onnx(model)
    slots = {
        n: pd.Variable(n, shape=[d or None for d in f.inputs[n][0]], dtype=a.dtype)
        for n, a in feeds.items()
    }
    outputs = f(**slots)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    for a, b in zip(pd.eval(outputs, {slots[n]: x for n, x in feeds.items()}), wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5)
    exported = pd.export_onnx(None, outputs, inputs=list(slots.values()))
    found = ort.session(exported.SerializeToString()).run(None, feeds)
    assert [a.shape for a in found] == [b.shape for b in wanted]
    return slots, outputs


def slopes(slots, outputs, feeds):
    """Compare gradients with differences of float64, one number at a time."""
    (y,) = outputs
    cost = pd.reduce_sum(pd.sin(y))
    free = [n for n, x in feeds.items() if x.dtype == np.float32]
    arrays = pd.eval(
        pd.gradients(cost, [slots[n] for n in free]), {slots[n]: x for n, x in feeds.items()}
    )
    for n, g in zip(free, arrays, strict=True):
        assert g.shape == feeds[n].shape
        step = np.zeros_like(feeds[n])
        for at in np.ndindex(g.shape):
            step[at] = 1e-2
            up, down = (
                pd.eval(cost, {slots[m]: x + k * step if m == n else x for m, x in feeds.items()})
                for k in (1, -1)
            )
            np.testing.assert_allclose(g[at], (up - down) / 2e-2, rtol=2e-2, atol=2e-2)
            step[at] = 0


NODES = {
    "Mul": "y = Mul(a, b)",
    "twice": "c = Add(a, b) y = Mul(c, a)",
    "Where": "c = Greater(a, b) y = Where(c, a, b)",
    "Max": "y = Max(a, b)",
    "PRelu": "y = PRelu(a, b)",
    "Sum": "y = Sum(b, a)",
}


SIZES = [(3, 1), (1, 3), (3, 3), (1, 1)]
# the slope of PRelu does not widen x
PAIRS = [pair for pair in itertools.product(NODES, SIZES) if pair != ("PRelu", (1, 3))]


@pytest.mark.parametrize("name, sizes", PAIRS, ids=str)
def test_open_sizes_that_meet(name, sizes, rng):
    feeds = {
        n: rng.uniform(0.5, 2, (k, 2)).astype("float32") for n, k in zip("ab", sizes, strict=True)
    }
    slots, outputs = beside_the_runtime(model_of("float[n,2] a, float[m,2] b", NODES[name]), feeds)
    slopes(slots, outputs, feeds)


@pytest.mark.parametrize("inputs", ["float[n,2] a, float[3,2] b", "float[3,2] b, float[n,2] a"])
@pytest.mark.parametrize("size", [1, 3])
def test_an_open_size_beside_a_number(inputs, size, rng):
    feeds = {"a": rng.uniform(0.5, 2, (size, 2)), "b": rng.uniform(0.5, 2, (3, 2))}
    feeds = {n: x.astype("float32") for n, x in feeds.items()}
    model = model_of(inputs, "y = Mul(a, b)")
    slots, outputs = beside_the_runtime(model, {i.name: feeds[i.name] for i in model.graph.input})
    slopes(slots, outputs, feeds)


@pytest.mark.parametrize(
    "inputs, nodes, shapes",
    [
        ("float[n,2,3] a, float[m,3,2] b", "y = MatMul(a, b)", [(1, 2, 3), (2, 3, 2)]),
        ("float[2,3] a, float[3,2] c, float[n,2] b", "y = Gemm(a, c, b)", [(2, 3), (3, 2), (1, 2)]),
        ("float[n] a", "s = Constant<value=int64[1] {3}>() y = Expand(a, s)", [(1,)]),
    ],
    ids=["MatMul", "Gemm", "Expand"],
)
def test_open_sizes_of_other_operators(inputs, nodes, shapes, rng):
    model = model_of(inputs, nodes)
    names = [i.name for i in model.graph.input]
    feeds = {
        n: rng.uniform(0.5, 1, s).astype("float32") for n, s in zip(names, shapes, strict=True)
    }
    slots, outputs = beside_the_runtime(model, feeds)
    slopes(slots, outputs, feeds)


def test_an_index_of_a_part_of_an_axis(rng):
    model = model_of("float[n,m] a, int64[k,m2] i", "y = GatherElements<axis=0>(a, i)")
    feeds = {"a": rng.standard_normal((3, 4)).astype("float32"), "i": np.array([[2, 0], [1, 1]])}
    slots, outputs = beside_the_runtime(model, feeds)
    slopes(slots, outputs, feeds)


def test_sizes_of_one_name_are_equal(rng):
    f = pd.import_onnx(model_of("float[n,2] a, float[n,2] b", "y = Mul(a, b)"))
    a, b = (pd.Variable(n, shape=[None, 2]) for n in "ab")
    y = f(a, b)
    assert y.dims[0] in (a.dims[0], b.dims[0])
    with pytest.raises(pd.ShapeError, match="must be equal"):
        pd.eval(y, {a: np.ones((3, 2)), b: np.ones((1, 2))})


LOOP = (
    "s, ys = Loop(n, , x) <body = b (int64 i, bool c, float[{0}] v) => (bool d, float[{0}] w,"
    " float[{0}] z) {{ d = Identity(c) w = Add(v, v) z = Mul(v, v) }}>"
)


@pytest.mark.parametrize(
    "sizes, x",
    [
        *(("2,3", x) for x in ("float[2,3] x", "float[?,3] x", "float[?,?] x")),
        *(("a,3", x) for x in ("float[?,3] x", "float[?,?] x")),
    ],
)
def test_a_loop_without_steps(sizes, x):
    model = model_of(f"int64 n, {x}", LOOP.format(sizes), "s ys")
    for trips in (0, 2):
        with pd.fresh():
            beside_the_runtime(model, {"n": np.array(trips), "x": np.ones((2, 3), "float32")})


def test_a_state_that_grows_has_sizes_of_its_own(rng):
    """The name of an input's size is not that of a state that begins with it."""
    body = "{ d = Identity(c) w = Concat<axis=0>(v, x) }"
    nodes = f"s = Loop(n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) {body}>"
    model = model_of("int64 n, float[N,2] x, float[N,2] y", f"{nodes} z = Add(y, y)", "s z")
    model.graph.node[0].attribute[0].g.input[2].type.tensor_type.ClearField("shape")
    for n in (0, 1, 3):
        arrays = {"n": np.array(n), **{k: rng.normal(size=(2, 2)).astype("float32") for k in "xy"}}
        with pd.fresh():
            slots, (s, z) = beside_the_runtime(model, arrays)
            assert s.dims[0] not in (slots["x"].dims[0], z.dims[0])


ENDS = (-(2**63), -7, -2, 0, 4, 2**31 - 1, 2**63 - 1)


@pytest.mark.parametrize("step", [2, -1, -2])
@pytest.mark.parametrize(
    "x, taken",
    [
        ("float[5] x", "Identity(x)"),
        ("float[?] x", "Identity(x)"),
        ("float[?] x", "Constant<value=int64[5] {0,1,2,3,4}>()"),
        ("float[?] x", "Shape(x)"),
    ],
    ids=["axis of known size", "axis of open size", "constant", "size"],
)
def test_bounds_of_slices_beyond_the_axis(x, taken, step):
    """ONNX Runtime's: a step backward from before the axis begins with its first element."""
    nodes, names = f"v = {taken} s = Constant<value=int64[1] {{{step}}}>() t = Abs(x) ", ["t"]
    for k, (a, b) in enumerate(itertools.product((-7, -2, 0, 6), ENDS)):
        names.append(f"y{k}")
        nodes += (
            f"a{k} = Constant<value=int64[1] {{{a}}}>() b{k} = Constant<value=int64[1] {{{b}}}>()"
        )
        nodes += f"z{k} = Slice(v, a{k}, b{k}, , s) y{k} = Cast<to=1>(z{k}) "
    array = np.arange(5, dtype="float32")
    slots, outputs = beside_the_runtime(model_of(x, nodes, " ".join(names)), {"x": array})
    with pd.Session("reference") as session:
        again = session.eval(outputs, {slots["x"]: array})
    for y, a, b in zip(outputs, again, pd.eval(outputs, {slots["x"]: array}), strict=True):
        assert all(isinstance(d, str) or d == n for d, n in zip(y.dims, a.shape, strict=True))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("dims", "left", "feed"),
    [("N,1,3", "N,3", (2, 1, 3)), ("N,2,M", "N,2,M", (2, 2, 3)), ("N,2,M", "2", (1, 2, 1))],
)
def test_axes_that_are_squeezed_by_what_the_file_declares(dims, left, feed, rng):
    """Squeeze without axes: open sizes stay where the file declares as many as are left then."""
    model = parser.parse_model(f"{HEAD}(float[{dims}] x) => (float[{left}] y) {{ y = Squeeze(x) }}")
    feeds = {"x": rng.standard_normal(feed).astype("float32")}
    slots, (y,) = beside_the_runtime(model, feeds)
    slopes(slots, [y], feeds)
    if left == "N,3":  # where ONNX Runtime gives another rank than the file says
        assert pd.eval(y, {slots["x"]: feeds["x"][:1]}).shape == (1, 3)


def test_a_file_that_gives_two_sizes_one_name(rng):
    """Its steps run: with the name for both, ONNX Runtime takes the memory of one for the other."""
    model = parser.parse_model(
        f"{HEAD}(float[N,N] x) => (float[N,N] y)"
        " <float[3,4] w = {1,-2,3,4,5,-6,7,8,9,1,-2,3}> { h = MatMul(x, w) y = Relu(h) }"
    )
    f, x = pd.import_onnx(model), pd.Variable([None, None], name="x")
    y = f(x)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y * y))
    exported = pd.export_step(None, step, [y], inputs=[x])
    names = [d.dim_param for d in exported.graph.input[0].type.tensor_type.shape.dim]
    assert names == ["N", "N_2"]
    rows = rng.standard_normal((2, 3)).astype("float32")
    found = models.run(exported, plain=False, x=rows)
    pd.eval(step, {x: rows})
    np.testing.assert_allclose(found[1], f.parameters["w"].eval(), rtol=1e-5)
