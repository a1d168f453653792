"""Import of rare ONNX constructs: sparse tensors, sequences from loops, fed statistics."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import pd_core as pd
from pd_core.backend import ort
from pd_core.onnx.importing import sparse

from .test_import import arrays_of, compared, model_of

# ---- sparse tensors


def sparse_tensor(rng, dims, name="w", flat=True, dtype=np.float32):
    """A random sparse tensor, and the array that it stands for."""
    size = int(np.prod(dims))
    places = np.sort(rng.permutation(size)[: max(1, size // 3)])
    values = rng.standard_normal(len(places)).astype(dtype)
    array = np.zeros(size, dtype)
    array[places] = values
    indices = places if flat else np.stack(np.unravel_index(places, dims), 1)
    parts = numpy_helper.from_array(values, name), numpy_helper.from_array(indices, f"{name}_at")
    return helper.make_sparse_tensor(*parts, dims), array.reshape(dims)


def constant_of(tensor, name):
    return helper.make_node("Constant", [], [name], sparse_value=tensor)


IN_BODY = (
    "n = Constant<value=int64 {2}>() c = Constant<value=bool {1}>() y = Loop(n, c, x)"
    " <body = g (int64 i, bool p, float[3,4] h) => (bool q, float[3,4] h2)"
    " { q = Identity(p) a = Mul(h, w) h2 = Sin(a) }>"
)
IN_FUNCTION = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
model (float[3,4] x) => (float[3,4] y) { y = own.f(x) }
<opset_import: ["": 17], domain: "own"> f (x) => (y) { y = Mul(x, w) }"""


def with_sparse(where, tensor):
    """A model that multiplies x [3, 4] with a sparse tensor w that is stored somewhere."""
    if where == "function":
        model = parser.parse_model(IN_FUNCTION)
        model.functions[0].node.insert(0, constant_of(tensor, "w"))
        return model
    body = where.startswith("body")
    model = model_of(16, "float[3,4] x", "float[?] y", IN_BODY if body else "y = Mul(x, w)")
    graph = model.graph
    if body:
        graph = next(a.g for n in graph.node for a in n.attribute if a.name == "body")
    if where.endswith("initializer"):
        graph.sparse_initializer.append(tensor)
    else:
        graph.node.insert(0, constant_of(tensor, "w"))
    return model


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "coordinates"])
@pytest.mark.parametrize("where", ["initializer", "constant", "body constant", "function"])
def test_sparse_tensors(where, flat, rng):
    tensor, array = sparse_tensor(rng, [3, 4], flat=flat)
    model = with_sparse(where, tensor)
    before = model.SerializeToString()
    x = pd.Variable([3, 4])
    y = pd.import_onnx(model)(x=x)  # ONNX Runtime 1.31 reads such files, and crashed twice
    assert model.SerializeToString() == before
    value = rng.standard_normal((3, 4)).astype("float32")
    wanted = np.sin(np.sin(value * array) * array) if "body" in where else value * array
    np.testing.assert_allclose(pd.eval(y, {x: value}), wanted, atol=1e-6)


def test_a_sparse_weight_is_trained_as_a_dense_one(rng):
    tensor, array = sparse_tensor(rng, [6, 5], flat=False)
    model = model_of(17, "float[2,6] x", "float[?] y", "y = MatMul(x, w)")
    model.graph.sparse_initializer.append(tensor)
    f = pd.import_onnx(model, trainable="w")
    np.testing.assert_array_equal(f.parameters["w"].eval(), array)
    x = rng.standard_normal((2, 6)).astype("float32")
    y = f(pd.constant(x))
    pd.eval(pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(y)))
    wanted = array - x.sum(0)[:, None]
    np.testing.assert_allclose(f.parameters["w"].eval(), wanted, atol=1e-6)


@pytest.mark.parametrize("dims", [(7,), (2, 3), (2, 3, 4), (5, 1, 2), ()], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
def test_dense_tensors_of_sparse_ones(dims, dtype, rng):
    for flat in (True, False) if dims else (True,):
        tensor, array = sparse_tensor(rng, dims, flat=flat)
        tensor.values.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(tensor.values).astype(dtype), "w")
        )
        found = numpy_helper.to_array(sparse.dense(tensor))
        np.testing.assert_array_equal(found, array.astype(dtype))
        assert found.dtype == dtype


def changed(tensor, values=None, indices=None, dims=None):
    if values is not None:
        tensor.values.CopyFrom(numpy_helper.from_array(np.float32(values), "w"))
    if indices is not None:
        tensor.indices.CopyFrom(numpy_helper.from_array(np.array(indices), "w_at"))
    if dims is not None:
        tensor.dims[:] = dims


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"indices": [0, 3, 12, 5]}, pd.DamagedModel, r"indices beyond its sizes \[3, 4\]"),
        ({"indices": [0, -1, 2, 5]}, pd.DamagedModel, r"indices beyond its sizes \[3, 4\]"),
        (
            {"indices": [[0, 1], [3, 0], [0, 0], [0, 2]]},
            pd.DamagedModel,
            r"indices beyond its sizes \[3, 4\]",
        ),
        ({"indices": [0, 1]}, pd.DamagedModel, r"values .* shape \[4\], and its indices \[2\]"),
        ({"indices": [[0], [1], [2], [3]]}, pd.DamagedModel, r"indices \[4, 1\], of 2 axes"),
        ({"indices": [0.0, 1.0, 2.0, 3.0]}, pd.DamagedModel, "its indices are float64, not int64"),
        ({"values": [[1.0, 2.0, 3.0, 4.0]]}, pd.DamagedModel, r"of the shape \[1, 4\]"),
        ({"dims": [-3, -4]}, pd.DamagedModel, r"its sizes are \[-3, -4\]"),
        ({"dims": [1 << 20, 1 << 20]}, pd.ModelError, "has 1099511627776 elements; up to"),
    ],
)
def test_sparse_tensors_that_are_refused(changes, error, why, rng):
    tensor, _ = sparse_tensor(rng, [3, 4])
    changed(tensor, **changes)
    with pytest.raises(error, match=f"the sparse tensor 'w' .*{why}"):
        pd.import_onnx(with_sparse("initializer", tensor))


# ---- sequences as states of loops, and out of branches


def collecting(count, ends="q = Identity(p)", more="", outputs=""):
    """A loop whose state is a sequence, to which each step adds an element."""
    return (
        f"{count} c = Constant<value=bool {{1}}>() e = SequenceEmpty<dtype=1>()"
        f" s{outputs} = Loop(n, c, e) <body = g (int64 i, bool p, seq(float[3]) h)"
        f" => (bool q, seq(float[3]) h2{more}) {{ {ends} f = Cast<to=1>(i) a = Add(x, f)"
        " b = Sin(a) k = Mul(b, b) h2 = SequenceInsert(h, b) }>"
        " y = ConcatFromSequence<axis=0,new_axis=1>(s)"
    )


N3 = "n = Constant<value=int64 {3}>()"
EARLY = "two = Constant<value=int64 {1}>() q = Less(i, two)"
LOOPS = {
    "collects": (collecting(N3), "float[?] y"),
    "of one": (collecting("n = Constant<value=int64[1] {1}>()"), "float[?] y"),
    "ends early": (collecting(N3, EARLY), "float[?] y"),
    "stacks, too": (collecting(N3, more=", float[3] k", outputs=", t"), "float[?] y, float[?] t"),
    "as often as x is long": (
        collecting("l = Shape(x) z = Constant<value=int64 {0}>() n = Gather(l, z)"),
        "float[?] y",
    ),
    "no state changes": (
        f"{N3} c = Constant<value=bool {{1}}>() e = SequenceConstruct(x, x) s = Loop(n, c, e)"
        " <body = g (int64 i, bool p, seq(float[3]) h) => (bool p, seq(float[3]) h) { }>"
        " y = ConcatFromSequence<axis=0>(s)",
        "float[?] y",
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_a_loop_over_a_sequence_is_written_out(case, rng):
    nodes, outputs = LOOPS[case]
    model = model_of(16, "float[3] x", outputs, nodes)
    slots, found = compared(model, {"x": rng.standard_normal(3).astype("float32")})
    x = slots["x"]
    (g,) = pd.gradients(sum(map(pd.reduce_sum, found)), [x])
    start, way = rng.standard_normal((2, 3)).astype("float32")
    session = ort.session(model.SerializeToString())

    def total(width):
        return sum(y.astype(float).sum() for y in session.run(None, {"x": start + width * way}))

    slope = (total(np.float32(1e-2)) - total(np.float32(-1e-2))) / 2e-2
    assert pd.eval(g, {x: start}) @ way == pytest.approx(slope, rel=1e-2, abs=1e-2)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (collecting("l = ReduceMax<keepdims=0>(x) n = Cast<to=7>(l)"), "how often it runs is not"),
        (
            collecting(N3, "u = ReduceMax<keepdims=0>(x) z = Sub(u, u) q = Greater(u, z)"),
            "when it ends is not known",
        ),
        (
            collecting("n = Constant<value=int64 {0}>()", more=", float[3] k", outputs=", t")
            + " w = Neg(t)",
            "no elements of its other outputs",
        ),
    ],
)
def test_loops_over_sequences_that_are_refused(nodes, why):
    model = model_of(16, "float[3] x", "float[?] w" if "w =" in nodes else "float[?] y", nodes)
    with pytest.raises(pd.ModelError, match=f"Loop: its state is a sequence, and .*{why}"):
        pd.import_onnx(model)(pd.Variable([3]))


def branches(first, second):
    return (
        f"s = If(c) <then_branch = a () => (seq(float[3]) u) {{ {first} }},"
        f" else_branch = b () => (seq(float[3]) v) {{ {second} }}>"
        " i = Constant<value=int64 {1}>() y = SequenceAt(s, i)"
    )


TWO = "n = Neg(x) v = SequenceConstruct(x, n)"


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("condition", ["bool c", "bool[1] c", "bool[N] c"])
def test_sequences_out_of_branches(condition, given, rng):
    nodes = branches("e = Exp(x) u = SequenceConstruct(e, e)", TWO)
    model = model_of(16, f"float[3] x, {condition}", "float[?] y", nodes)
    c = np.array(given) if condition == "bool c" else np.array([given])
    compared(model, {"x": rng.standard_normal(3).astype("float32"), "c": c})


def test_branches_with_sequences_of_other_lengths():
    nodes = branches("u = SequenceConstruct(x, x, x)", TWO)
    model = model_of(16, "float[3] x, bool c", "float[?] y", nodes)
    with pytest.raises(pd.ModelError, match=r"sequences of other lengths, \[3\] and \[2\]"):
        pd.import_onnx(model)(pd.Variable([3]), pd.Variable([], dtype="bool"))


# ---- running statistics that are fed: ONNX Runtime writes the new ones over them

NORMALISED = "y, a, c = BatchNormalization<training_mode=1>(x, s, s, m, v)"
INPUTS = "float[4,3,2] x, float[3] s, float[3] m, float[3] v"


@pytest.mark.parametrize("nodes", [f"{NORMALISED} z = Neg(a)", f"{NORMALISED} w = Exp(c)"])
def test_statistics_that_are_fed_stay_as_they_are(nodes, rng):
    last = "z" if "z =" in nodes else "w"
    model = model_of(15, INPUTS, f"float[?] y, float[?] {last}", nodes)
    feeds = arrays_of(model, rng) | {"v": np.float32([1.0, 2.0, 3.0])}
    copies = {n: a.copy() for n, a in feeds.items()}
    f = pd.import_onnx(model)
    slots = {n: pd.Variable.of(a.shape, a.dtype, n) for n, a in feeds.items()}
    found = f(**slots)
    fed = {slots[n]: a for n, a in feeds.items()}
    pd.eval(list(found), fed)
    pd.eval(pd.gradients(sum(map(pd.reduce_sum, found)), [slots["x"]]), fed)
    exported = pd.export_onnx(None, list(found))
    ort.session(exported.SerializeToString()).run(None, {v.name: a for v, a in fed.items()})
    for name, array in feeds.items():
        np.testing.assert_array_equal(array, copies[name], err_msg=name)


# ---- slopes of resizing that keeps an aspect ratio, and of ConvTranspose by auto_pad


def slope_is_that_of_differences(model, feeds, rng):
    """Compare the derivative of the sum of sines of y along a direction with differences."""
    f = pd.import_onnx(model)
    slots = {n: pd.Variable([None] * a.ndim if f.inputs[n][0][-1] is None else list(a.shape))
             for n, a in feeds.items()}  # fmt: skip
    cost = pd.reduce_sum(pd.sin(f(**slots)))
    fed = {slots[n]: a for n, a in feeds.items()}
    found = pd.eval(pd.gradients(cost, list(slots.values())), fed)
    ways = {n: rng.standard_normal(a.shape).astype("float32") for n, a in feeds.items()}
    session = ort.session(model.SerializeToString())

    def total(width):
        moved = {n: a + np.float32(width) * ways[n] for n, a in feeds.items()}
        return np.sin(session.run(None, moved)[0].astype(float)).sum()

    slope = (total(1e-2) - total(-1e-2)) / 2e-2
    given = sum(float((g * w).sum()) for g, w in zip(found, ways.values(), strict=True))
    assert given == pytest.approx(slope, rel=1e-2, abs=1e-2)


POLICIES = list(
    itertools.product(
        ("not_larger", "not_smaller"), ("linear", "nearest"), ((2, 6), (4, 3), (8, 6))
    )
)


@pytest.mark.parametrize(("policy", "mode", "sizes"), POLICIES, ids=str)
def test_slopes_of_an_image_that_keeps_its_aspect_ratio(policy, mode, sizes, rng):
    nodes = (
        f"s = Constant<value=int64[2] {{{sizes[0]},{sizes[1]}}}>() y = Resize<axes=[2,3],"
        f'mode="{mode}",keep_aspect_ratio_policy="{policy}">(x,,,s)'
    )
    model = model_of(19, "float[1,2,4,6] x", "float[?] y", nodes)
    slope_is_that_of_differences(model, arrays_of(model, rng), rng)


SAME = list(
    itertools.product(
        ("SAME_UPPER", "SAME_LOWER"),
        ((3, 2, 1, 0), (2, 1, 1, 0), (3, 2, 2, 0), (5, 3, 1, 0), (3, 2, 1, 1), (2, 3, 1, 0)),
    )
)


@pytest.mark.parametrize(("kind", "sizes"), SAME, ids=str)
def test_slopes_of_transposed_convolutions_of_any_size(kind, sizes, rng):
    window, stride, dilation, more = sizes
    nodes = (
        f"y = ConvTranspose<strides=[{stride}],dilations=[{dilation}],output_padding=[{more}],"
        f'auto_pad="{kind}">(x, w)'
    )
    model = model_of(13, f"float[1,2,N] x, float[2,3,{window}] w", "float[?] y", nodes)
    slope_is_that_of_differences(model, arrays_of(model, rng), rng)
    assert onnx.checker.check_model(pd.export_onnx(None, pd.import_onnx(model)(
        pd.Variable([1, 2, None]), pd.Variable([2, 3, window])))) is None  # fmt: skip


# ---- sequences and optional values as inputs


def with_input(kind, nodes):
    """A model whose first input has another type."""
    model = model_of(18, "float[2] x", "float[?] y", nodes)
    model.graph.input[0].type.CopyFrom(kind)
    return model


FLOATS = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])


def test_a_sequence_is_a_list(rng):
    model = with_input(
        helper.make_sequence_type_proto(FLOATS), "y = ConcatFromSequence<axis=0,new_axis=1>(x)"
    )
    arrays = [rng.standard_normal(2).astype("float32") for _ in range(3)]
    f = pd.import_onnx(model)
    slots = [pd.Variable([2], initializer=lambda s, r: None) for _ in arrays]
    y = f(slots)
    found = pd.eval(
        [y, *pd.gradients(pd.reduce_sum(pd.square(y)), slots)],
        dict(zip(slots, arrays, strict=True)),
    )
    np.testing.assert_array_equal(found[0], np.stack(arrays))
    np.testing.assert_allclose(found[1:], 2 * np.stack(arrays))
    with pytest.raises(pd.ModelError, match="input 'x' is a sequence: a list of Variables"):
        f(slots[0])
    with pytest.raises(pd.DTypeError, match="input 'x' is float32"):
        f([np.zeros(2, "int64")])


@pytest.mark.parametrize("given", [True, False])
def test_an_optional_input_may_be_left_out(given):
    model = with_input(helper.make_optional_type_proto(FLOATS), "y = OptionalHasElement(x)")
    f = pd.import_onnx(model)
    assert bool(pd.eval(f(np.zeros(2, "float32")) if given else f())) == given


# ---- what ONNX's evaluator, its inference or an older opset has in another way


def test_constants_are_folded_as_the_runtime_computes_them(rng):
    model = model_of(17, "float[4] x", "float[?] y", "y = GlobalMaxPool(w)")
    model.graph.initializer.append(
        numpy_helper.from_array(np.float32(rng.standard_normal((2, 3, 4))), "w")
    )
    compared(model, {"x": np.zeros(4, "float32")})


@pytest.mark.parametrize("opset", [10, 11, 12])
def test_the_mask_of_a_dropout_that_drops_nothing(opset):
    model = model_of(opset, "float[4] x", "float[?] y, bool[?] m", "y, m = Dropout(x)")
    compared(model, {"x": np.ones(4, "float32")})


PLAIN = {
    "a window in the padding": (
        "float[1,1,2,2] x",
        "y = MaxPool<ceil_mode=1,kernel_shape=[1,1],strides=[2,2]>(x)",
    ),
    "an average of it": (
        "float[1,1,2,2] x",
        "y = AveragePool<ceil_mode=1,kernel_shape=[3,3],strides=[3,3],pads=[1,1,1,1],"
        "count_include_pad=1>(x)",
    ),
    "axes that are left out": ("float[1,2,3,2] x", "y = MeanVarianceNormalization(x)"),
    "a size that is rounded": (
        "float[1,1,5,4] x",
        's = Constant<value=float[4] {1.0,1.0,2.6,1.0}>() y = Resize<mode="nearest">(x, , s)',
    ),
    "sizes after no scales": (
        "float[1,1,2,4] x",
        "e = Constant<value=float[0] {}>() s = Constant<value=int64[4] {1,1,4,4}>()"
        ' y = Resize<mode="linear">(x, e, e, s)',
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_forms_that_onnx_and_the_runtime_read_in_other_ways(name, rng):
    inputs, nodes = PLAIN[name]
    model = model_of(17, inputs, "float[?] y", nodes)
    arrays = arrays_of(model, rng)
    slots, outputs = compared(model, arrays)
    exported = pd.export_onnx(None, outputs, inputs=list(slots.values()))
    names = [i.name for i in exported.graph.input]
    found = ort.session(exported.SerializeToString()).run(
        None, dict(zip(names, arrays.values(), strict=True))
    )
    wanted = ort.session(model.SerializeToString()).run(None, arrays)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)


def test_a_squeeze_of_sizes_that_are_not_known():
    f = pd.import_onnx(model_of(17, "float[n,m] x", "float[?] y", "y = Squeeze(x)"))
    with pytest.raises(pd.ModelError, match="which axes have a size of 1, to be squeezed"):
        f(pd.Variable([None, None]))


RULES = {
    "an axis at run time": (26, "float[2,3] x, int64 a", "y = CumProd(x, a)", {"a": np.array(-1)}),
    "statistics of float64": (
        *(17, "double[2,3] x, double[3] s", "z, y, d = LayerNormalization(x, s)"),
        {},
    ),
    "a grid of one point": (
        *(20, "float[1,2,3] x", "s = Constant<value=int64[4] {1,1,1,3}>()"),
        {},
    ),
    "regions of unknown sizes": (
        *(16, "float[n,c,h,w] x, float[r,k] b, int64[r] i"),
        "y = RoiAlign<output_height=2,output_width=3>(x, b, i)",
        {"b": np.float32([[0.5, 0.5, 4.2, 3.9]]), "i": np.array([0])},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_slopes_of_rare_forms(name, rng):
    opset, inputs, nodes, held = RULES[name]
    if name == "a grid of one point":
        nodes += " y = AffineGrid<align_corners=1>(x, s)"
    model = model_of(opset, inputs, "float[?] y", nodes)
    dims = {"n": 1, "c": 2, "h": 6, "w": 6}
    arrays = {
        i.name: held[i.name]
        if i.name in held
        else rng.uniform(
            0.5, 2, [dims.get(d.dim_param, d.dim_value) for d in i.type.tensor_type.shape.dim]
        ).astype("float64" if name.endswith("float64") else "float32")
        for i in model.graph.input
    }
    f = pd.import_onnx(model)
    slots = {
        n: pd.Variable([None] * a.ndim if name.startswith("regions") else a.shape, dtype=a.dtype)
        for n, a in arrays.items()
    }
    y = f(**slots)
    cost = pd.reduce_sum(pd.sin(y))
    x, at = slots["x"], arrays["x"]
    direction = rng.standard_normal(at.shape).astype(at.dtype)
    feeds = {slots[n]: a for n, a in arrays.items()}
    slope = np.vdot(pd.eval(pd.gradients(cost, [x])[0], feeds), direction)
    h = 1e-2
    up, down = (pd.eval(cost, {**feeds, x: at + k * h * direction}) for k in (1, -1))
    np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=2e-2, atol=1e-2)
