"""Text inside of a model: constants, what is made of them, and what numbers they become."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import pd_core as pd
from pd_core.backend import ort

from .test_import import compared

HEAD = '<ir_version: 8, opset_import: ["": %d, "ai.onnx.ml": %d]>'
LABELS = 't = ai.onnx.ml.LabelEncoder<keys_int64s=[0,1],values_strings=["red","blue"]>(x)'
NUMBERS = 'y = ai.onnx.ml.LabelEncoder<keys_strings=["a","b"],values_floats=[0.5,1.5]>(%s)'
CONSTANT = 't = Constant<value_strings=["a","B","b"]>()'
ROWS = {
    "one constant": (
        "int64[3] x",
        f'{LABELS} c = Constant<value_string="red">() y = Equal(t, c)',
    ),
    "both computed": (
        "int64[3] x, int64[3] z",
        f"{LABELS} {LABELS.replace('t =', 'u =').replace('(x)', '(z)')} y = Equal(t, u)",
    ),
    "broadcast": (
        "int64[3] x",
        f'{LABELS} c = Constant<value_strings=["red"]>() y = Equal(c, t)',
    ),
    "a default": (
        "int64[3] x",
        f'{LABELS} c = Constant<value_string="_Unused">() y = Equal(t, c)',
    ),
    "words to floats": ("int64[3] x", f"{CONSTANT} {NUMBERS % 't'} z = Identity(x)"),
    "words to integers": (
        "int64[3] x",
        f'{LABELS} y = ai.onnx.ml.CategoryMapper<cats_strings=["blue","green"],'
        "cats_int64s=[4,5]>(t)",
    ),
    "numbers to numbers": (
        "int64[3] x",
        "y = ai.onnx.ml.LabelEncoder<keys_int64s=[1,2,1],values_floats=[0.5,1.5,9.0],"
        "default_float=7.0>(x)",
    ),
    "floats": (
        "float[3] x",
        "y = ai.onnx.ml.LabelEncoder<keys_floats=[0.0,1.0],values_int64s=[5,6]>(x)",
    ),
    "moved": (
        "int64[3] x",
        f"{LABELS} i = Constant<value=int64[2] {{2,0}}>() g = Gather(t, i) c = Concat<axis=0>(g, t)"
        ' r = Constant<value_string="red">() y = Equal(c, r)',
    ),
    "chosen": (
        "bool[3] x",
        f'{CONSTANT} u = Constant<value_string="a">() w = Where(x, t, u) {NUMBERS % "w"}',
    ),
    "measured": ("int64[3] x", f"{LABELS} y = Shape(t)"),
    "words left out": (
        "int64[3] x",
        f'{CONSTANT} n = StringNormalizer<stopwords=["B"],is_case_sensitive=1>(t) {NUMBERS % "n"}',
    ),
    "one-hot": (
        "int64[3] x",
        f'{LABELS} y = ai.onnx.ml.OneHotEncoder<cats_strings=["blue","red"]>(t)',
    ),
    "spelt numbers": (
        "int64[3] x",
        't = Constant<value_strings=["1.5","-2"]>() y = Cast<to=1>(t)',
    ),
    "a branch": (
        "bool x",
        f"{CONSTANT} y = If(x) <then_branch = g1 () => (float[3] p) {{"
        f" {NUMBERS.replace('y =', 'p =') % 't'} }}, else_branch = g2 () => (float[3] q)"
        " { q = Constant<value=float[3] {7.0,8.0,9.0}>() }>",
    ),
}


def model_of(inputs, nodes, opset=20, classical=3):
    head = HEAD % (opset, classical)
    model = parser.parse_model(f"{head} g ({inputs}) => (float[?] y) {{ {nodes} }}")
    model.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    return model


def arrays_of(model):
    values = {
        TensorProto.INT64: np.array([1, 0, 5]),
        TensorProto.FLOAT: np.array([1.0, 0.0, 3.0], np.float32),
        TensorProto.BOOL: np.array([True, False, True]),
    }
    found = {}
    for k, i in enumerate(model.graph.input):
        array = values[i.type.tensor_type.elem_type]
        found[i.name] = np.roll(array, k) if i.type.tensor_type.shape.dim else array[0]
    return found


@pytest.mark.parametrize("row", ROWS)
def test_text_is_that_of_onnx_runtime(row):
    model = model_of(*ROWS[row])
    compared(model, {n: np.asarray(a) for n, a in arrays_of(model).items()})


def test_stored_text():
    model = model_of("int64[3] x", f"{LABELS} y = Equal(t, w)")
    words = helper.make_tensor("w", TensorProto.STRING, [3], [b"red", b"red", "ß".encode()])
    model.graph.initializer.append(words)
    compared(model, {"x": np.array([0, 1, 0])})


def test_words_that_are_joined():
    nodes = (
        f'{LABELS} b = Constant<value_strings=["x","","y"]>() j = StringConcat(t, b)'
        ' c = Constant<value_string="redy">() y = Equal(j, c)'
    )
    model = model_of("int64[3] x", nodes)
    compared(model, {"x": np.array([1, 0, 0])})


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_text(axis):
    """ONNX Runtime's Gather copies the first element of each slice of text, NumPy all."""
    nodes = (
        f"{LABELS} g = Gather<axis={axis}>(t, i)"
        ' y = ai.onnx.ml.CategoryMapper<cats_strings=["blue","red"],cats_int64s=[4,5]>(g)'
    )
    model = model_of("int64[2,3] x, int64[2] i", nodes)
    x, i = np.array([[0, 1, 1], [1, 0, 7]]), np.array([1, 0])
    wanted = np.select([x == 0, x == 1], [5, 4], -1).take(i, axis)
    found = pd.import_onnx(model)(x, i)
    np.testing.assert_array_equal(found.eval(), wanted)
    exported = ort.session(pd.export_onnx(None, found).SerializeToString())
    np.testing.assert_array_equal(exported.run(None, {})[0], wanted)


@pytest.mark.parametrize(
    "nodes, message",
    [
        (f"{LABELS} y = Identity(t)", r"'y' is text \('red', 'blue', .*hint: output= names"),
        (
            f'{LABELS} n = StringNormalizer<stopwords=["red"]>(t) {NUMBERS % "n"}',
            "which of its words are left out is not known",
        ),
        (f"{LABELS} y = Equal(t, x)", "it compares text and numbers"),
        (f"{LABELS} u, v = StringSplit(t) y = Identity(v)", "only if all of its inputs are const"),
        (f"{NUMBERS % 'x'}", "its keys are of another type than its input"),
        (
            'c = Constant<value_string="one">() y = Cast<to=1>(c)',
            "does not compute it for the text",
        ),
        (
            "y = ai.onnx.ml.LabelEncoder<keys_int64s=[1,2],values_floats=[0.5]>(x)",
            "its keys and values are missing, or of other numbers",
        ),
    ],
)
def test_text_that_is_refused(nodes, message):
    model = model_of("int64[3] x", nodes)
    with pytest.raises(pd.ModelError, match=f"(?s){message}"):
        pd.import_onnx(model)(pd.Variable("x", shape=[3], dtype="int64"))
