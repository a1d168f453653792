"""Operators of ai.onnx.ml compute what ONNX Runtime's kernels compute, and can be trained."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import pd_core as pd

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
X[2] = 0.0
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def numbers(*shape, seed=0):
    return (
        np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32").ravel().tolist()
    )


def model(op_type, outputs="y", **attributes):
    types = {"label": TensorProto.INT64, "text": TensorProto.STRING}
    infos = [
        helper.make_value_info(
            y, helper.make_tensor_type_proto(types.get(y, TensorProto.FLOAT), None)
        )
        for y in outputs.split()
    ]
    node = helper.make_node(op_type, ["x"], outputs.split(), domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph([node], "g", [x], infos)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def support(kernel, seed=0):
    return {
        "kernel_type": kernel,
        "kernel_params": [0.2, 0.1, 3.0],
        "support_vectors": numbers(7, 4, seed=seed),
    }


def machine(sizes, kernel="RBF", seed=0, **more):
    """A classifier with these numbers of support vectors of its classes, 7 in all."""
    count = len(sizes)
    return model(
        *("SVMClassifier", "label y"),
        **support(kernel, seed),
        coefficients=numbers(count - 1, 7, seed=seed),
        vectors_per_class=sizes,
        rho=numbers(count * (count - 1) // 2, seed=seed),
        classlabels_ints=range(5, 5 + count),
        **more,
    )


def linear(rows, **more):
    return {"coefficients": numbers(rows, 4), "intercepts": numbers(rows), **more}


LABELS = {"classlabels_ints": [5, 7]}
MODELS = {
    "Scaler": model("Scaler", offset=numbers(4), scale=numbers(4, seed=1)),
    "Scaler of one number": model("Scaler", offset=[0.5], scale=[2.0]),
    **{f"Normalizer {norm}": model("Normalizer", norm=norm) for norm in ("MAX", "L1", "L2")},
    **{
        f"{op} {kind}": made
        for kind in ("NONE", "LOGISTIC", "SOFTMAX")
        for op, made in {
            "LinearRegressor": model(
                "LinearRegressor", **linear(3), targets=3, post_transform=kind
            ),
            "LinearClassifier": model(
                *("LinearClassifier", "label y"),
                **linear(3, classlabels_ints=[5, 7, 9], post_transform=kind),
            ),
            "LinearClassifier of two": model(
                "LinearClassifier", "label y", **linear(2, **LABELS, post_transform=kind)
            ),
            "SVMClassifier": machine([2, 4, 1], post_transform=kind),
        }.items()
    },
    **{
        f"LinearClassifier of one score {kind}": model(
            "LinearClassifier", "label y", **linear(1, **LABELS, post_transform=kind)
        )
        for kind in ("NONE", "LOGISTIC")
    },
    **{
        f"SVMRegressor {kernel}": model(
            "SVMRegressor", **support(kernel), coefficients=numbers(7), n_supports=7, rho=[0.3]
        )
        for kernel in KERNELS
    },
    **{
        f"SVMClassifier {kernel} {sizes} {seed}": machine(sizes, kernel, seed)
        for kernel in KERNELS
        for sizes in ([3, 4], [2, 1, 4], [2, 2, 2, 1])
        for seed in range(2)
    },
    "SVMClassifier logistic": machine([3, 4], post_transform="LOGISTIC"),
}


def computed(proto):
    f = pd.import_onnx(proto)
    y = f(pd.constant(X))
    return f, pd.eval(list(y) if isinstance(y, tuple) else [y])


@pytest.mark.parametrize("proto", MODELS.values(), ids=MODELS)
def test_formulas_are_those_of_the_kernels(proto):
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})
    _, found = computed(proto)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_probabilities_of_two_classes(kernel):
    """Those of the runtime are iterated, and stop near the formula; labels are by votes."""
    proto = machine([3, 4], kernel, prob_a=[-1.2], prob_b=[0.1])
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})
    _, (label, found) = computed(proto)
    np.testing.assert_array_equal(label, wanted[0])
    np.testing.assert_allclose(found, wanted[1], atol=0.005)
    with pd.fresh():
        _, (_, scores) = computed(machine([3, 4], kernel))
    np.testing.assert_allclose(found[:, 0], 1 / (1 + np.exp(-1.2 * scores[:, 1] + 0.1)), atol=1e-6)


def test_coefficients_are_trained():
    proto = model(
        "LinearClassifier",
        "label y",
        **linear(3, classlabels_ints=[0, 1, 2]),
        post_transform="SOFTMAX",
    )
    f = pd.import_onnx(proto)
    assert set(f.parameters) == {"label.coefficients", "label.intercepts"}
    x, t = pd.Variable([None, 4]), pd.Variable([None], dtype="int64")
    y = f(x, output="y")
    cost = pd.reduce_mean(pd.cross_entropy(y, t))
    step = pd.AdamOptimizer(0.1).minimize(cost)
    labels = X[:, :3].argmax(1)
    costs = [float(pd.eval([cost, step], {x: X, t: labels})[0]) for _ in range(60)]
    assert costs[-1] < 0.3 * costs[0]
    exported = pd.export_onnx(None, [y])
    assert {o.domain for o in exported.opset_import} == {""}
    found = onnxruntime.InferenceSession(exported.SerializeToString()).run(None, {x.name: X})[0]
    np.testing.assert_allclose(found, pd.eval(y, {x: X}), rtol=1e-5)


def test_votes_are_no_weights():
    f, _ = computed(machine([2, 4, 1]))
    assert {name.split(".")[1] for name in f.parameters} == {
        "support_vectors",
        "coefficients",
        "rho",
    }


def test_labels_that_are_text():
    proto = model("LinearClassifier", "text y", **linear(3), classlabels_strings=["a", "b", "c"])
    f = pd.import_onnx(proto)
    assert pd.eval(f(pd.constant(X), output="y")).shape == (6, 3)
    with pytest.raises(pd.ModelError, match=r"'text' is text \('a', 'b', 'c'\).*\n  hint: output="):
        f(pd.constant(X))


REFUSED = {
    "trees have no gradient": model("TreeEnsembleRegressor", nodes_values=numbers(3)),
    "post_transform, which ONNX Runtime leaves out": model(
        *("SVMRegressor",),
        **support("RBF"),
        coefficients=numbers(7),
        n_supports=7,
        rho=[0.3],
        post_transform="LOGISTIC",
    ),
    "PROBIT of its scores is not imported": model(
        "LinearRegressor", **linear(1), targets=1, post_transform="PROBIT"
    ),
    "more than two classes": machine([2, 4, 1], prob_a=numbers(3), prob_b=numbers(3)),
    "has 5 numbers": model("LinearRegressor", coefficients=numbers(5), targets=2),
    "there is no norm 'L3'": model("Normalizer", norm="L3"),
    "neither ONNX's own nor defined": model("TfIdf"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(pd.ModelError, match=message):
        computed(REFUSED[message])


FORMULAS = {
    "threshold": model("Binarizer", threshold=0.3),
    "missing": model("Imputer", imputed_value_floats=numbers(4), replaced_value_float=float("nan")),
    "one for all": model("Imputer", imputed_value_floats=[0.5], replaced_value_float=0.25),
    "features": model("FeatureVectorizer", inputdimensions=[4]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_preparations_are_those_of_the_kernels(name):
    x = np.array(X)
    x[0, 0], x[1, 1] = np.nan if name == "missing" else 0.25, 0.25
    f = pd.import_onnx(FORMULAS[name])
    session = onnxruntime.InferenceSession(FORMULAS[name].SerializeToString())
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_array_equal(pd.eval(f(pd.constant(x))), wanted)


@pytest.mark.parametrize("where", ["function", "branch"])
def test_classical_operators_inside(where):
    head = '<ir_version: 8, opset_import: ["": 18, "ai.onnx.ml": 3, "own": 1]>'
    node = "y = ai.onnx.ml.Scaler<offset=[0.5],scale=[2.0]>(x)"
    if where == "function":
        text = f"{head} g (float[2,3] x) => (float[2,3] y) {{ y = own.f(x) }}"
        text += (
            f'\n<opset_import: ["": 18, "ai.onnx.ml": 3], domain: "own"> f (x) => (y) {{ {node} }}'
        )
    else:
        body = node.replace("y =", "p =")
        text = f"{head} g (float[2,3] x, bool c) => (float[2,3] y) {{ y = If(c) <then_branch = a ()"
        text += f" => (float[2,3] p) {{ {body} }}, else_branch = b () => (float[2,3] q)"
        text += " { q = Neg(x) }> }"
    f = pd.import_onnx(onnx.parser.parse_model(text))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    more = [pd.constant(np.array(True))] if where == "branch" else []
    np.testing.assert_allclose(pd.eval(f(pd.constant(x), *more)), (x - 0.5) * 2.0)


def test_a_file_of_classical_operators_alone():
    proto = model("Binarizer", threshold=0.3)
    kept = [o for o in proto.opset_import if o.domain]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)
    assert pd.eval(pd.import_onnx(proto)(pd.constant(X))).shape == X.shape
