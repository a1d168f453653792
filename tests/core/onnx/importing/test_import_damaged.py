"""Files that contradict themselves or ONNX, and files that would take too much memory or time."""

import inspect
import resource
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import pd_core as pd

from .test_import import WHOLE, model_of, network

X = "float[2,3] x"


def built(model):
    """Build the outputs of a model on slots of the declared sizes."""
    f = pd.import_onnx(model)
    return f(*(pd.Variable(list(dims), dtype=dtype) for dims, dtype in f.inputs.values()))


def changed(model, change):
    change(model)
    return model


def without_attributes(op_type):
    def change(model):
        for node in model.graph.node:
            if node.op_type == op_type:
                del node.attribute[:]

    return change


def opset(version):
    return lambda model: setattr(model.opset_import[0], "version", version)


def first_tensor(**fields):
    def change(model):
        for key, value in fields.items():
            setattr(model.graph.initializer[0], key, value)

    return change


def shorter(model):
    tensor = model.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:-4]


def two_of_a_name(model):
    model.graph.initializer.append(model.graph.initializer[0])


def unknown_type(model):
    model.graph.input[0].type.tensor_type.elem_type = 99


def negative_tensor(model):
    model.graph.initializer[0].dims[0] = -1


def size(values, n):
    def change(model):
        (value,) = getattr(model.graph, values)
        value.type.tensor_type.CopyFrom(helper.make_tensor_type_proto(1, [n, 3]).tensor_type)

    return change


def one_more(op_type, reads, gives):
    return lambda model: model.graph.node.append(helper.make_node(op_type, reads, gives))


RNG = np.random.default_rng(0)
DAMAGED = {
    "a negative size": (
        changed(model_of(17, X, "float[2,3] y", "y = Relu(x)"), size("input", -2)),
        "the value 'x' has the size -2",
    ),
    "a negative size of an output": (
        changed(model_of(17, X, "float[2,3] y", "y = Relu(x)"), size("output", -7)),
        "the value 'y' has the size -7",
    ),
    "a tensor of a negative size": (
        changed(network(RNG), negative_tensor),
        "tensor 'conv.w' is damaged: its sizes are",
    ),
    "a value of two nodes": (
        changed(model_of(17, X, "float[2,3] y", "y = Relu(x)"), one_more("Neg", ["x"], ["y"])),
        "the value 'y' is given twice",
    ),
    "an input that a node gives": (
        changed(model_of(17, X, "float[2,3] y", "y = Relu(x)"), one_more("Neg", ["y"], ["x"])),
        "the value 'x' is given twice",
    ),
    "an opset beyond 32 bits": (changed(network(RNG), opset(2**40)), "the model has opset"),
    "too few bytes": (changed(network(RNG), shorter), "tensor 'conv.w' is damaged"),
    "no such element type": (
        changed(network(RNG), first_tensor(data_type=99)),
        "tensor 'conv.w' is damaged",
    ),
    "a name twice": (changed(network(RNG), two_of_a_name), "two stored tensors have the same name"),
    "an input of no type": (changed(network(RNG), unknown_type), "'x' has the element type 99"),
    "a branch without bodies": (
        changed(model_of(*WHOLE[0]), without_attributes("If")),
        "node 'y', If: KeyError: 'then_branch'",
    ),
    "a concatenation without an axis": (
        changed(
            model_of(17, X, "float[?] y", "y = Concat<axis=0>(x, x)"), without_attributes("Concat")
        ),
        "node 'y', Concat: ",
    ),
    "a top without a number": (
        changed(
            model_of(9, X, "float[?] y, int64[?] z", "y, z = TopK<k=2>(x)"),
            without_attributes("TopK"),
        ),
        "node 'y', TopK: ",
    ),
    "a function that calls itself": (
        parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "own": 1]>
        model (float[2,3] x) => (float[2,3] y) { y = own.again(x) }
        <opset_import: ["": 17, "own": 1], domain: "own">
        again (x) => (y) { h = Exp(x) y = own.again(h) }"""),
        "the function 'again' calls itself",
    ),
}


@pytest.mark.parametrize(("model", "message"), DAMAGED.values(), ids=DAMAGED)
def test_what_contradicts_onnx_names_the_file_and_the_node(model, message, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(pd.ModelError, match=f"bad.onnx: .*{message}"):
        built(path)


@pytest.mark.parametrize("case", DAMAGED)
def test_it_is_a_damaged_file(case):
    with pytest.raises(pd.DamagedFile):
        built(DAMAGED[case][0])


def test_a_name_that_is_no_text():
    data = network(RNG).SerializeToString().replace(b"logits", b"log\xffts")
    with pytest.raises(pd.DamagedFile, match=r"the name b'log\\xffts' is no text"):
        pd.import_onnx(data)


def complex_values(model):
    tensor = numpy_helper.from_array(np.zeros(2, np.complex64), "z")
    model.graph.initializer.append(tensor)


def test_numbers_that_are_not_imported():
    with pytest.raises(pd.ModelError, match="'z' holds complex64 numbers, which are not imported"):
        pd.import_onnx(changed(network(RNG), complex_values))


def test_mutated_files_are_refused_or_read():
    """A valid file with random bytes changed raises no errors but our own."""
    rng = np.random.default_rng(1)
    models = [network(rng), *(model_of(*row) for row in WHOLE)]
    verdicts = set()
    for k in range(300):
        data = bytearray(models[k % len(models)].SerializeToString())
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.integers(0, 256)
        with pd.fresh():
            try:
                built(bytes(data))
                verdicts.add("read")
            except (pd.ModelError, pd.DamagedFile, pd.ShapeError):
                verdicts.add("refused")
    assert verdicts == {"read", "refused"}


# ---- what would grow


SHAPE = "s = Constant<value=int64[2] {30000, 20000}>()"
ONE = "o = Constant<value=float {1.0}>()"
GROWING = {
    "ConstantOfShape": f"{SHAPE} c = ConstantOfShape(s)",
    "Range": f"{ONE} z = Constant<value=float {{0.0}}>() e = Constant<value=float {{6e8}}>()"
    " c = Range(z, e, o)",
    "Expand": f"{SHAPE} {ONE} c = Expand(o, s)",
    "Tile": f"{SHAPE} m = Constant<value=float[1,1] {{1.0}}>() c = Tile(m, s)",
    "EyeLike": f"{SHAPE} m = ConstantOfShape(s) c = EyeLike(m)",
    "arithmetic on sizes": "n = Constant<value=int64[1] {600000000}>() k = ConstantOfShape<value="
    "int64[1] {1}>(n) two = Constant<value=int64 {2}>() m = Mul(k, two) c = Cast<to=1>(m)",
    "HannWindow": "n = Constant<value=int64 {600000000}>() c = HannWindow(n)",
}


@pytest.mark.parametrize("nodes", GROWING.values(), ids=GROWING)
def test_constants_of_any_size_are_left_to_the_run(nodes):
    """A file of 200 bytes takes no gigabytes when it is imported; its sizes are known all the
    same.
    """
    model = model_of(17, X, "float[?] y", f"{nodes} m0 = ReduceMax<keepdims=0>(c) y = Add(x, m0)")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    y = built(model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert y.dims == (2, 3)


def test_the_limit_is_the_users():
    nodes = "s = Constant<value=int64[1] {5000}>() c = ConstantOfShape(s) y = Add(x, c)"
    model = model_of(17, "float[1] x", "float[?] y", nodes)
    x = pd.Variable([1])
    operators = [
        len(pd.subgraph([pd.import_onnx(model, fold_limit=limit)(x)])) for limit in (1024, 5000)
    ]
    assert operators == [2, 1]


def test_functions_that_double_are_refused():
    """Each function calls the next twice, thirty times over."""
    head = '<ir_version: 8, opset_import: ["": 17, "own": 1]>'
    text = f"{head} model (float[2] x) => (float[2] y) {{ y = own.f0(x) }}"
    for k in range(30):
        inner = f"h = own.f{k + 1}(x) y = own.f{k + 1}(h)" if k < 29 else "y = Exp(x)"
        text += f'\n<opset_import: ["": 17, "own": 1], domain: "own"> f{k} (x) => (y) {{ {inner} }}'
    model = parser.parse_model(text)
    with pytest.raises(pd.DamagedFile, match="more than 100000 operators"):
        pd.import_onnx(model)


def test_a_sequence_of_any_length_is_refused():
    nodes = "s = SplitToSequence<axis=0>(x) y = ConcatFromSequence<axis=0>(s)"
    with pytest.raises(pd.ModelError, match="is cut into 2000000000 parts; up to 10000"):
        built(model_of(13, "float[2000000000,3] x", "float[?] y", nodes))


# ---- tensors in other files


def with_external_constant(folder, location):
    """A model whose Constant nodes lie in another file: one of floats, one of integers."""
    values = {"scale": np.array([2.0, 3.0, 4.0], "float32"), "shape": np.array([3, 2])}
    nodes, offset = [], 0
    with open(folder / "w.bin", "wb") as f:
        for name, array in values.items():
            tensor = numpy_helper.from_array(array, name)
            f.write(tensor.raw_data)
            onnx.external_data_helper.set_external_data(tensor, location, offset, array.nbytes)
            offset += array.nbytes
            tensor.data_location = TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
            nodes.append(helper.make_node("Constant", [], [name], value=tensor))
    nodes.append(helper.make_node("Mul", ["x", "scale"], ["m"]))
    nodes.append(helper.make_node("Reshape", ["m", "shape"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "external",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return model


def test_constants_in_other_files_are_beside_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    with_external_constant(tmp_path, "w.bin")
    x = pd.Variable([2, 3])
    y = pd.import_onnx(tmp_path / "m.onnx")(x)
    found = pd.eval(y, {x: np.ones((2, 3))})
    np.testing.assert_array_equal(found, [[2, 3], [4, 2], [3, 4]])


@pytest.mark.parametrize("location", ["../w.bin", "{}/w.bin", "below/../../w.bin", "link.bin", ""])
def test_tensors_outside_of_the_folder_are_not_read(location, tmp_path):
    folder = tmp_path / "model"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(bytes(64))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with_external_constant(folder, location.format(tmp_path))
    with pytest.raises(pd.DamagedFile, match="outside of the model's folder"):
        pd.import_onnx(folder / "m.onnx")


def test_a_model_without_a_path_has_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = with_external_constant(tmp_path, "w.bin")
    for given in (model, model.SerializeToString()):
        with pytest.raises(pd.ModelError, match="hint: pass the path of the model"):
            pd.import_onnx(given)


def test_a_deep_nest_ends_in_an_error():
    def value(name, kind=TensorProto.FLOAT, dims=(2,)):
        return helper.make_tensor_value_info(name, kind, dims)

    inner = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [], [value("y")])
    for k in range(28):
        other = helper.make_node("Neg", ["x"], [f"n{k}"])
        bodies = {
            "then_branch": inner,
            "else_branch": helper.make_graph([other], "e", [], [value(f"n{k}")]),
        }
        node = helper.make_node("If", ["c"], [f"y{k}"], **bodies)
        inner = helper.make_graph([node], "g", [], [value(f"y{k}")])
    inner.input.extend([value("x"), value("c", TensorProto.BOOL, [])])
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 150)
    try:
        with pytest.raises(pd.DamagedFile, match="its graphs are nested too deeply"):
            built(model)
    finally:
        sys.setrecursionlimit(limit)


def test_an_output_that_nothing_computes():
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) }""")
    with pytest.raises(pd.DamagedModel, match="the output 'z' is computed by no node"):
        pd.import_onnx(model)


def test_an_input_that_is_not_there_does_not_crash():
    """ONNX's shape inference does, with this operator."""
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="a")
    output = helper.make_tensor_value_info("y", TensorProto.BOOL, [2])
    graph = helper.make_graph([node], "g", [], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(pd.ModelError):
        pd.import_onnx(model)()


def test_an_opset_that_is_not_known_yet():
    newest = onnx.defs.onnx_opset_version()
    model = changed(model_of(17, X, "float[2,3] y", "y = Relu(x)"), opset(newest + 1))
    with pytest.raises(pd.ModelError, match=rf"opset {newest + 1}; .* knows those up to {newest}$"):
        pd.import_onnx(model)


def test_a_size_of_minus_one_is_not_known():
    model = changed(model_of(17, X, "float[2,3] y", "y = Relu(x)"), size("input", -1))
    assert pd.import_onnx(model).inputs["x"][0] == (None, 3)


# ---- what is there twice, and sizes that are none


def file_of(nodes, *, inputs=("x",), opsets=(("", 21),), functions=(), tensors=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, TensorProto.FLOAT, [2, 3]) for name in inputs],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(tensors).items()],
    )
    imports = [helper.make_opsetid(*o) for o in opsets]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def function_of(*nodes, opsets=(("", 21),)):
    imports = [helper.make_opsetid(*o) for o in opsets]
    return helper.make_function("own", "F", ["a"], ["b"], nodes, imports)


def node(op_type, inputs, outputs, **attributes):
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


CALL, OWN = node("F", "x", "y", domain="own"), (("", 21), ("own", 1))
BRANCH = helper.make_graph(
    [node("Relu", "x", "o"), node("Neg", "x", "o")],
    "branch",
    [],
    [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)],
)
TWICE = {
    "nodes": (file_of([node("Relu", "x", "y"), node("Neg", "x", "y")]), "'y' is given twice"),
    "outputs of a node": (
        file_of([node("Split", "x", "y y", axis=0, num_outputs=2)]),
        "'y' is given twice",
    ),
    "a node and an input": (
        file_of([node("Relu", "x", "x"), node("Neg", "x", "y")]),
        "'x' is given twice",
    ),
    "a node and a tensor": (
        file_of([node("Relu", "x", "w"), node("Neg", "w", "y")], tensors={"w": np.ones(3, "f")}),
        "'w' is given twice",
    ),
    "in a branch": (
        file_of([node("If", "c", "y", then_branch=BRANCH, else_branch=BRANCH)],
                tensors={"c": np.array(True)}),
        "'o' is given twice",
    ),
    "in a function": (
        file_of([CALL], opsets=OWN,
                functions=[function_of(node("Relu", "a", "b"), node("Neg", "a", "b"))]),
        "function 'F': the value 'b' is given twice",
    ),
    "inputs": (file_of([node("Relu", "x", "y")], inputs="xx"), "two inputs have the name 'x'"),
    "opsets": (
        file_of([node("Relu", "x", "y")], opsets=(("", 21), ("ai.onnx", 13))),
        "the model has two opsets, 21 and 13 of 'ONNX'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("model, message", TWICE.values(), ids=TWICE)
def test_what_is_there_twice(model, message):
    with pytest.raises(pd.DamagedModel, match=message):
        pd.import_onnx(model)


@pytest.mark.parametrize("version", [0, 6, 99])
def test_the_opset_of_a_function_is_known(version):
    body = function_of(node("Relu", "a", "b"), opsets=(("", version),))
    with pytest.raises(pd.ModelError, match=f"the function 'F' has opset {version};"):
        built(file_of([CALL], opsets=OWN, functions=[body]))


def sizes(*values):
    return {"s": np.array(values, np.int64), "axis": np.array([1])}


def weights(gates):
    w, r = (np.ones((1, gates, n), np.float32) for n in (3, 4))
    return {"w": w, "r": r, "axis": np.array([1])}


NEGATIVE = {
    "Split": (node("Split", "x s", "y z", axis=1), sizes(-1, 4), r"not negative, \[-1, 4\]"),
    "TopK": (node("TopK", "x s", "y i"), sizes(-1), r"not negative, \[-1\]"),
    "Expand": (node("Expand", "x s", "y"), sizes(-2, 3), r"not negative, \[-2, 3\]"),
    "Reshape": (node("Reshape", "x s", "y"), sizes(-2, -3), r"not negative, \[-2, -3\]"),
    "Tile": (node("Tile", "x s", "y"), sizes(-1, 1), "negative"),
    "ConstantOfShape": (node("ConstantOfShape", "s", "y"), sizes(-1, 3), "negative"),
    "LSTM": (
        node("LSTM", "t w r", "y", hidden_size=-4),
        weights(16),
        "hidden_size is -4, the recurrent weights are of 4 units",
    ),
    "GRU": (
        node("GRU", "t w r", "y", hidden_size=5),
        weights(12),
        "hidden_size is 5, the recurrent weights are of 4 units",
    ),
}


@pytest.mark.parametrize("operator, tensors, message", NEGATIVE.values(), ids=NEGATIVE)
def test_sizes_that_are_none(operator, tensors, message):
    with pytest.raises(pd.ModelError, match=rf"node 'y', {operator.op_type}: .*{message}"):
        built(file_of([node("Unsqueeze", "x axis", "t"), operator], tensors=tensors))
