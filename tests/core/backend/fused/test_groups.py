"""Groups of operators in one kernel, against the same operators unfused, for several sizes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused.build import available
from pd_core.backend.fused.clusters import clusters, ordered
from pd_core.backend.fused.fusion import fuse
from pd_core.backend.fused.groups import DOMAIN
from pd_core.backend.fused.plans import Plan
from tests.core.backend.fused.alone import fused, kinds_of, model_of, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
INPUTS = {
    "x": (FLOAT, ["n", 3, 40]),
    "y": (FLOAT, ["n", 3, 40]),
    "row": (FLOAT, [40]),
    "column": (FLOAT, ["n", 1, 1]),
    "image": (FLOAT, ["n", 6, 5, 8]),
    "channel": (FLOAT, [6, 1, 1]),
    "a": (FLOAT, ["n", 5, 12]),
    "b": (FLOAT, ["n", 12, 19]),
    "c": (FLOAT, [5, 19]),
    "vector": (FLOAT, ["n", 12, 1]),
    "scores": (FLOAT, ["n", 7]),
    "label": (INT64, ["n", 1]),
    "table": (FLOAT, [11, 16]),
    "ids": (INT64, ["n", 4]),
    "flat": (FLOAT, [33]),
    "places": (INT64, ["n"]),
    "wide": (FLOAT, ["n", 300]),
    "heads": (FLOAT, ["n", 2, 16, 48]),
    "mask": (FLOAT, [16, 48]),
    "positions": (FLOAT, [6, "n", 8]),
}
AXES = {(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)}
CONSTANTS = {"axes" + "".join(map(str, axes)): np.array(axes) for axes in sorted(AXES)}
CONSTANTS |= {
    "channels": np.array([0, 2, 3]),
    "eps": np.float32(1e-5),
    "flattened": np.array([-1, 120]),
}
CONSTANTS |= {"both": np.array([-1]), "thirds": np.array([10, 20, 10]), "half": np.float32(0.5)}
CONSTANTS |= {
    "one": np.array([1]),
    "start": np.array([3]),
    "end": np.array([30]),
    "last": np.array([2]),
}
CONSTANTS |= {
    "axes2_": np.array([3]),
    "by 40": np.array([3, 40]),
    "rows of 6": np.array([6, -1]),
    "by 8": np.array([-1, 8]),
    "six": np.float32(6),
    "two": np.array([2]),
    "three": np.array([3]),
    "rows": np.array([6, 0, 5, -1, 3]),
    "rows back": np.array([1, 6, -7, 2, 6]),
}
CONSTANTS |= {"ones": np.ones(40, np.float32), "n140": np.array([0, 4, 10, 3])}


def _reductions():
    """A sum, mean, maximum and minimum along all sets of axes, within other operators."""
    for axes in sorted(AXES):
        name = "axes" + "".join(map(str, axes))
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
            for keep in (0, 1):
                r = f"{op}{name}{keep}"
                yield (
                    r,
                    [
                        N("Mul", ["x", "y"], [f"{r}p"]),
                        N(op, [f"{r}p", name], [f"{r}r"], keepdims=keep),
                        N("Mul", [f"{r}r", "half"], [f"{r}s"]),
                        *([N("Sub", [f"{r}p", f"{r}s"], [f"{r}t"])] if keep else []),
                    ],
                    [f"{r}s", *([f"{r}t"] if keep else [])],
                )


CASES = [
    *_reductions(),
    (
        "softmax",
        [N("Add", ["x", "row"], ["sm0"]), N("Softmax", ["sm0"], ["sm1"], axis=-1)],
        ["sm1"],
    ),
    (
        "softmax1",
        [N("Add", ["x", "row"], ["sn0"]), N("Softmax", ["sn0"], ["sn1"], axis=1)],
        ["sn1"],
    ),
    (
        "logsoftmax",
        [N("Add", ["x", "y"], ["ls0"]), N("LogSoftmax", ["ls0"], ["ls1"], axis=-1)],
        ["ls1"],
    ),
    (
        "layer norm",
        [
            N("Add", ["x", "y"], ["ln0"]),
            N("LayerNormalization", ["ln0", "row", "row"], ["ln1", "lnm", "lni"], axis=-1),
        ],
        ["ln0", "ln1", "lnm", "lni"],
    ),
    (
        "batch norm",
        [
            N("ReduceMean", ["image", "channels"], ["bn0"]),
            N("Sub", ["image", "bn0"], ["bn1"]),
            N("Mul", ["bn1", "bn1"], ["bn2"]),
            N("ReduceMean", ["bn2", "channels"], ["bn3"]),
            N("Add", ["bn3", "eps"], ["bn4"]),
            N("Sqrt", ["bn4"], ["bn5"]),
            N("Div", ["bn1", "bn5"], ["bn6"]),
            N("Mul", ["bn6", "channel"], ["bn7"]),
            N("Relu", ["bn7"], ["bn8"]),
        ],
        ["bn8", "bn5"],
    ),
    (
        "products",
        [
            N("MatMul", ["a", "b"], ["mm0"]),
            N("Add", ["mm0", "c"], ["mm1"]),
            N("Transpose", ["b"], ["mm2"], perm=[0, 2, 1]),
            N("MatMul", ["mm1", "mm2"], ["mm3"]),
            N("Transpose", ["a"], ["mm4"], perm=[0, 2, 1]),
            N("MatMul", ["mm4", "mm1"], ["mm5"]),
            N("MatMul", ["a", "vector"], ["mm6"]),
            N("Transpose", ["mm6"], ["mm7"], perm=[0, 2, 1]),
            N("MatMul", ["mm6", "mm7"], ["mm8"]),
            N("MatMul", ["mm7", "a"], ["mm9"]),
            N("Relu", ["mm5"], ["mm10"]),
            N("Mul", ["mm9", "mm9"], ["mm11"]),
            N("Tanh", ["mm8"], ["mm12"]),
            N("MatMul", ["mm4", "mm6"], ["mm13"]),
            N("Abs", ["mm13"], ["mm14"]),
        ],
        ["mm1", "mm3", "mm10", "mm11", "mm12", "mm14"],
    ),
    (
        "products of sums",
        [
            N("Exp", ["x"], ["ps0"]),
            N("MatMul", ["ps0", "ones"], ["ps1"]),
            N("Log", ["ps1"], ["ps2"]),
        ],
        ["ps2"],
    ),
    (
        "views",
        [
            N("Mul", ["x", "column"], ["v0"]),
            N("Reshape", ["v0", "flattened"], ["v1"]),
            N("Tanh", ["v1"], ["v2"]),
            N("Transpose", ["v0"], ["v3"], perm=[1, 0, 2]),
            N("Neg", ["v3"], ["v4"]),
            N("Split", ["v0", "thirds"], ["v5", "v6", "v7"], axis=2),
            N("Add", ["v5", "v7"], ["v8"]),
            N("Sigmoid", ["v6"], ["v9"]),
            N("Concat", ["v9", "v8"], ["v10"], axis=2),
            N("Slice", ["v10", "start", "end", "last"], ["v11"]),
            N("Sqrt", ["v11"], ["v12"]),
            N("Transpose", ["v8"], ["v13"], perm=[0, 2, 1]),
        ],
        ["v2", "v4", "v10", "v12", "v13"],
    ),
    (
        "one of each row",
        [
            N("Mul", ["scores", "half"], ["g0"]),
            N("LogSoftmax", ["g0"], ["g1"], axis=1),
            N("GatherElements", ["g1", "label"], ["g2"], axis=1),
            N("Neg", ["g2"], ["g3"]),
            N("Softmax", ["g0"], ["g4"], axis=1),
            N("ScatterElements", ["g4", "label", "g3"], ["g5"], axis=1, reduction="add"),
            N("ScatterElements", ["g4", "label", "g3"], ["g6"], axis=1),
        ],
        ["g2", "g3", "g5", "g6"],
    ),
    (
        "rows of a table",
        [
            N("Gather", ["table", "ids"], ["t0"]),
            N("ReduceSum", ["t0", "one"], ["t1"], keepdims=0),
            N("Tanh", ["t1"], ["t2"]),
            N("GatherElements", ["flat", "places"], ["t3"]),
            N("Exp", ["t3"], ["t4"]),
        ],
        ["t1", "t2", "t4"],
    ),
    (
        "long rows",
        [
            N("Exp", ["wide"], ["w0"]),
            N("ReduceSum", ["w0", "axes0"], ["w1"], keepdims=0),
            N("ReduceMean", ["w0", "one"], ["w2"]),
            N("Div", ["w0", "w2"], ["w3"]),
        ],
        ["w1", "w3"],
    ),
    (
        "sizes",
        [
            N("Shape", ["places"], ["s0"]),
            N("Cast", ["s0"], ["s1"], to=FLOAT),
            N("Div", ["half", "s1"], ["s2"]),
            N("Mul", ["scores", "s2"], ["s3"]),
        ],
        ["s3"],
    ),
    (
        "masked rows",  # of three axes, of which the mask has the last
        [
            N("Add", ["heads", "mask"], ["mr0"]),
            N("Softmax", ["mr0"], ["mr1"], axis=-1),
            N("Mul", ["mr1", "heads"], ["mr2"]),
            N("ReduceSum", ["mr2", "axes2_"], ["mr3"], keepdims=1),
            N("Sub", ["heads", "mr3"], ["mr4"]),
            N("Mul", ["mr4", "mr1"], ["mr5"]),
            N("ReduceSum", ["mr5", "axes012"], ["mr6"], keepdims=0),
        ],
        ["mr1", "mr5", "mr6"],
    ),
    (
        "sums of sums",
        [
            N("Exp", ["x"], ["ss0"]),
            N("Reshape", ["ss0", "flattened"], ["ss1"]),
            N("ReduceSum", ["ss1", "axes0"], ["ss2"], keepdims=0),
            N("Reshape", ["ss2", "by 40"], ["ss3"]),
            N("ReduceSum", ["ss3", "axes0"], ["ss4"], keepdims=0),
            N("Mul", ["x", "ss4"], ["ss5"]),
        ],
        ["ss4", "ss5"],
    ),
    (
        "means of means",
        [
            N("Reshape", ["positions", "rows of 6"], ["ms0"]),
            N("ReduceSum", ["ms0", "axes0"], ["ms1"], keepdims=0),
            N("Div", ["ms1", "six"], ["ms2"]),
            N("Reshape", ["ms2", "by 8"], ["ms3"]),
            N("ReduceMean", ["ms3", "axes0"], ["ms4"], keepdims=0),
            N("ReduceSum", ["ms3", "axes0"], ["ms5"], keepdims=0),
            N("Sub", ["positions", "ms4"], ["ms6"]),
            N("Mul", ["ms6", "ms6"], ["ms7"]),
            N("Reshape", ["ms7", "rows of 6"], ["ms8"]),
            N("ReduceSum", ["ms8", "axes0"], ["ms9"], keepdims=0),
            N("Div", ["ms9", "six"], ["msa"]),
            N("Reshape", ["msa", "by 8"], ["msb"]),
            N("ReduceMean", ["msb", "axes0"], ["msc"], keepdims=0),
            N("Sqrt", ["msc"], ["msd"]),
            N("Reshape", ["ms7", "rows of 6"], ["mse"]),
            N("ReduceSum", ["mse", "axes0"], ["msf"], keepdims=0),
            N("Div", ["msf", "six"], ["msg"]),
            N("Reshape", ["msg", "by 8"], ["msh"]),
            N("ReduceSum", ["msh", "axes0"], ["msi"], keepdims=0),
            N("Sqrt", ["msi"], ["msj"]),
        ],
        ["ms4", "ms5", "msd", "msj"],
    ),
    (
        "rows of two values",
        [
            N("Mul", ["positions", "half"], ["rt0"]),
            N("Slice", ["positions", "two", "three", "axes0"], ["rt1"]),
            N("Abs", ["rt1"], ["rt2"]),
            N("Concat", ["rt0", "rt2"], ["rt3"], axis=0),
            N("Gather", ["rt3", "rows"], ["rt4"], axis=0),
            N("Gather", ["rt3", "rows back"], ["rt5"], axis=0),
            N("Add", ["rt4", "rt5"], ["rt6"]),
        ],
        ["rt6"],
    ),
]


SIZES = (1, 2, 65, 300)


def feeds_of(n, seed=0):
    rng = np.random.default_rng(seed)
    drawn = {}
    for name, (kind, dims) in INPUTS.items():
        shape = [n if d == "n" else d for d in dims]
        drawn[name] = rng.normal(0, 1, shape).astype(np.float32)
        if kind == INT64:
            drawn[name] = rng.integers(-7, 7, shape)
    drawn["ids"] = rng.integers(-11, 11, drawn["ids"].shape)
    return drawn


@pytest.fixture(scope="module")
def programs():
    """(unfused, fused, library) of a model with all cases."""
    nodes = [node for _, part, _ in CASES for node in part]
    outputs = [y for _, _, part in CASES for y in part]
    model = model_of(nodes, INPUTS, outputs, CONSTANTS)
    return model, *fused(model, kinds_of(model))


@pytest.fixture(scope="module")
def results(programs):
    model, changed, library = programs
    found = {}
    for n in SIZES:
        feeds = feeds_of(n)
        found[n] = feeds, run(model, feeds), run(changed, feeds, library)
    return found


def test_nothing_is_left(programs):
    left = {node.op_type for node in programs[1].graph.node if node.domain != DOMAIN}
    assert left <= {"Transpose", "Reshape"}


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda k: CASES[k][0])
@pytest.mark.parametrize("n", SIZES)
def test_results(case, n, results):
    feeds, expected, found = results[n]
    summed = np.abs(feeds["x"] * feeds["y"]).sum() / 100  # sums may cancel out
    for y in CASES[case][2]:
        scale = max(1.0, np.abs(expected[y]).max(initial=0, where=np.isfinite(expected[y])))
        scale = max(scale, summed) if "ReduceSumaxes012" in y else scale
        np.testing.assert_allclose(
            found[y], expected[y], rtol=3e-6, atol=2e-6 * scale, err_msg=y, strict=True
        )


def test_no_rows(programs):
    _, changed, library = programs
    found = run(changed, feeds_of(0), library)
    types = kinds_of(programs[0])
    for y, value in found.items():
        known = [0 if d == "n" else d if isinstance(d, int) else None for d in types[y][1]]
        assert all(d in (None, size) for d, size in zip(known, value.shape, strict=True))
    nothing = {"ReduceSum": 0, "ReduceMean": 0, "ReduceMax": -np.inf, "ReduceMin": np.inf}
    for op, value in nothing.items():
        np.testing.assert_array_equal(found[f"{op}axes00s"], np.full([3, 40], value, np.float32))


def test_bits_repeat(programs, results):
    _, changed, library = programs
    feeds, _, first = results[300]
    again = run(changed, feeds, library)
    for y, value in first.items():
        np.testing.assert_array_equal(again[y], value)


def test_sums_are_as_accurate_as_those_of_double(results):
    feeds, expected, found = results[300]
    true = np.exp(feeds["wide"].astype(np.float64)).sum(0)
    assert np.abs(found["w1"] / true - 1).max() <= max(
        2e-7, np.abs(expected["w1"] / true - 1).max()
    )


@pytest.mark.parametrize("name, value", [("label", 7), ("label", -8), ("ids", 11), ("places", 33)])
def test_an_index_out_of_range_is_an_error(name, value, programs):
    _, changed, library = programs
    feeds = feeds_of(3)
    feeds[name][1] = value
    with pytest.raises(Exception, match=rf"idx={value} must be within"):
        run(changed, feeds, library)


def test_other_sizes_than_declared_are_an_error(programs):
    """Two inputs that have one size by their types, and another one at run time."""
    _, changed, library = programs
    feeds = feeds_of(3)
    feeds["y"] = feeds["y"][:2]
    with pytest.raises(Exception, match="does not have the sizes that it was compiled for"):
        run(changed, feeds, library)


def test_bodies_of_loops():
    """Groups in Scan, Loop and If read values of the graph around; Sin is in none."""
    body = helper.make_graph(
        [
            N("Mul", ["h", "w"], ["hw"]),
            N("Add", ["hw", "step"], ["sum"]),
            N("Tanh", ["sum"], ["next"]),
            N("Sin", ["next"], ["out"]),
        ],
        "body",
        [helper.make_tensor_value_info(k, FLOAT, ["n", 8]) for k in ("h", "step")],
        [helper.make_tensor_value_info(k, FLOAT, ["n", 8]) for k in ("next", "out")],
    )
    branch = [N("Exp", ["last"], ["e"]), N("Add", ["e", "w"], ["yes"])]
    then = helper.make_graph(
        branch, "then", [], [helper.make_tensor_value_info("yes", FLOAT, ["n", 8])]
    )
    other = helper.make_graph(
        [N("Sin", ["last"], ["no"])],
        "else",
        [],
        [helper.make_tensor_value_info("no", FLOAT, ["n", 8])],
    )
    nodes = [
        N("Scan", ["start", "xs"], ["last", "all"], body=body, num_scan_inputs=1),
        N("If", ["is"], ["y"], then_branch=then, else_branch=other),
    ]
    inputs = {"start": (FLOAT, ["n", 8]), "xs": (FLOAT, [5, "n", 8]), "w": (FLOAT, [8])}
    model = model_of(nodes, inputs | {"is": (TensorProto.BOOL, [])}, ["all", "y"])
    kinds = kinds_of(model) | dict.fromkeys(
        ("hw", "sum", "next", "last", "e", "yes"), (FLOAT, ("n", 8))
    )
    changed, library = fused(model, kinds)
    rng = np.random.default_rng(0)
    draw = lambda *dims: rng.normal(0, 1, dims).astype(np.float32)  # noqa: E731
    feeds = {"start": draw(3, 8), "xs": draw(5, 3, 8), "w": draw(8), "is": np.array(True)}
    expected, found = run(model, feeds), run(changed, feeds, library)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6)
    inside = [
        a.g.node[0].domain
        for node in changed.graph.node
        for a in node.attribute
        if a.type == a.GRAPH
    ]
    assert inside.count(DOMAIN) == 2


def test_loops_that_share_nothing_are_one_call(monkeypatch):
    """Updates of parameters are one function, and run in one call to the threads."""
    nodes, inputs, outputs = [], {"rate": (FLOAT, [])}, []
    for k, dims in enumerate(([40, 30], [30], [17], [64, 64], [5000])):
        inputs |= {f"{letter}{k}": (FLOAT, dims) for letter in "pgm"}
        nodes += [
            N("Mul", [f"m{k}", "half"], [f"a{k}"]),
            N("Add", [f"a{k}", f"g{k}"], [f"n{k}"]),
            N("Mul", [f"n{k}", "rate"], [f"b{k}"]),
            N("Sub", [f"p{k}", f"b{k}"], [f"q{k}"]),
        ]
        outputs += [f"n{k}", f"q{k}"]
    model = model_of(nodes, inputs, outputs, {"half": np.float32(0.5)})
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    calls = []
    monkeypatch.setattr(Plan, "call", lambda plan, alike: calls.append(len(alike)))
    statistics = fuse(copy, kinds_of(model))[1]
    monkeypatch.undo()
    assert statistics.groups == statistics.functions == 1
    assert calls == [5]
    rng = np.random.default_rng(0)
    feeds = {k: rng.normal(0, 1, dims).astype(np.float32) for k, (_, dims) in inputs.items()}
    changed, library = fused(model, kinds_of(model))
    expected, found = run(model, feeds), run(changed, feeds, library)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    inputs["g1"], feeds["g1"] = (FLOAT, ["k"]), feeds["g1"][:7]  # which the runtime does not check
    free = model_of(nodes, inputs, outputs, {"half": np.float32(0.5)})
    changed, library = fused(free, kinds_of(model))
    with pytest.raises(Exception, match="does not have the sizes that it was compiled for"):
        run(changed, feeds, library)


def test_sums_are_beside_what_they_read():
    """A sum is in the group of what it sums, not in one that follows an operator of the runtime."""
    nodes = [
        N("Mul", ["x", "x"], ["square"]),
        N("Exp", ["square"], ["power"]),
        N("Reshape", ["power", "flat"], ["rows"]),
        N("CumSum", ["rows", "one"], ["total"]),
        N("ReduceSum", ["power", "zero"], ["sum"], keepdims=0),
        N("Reshape", ["total", "flat"], ["again"]),
        N("Sub", ["again", "sum"], ["y"]),
        N("Tanh", ["y"], ["z"]),
    ]
    constants = {"flat": np.array([-1, 64]), "one": np.int64(1), "zero": np.array([0])}
    model = model_of(nodes, {"x": (FLOAT, [300, 64])}, ["z"], constants)
    changed, library = fused(model, kinds_of(model))
    first = next(node for node in changed.graph.node if node.domain == DOMAIN)
    assert set(first.output) >= {"power", "sum"}
    feeds = {"x": np.random.default_rng(0).normal(0, 0.1, [300, 64]).astype(np.float32)}
    expected, found = run(model, feeds)["z"], run(changed, feeds, library)["z"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_view_of_several_readers_without_any_group():
    """A program of which nothing is fused stays as it is: its views have their names."""
    ones = helper.make_tensor("ones", FLOAT, [1], [1.0])
    nodes = [
        N("Concat", ["x", "y"], ["both"], axis=2),
        N("Reshape", ["both", "flat"], ["rows"]),
        N("Shape", ["rows"], ["size"], start=0, end=1),
        N("ConstantOfShape", ["size"], ["filled"], value=ones),
        N("Unsqueeze", ["filled", "zero"], ["row"]),
        N("MatMul", ["row", "rows"], ["sum"]),
    ]
    constants = {"flat": np.array([-1, 64]), "zero": np.array([0])}
    inputs = {"x": (FLOAT, [20, "n", 32]), "y": (FLOAT, [20, "n", 32])}
    model = model_of(nodes, inputs, ["sum"], constants)
    assert fuse(model, kinds_of(model))[0] is None
    x, y = np.ones([2, 20, 3, 32], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x, "y": y})["sum"], np.full([1, 64], 60.0))


def test_groups_are_convex():
    """What is computed between two operators of a group from one for the other keeps them apart."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        nodes = []
        for k in range(30):
            names = [f"v{j}" for j in rng.integers(0, k, 2)] if k else ["in", "in"]
            nodes.append(N("Add", names, [f"v{k}"]))
        fits = rng.random(30) < 0.7
        groups = clusters(
            nodes, [node.input for node in nodes], fits, [False] * 30, rng.random(30) < 0.5
        )
        owner = {k: g for g, members in enumerate(groups) for k in members}
        joined = [
            N(
                "Group",
                [
                    x
                    for k in members
                    for x in nodes[k].input
                    if owner.get(int(x[1:] or -1) if x != "in" else -1) != g
                ],
                [y for k in members for y in nodes[k].output],
            )
            for g, members in enumerate(groups)
        ]
        rest = [node for k, node in enumerate(nodes) if k not in owner]
        ordered(joined + rest, [f"v{k}" for k in range(30)])  # a circle is an error


def test_a_view_whose_shape_is_only_inside_of_a_group():
    """The runtime's product reads the view, and the shape is that of no input."""
    nodes = [
        N("MatMul", ["x", "w"], ["product"]),
        N("Add", ["product", "b"], ["sum"], name="sum"),
        N("Reshape", ["sum", "flat"], ["row"], name="row"),
        N("Sub", ["row", "target"], ["rest"], name="rest"),
        N("Tanh", ["rest"], ["tanh"], name="tanh"),
        N("Shape", ["sum"], ["shape"], name="shape"),
        N("Reshape", ["tanh", "shape"], ["back"], name="back"),
        N("MatMul", ["turned", "back"], ["y"], name="y"),
    ]
    given = {"x": ["n", 60], "w": [60, 70], "b": [70], "target": ["m"], "turned": [80, "n"]}
    inputs = {name: (FLOAT, dims) for name, dims in given.items()}
    model = model_of(nodes, inputs, ["y"], {"flat": np.array([-1])})
    rng = np.random.default_rng(0)
    sizes = {"n": 5, "m": 350}
    feeds = {
        name: rng.normal(size=[sizes.get(d, d) for d in dims]).astype("f")
        for name, dims in given.items()
    }
    kinds = kinds_of(model)
    kinds |= {"row": (FLOAT, ("m",)), "rest": (FLOAT, ("m",)), "tanh": (FLOAT, ("m",))}
    kinds |= {"back": (FLOAT, ("n", 70))}
    changed, library = fused(model, kinds)
    np.testing.assert_allclose(
        run(changed, feeds, library)["y"], run(model, feeds)["y"], rtol=1e-4, atol=1e-4
    )


def test_sizes_that_a_group_has_computed():
    """Its vector is cast outside, to a shape: the runtime infers no other one from it."""
    with pd.fresh():
        x = pd.Variable([None, 3, None, None])
        y = pd.interpolate(x, None, "linear", True, scale=1.7)
        with pd.Session(fused=True) as session:
            value = session.eval(y, {x: np.ones((2, 3, 5, 7), "f")})
    np.testing.assert_allclose(value, np.ones((2, 3, 8, 11), "f"), rtol=1e-6)
