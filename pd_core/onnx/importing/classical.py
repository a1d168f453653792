"""Linear models, scalers, normalizers, support vector machines of ai.onnx.ml by their formulas.

Each node becomes nodes of ONNX's own operators, with the arrays of its attributes as stored
tensors, so that coefficients are weights like any other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from ...graph.errors import DamagedModel, ModelError
from .order import all_nodes, bodies

DOMAIN = "ai.onnx.ml"
_TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


def without_trees(model: ModelProto) -> None:
    """Check that a model has no ensembles of trees, whose gradient is zero or undefined."""
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type in _TREES:
            name = node.name or next(iter(node.output), "")
            raise ModelError(f"node {name!r}, {node.op_type}: trees have no gradient")


def with_standard_operators(model: ModelProto) -> ModelProto:
    """Write nodes of ai.onnx.ml in ONNX's own operators; the model itself is not changed."""
    owners = (model.graph, *model.functions)
    if not any(_is_written(node) for owner in owners for node in all_nodes(owner.node)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    _write(copy.graph.node, copy, False)
    for function in copy.functions:
        _write(function.node, copy, True)
    return copy


def _is_written(node):
    return node.domain == DOMAIN and node.op_type in _WRITERS


def _write(nodes, model, in_function):
    """Write the nodes of a graph or function, and of the bodies in it."""
    new: list[NodeProto] = []
    for node in nodes:
        for body in bodies(node):
            _write(body.node, model, in_function)
        if _is_written(node):
            writer = _Writer(node, model, in_function)
            _WRITERS[node.op_type](writer)
            new += writer.nodes
        else:
            new.append(_copied(node))
    del nodes[:]
    nodes.extend(new)


def _copied(node):
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy


class _Writer:
    """The nodes and stored tensors that one node becomes."""

    def __init__(self, node: NodeProto, model: ModelProto, in_function: bool):
        self.node, self.graph, self.in_function = node, model.graph, in_function
        self.opset = next((o.version for o in model.opset_import if not o.domain), 0)
        self.name = node.name or node.output[0]
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.nodes: list[NodeProto] = []

    def fail(self, why: str) -> ModelError:
        """Return the error of this node."""
        return ModelError(f"node {self.name!r}, {self.node.op_type}: {why}")

    def text(self, key: str, default: str) -> str:
        """Return an attribute that is text."""
        return self.attributes.get(key, default.encode()).decode()

    def numbers(self, key: str, shape: Sequence[int] = (-1,)) -> np.ndarray:
        """Return an attribute as an array of float32."""
        array = np.asarray(self.attributes.get(key, []), np.float32)
        try:
            return array.reshape(shape)
        except ValueError:
            where = f"node {self.name!r}, {self.node.op_type}"
            raise DamagedModel(f"{where}: {key} has {array.size} numbers") from None

    def stored(self, key: str, array: np.ndarray) -> str:
        """Store an array; return its name."""
        name = f"{self.name}.{key}"
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        if self.in_function:  # which reads no tensors of the file
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.graph.initializer.append(tensor)
        return name

    def add(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node; return its output."""
        output = output or f"{self.name}.{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def floats(self) -> str:
        """Return the input as float32."""
        return self.add("Cast", self.node.input[0], to=1)

    def reduced(self, kind: str, x: str) -> str:
        """Reduce the last axis, which stays."""
        if self.opset >= (13 if kind == "Sum" else 18):
            axes = self.stored(f"axes_{len(self.nodes)}", np.array([-1], np.int64))
            return self.add(f"Reduce{kind}", x, axes, keepdims=1)
        return self.add(f"Reduce{kind}", x, axes=[-1], keepdims=1)

    def constant(self, number: float) -> str:
        """Store a number."""
        return self.stored(f"number_{len(self.nodes)}", np.array(number, np.float32))


def _scaler(w):
    x = w.floats()
    for key, op_type in (("offset", "Sub"), ("scale", "Mul")):
        if key in w.attributes:
            x = w.add(op_type, x, w.stored(key, w.numbers(key)))
    w.add("Identity", x, output=w.node.output[0])


def _normalizer(w):
    x, norm = w.floats(), w.text("norm", "MAX")
    if norm == "MAX":
        total = w.reduced("Max", x)
    elif norm == "L1":
        total = w.reduced("Sum", w.add("Abs", x))
    elif norm == "L2":
        total = w.add("Sqrt", w.reduced("Sum", w.add("Mul", x, x)))
    else:
        raise w.fail(f"there is no norm {norm!r}")
    empty = w.add("Equal", total, w.constant(0.0))  # rows of zeros stay
    w.add("Div", x, w.add("Where", empty, w.constant(1.0), total), output=w.node.output[0])


def _linear(w, rows):
    """Return the products with the coefficients, [N, rows]."""
    matrix = w.stored("coefficients", w.numbers("coefficients", (rows, -1)).T)
    y = w.add("MatMul", w.floats(), matrix)
    if len(w.attributes.get("intercepts", [])):
        y = w.add("Add", y, w.stored("intercepts", w.numbers("intercepts", (rows,))))
    return y


def _transformed(w, y, output):
    """Add `post_transform` of scores [N, C]."""
    kind = w.text("post_transform", "NONE")
    if kind not in _TRANSFORMS:
        raise w.fail(f"the transformation {kind} of its scores is not imported")
    w.add(_TRANSFORMS[kind], y, output=output, **({"axis": -1} if kind == "SOFTMAX" else {}))


_TRANSFORMS = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def _linear_regressor(w):
    _transformed(w, _linear(w, w.attributes.get("targets", 1)), w.node.output[0])


def _linear_classifier(w):
    scores = _linear(w, max(1, len(w.attributes.get("intercepts", [0]))))
    _classified(w, scores, len(w.attributes.get("intercepts", [0])))


def _classified(w, scores, columns):
    """Add the labels and the probabilities of scores [N, C], or [N, 1] for two classes."""
    kind = w.text("post_transform", "NONE")
    both = scores
    if columns == 1:
        if kind not in ("NONE", "LOGISTIC"):
            raise w.fail(f"{kind} of one score for two classes is not imported")
        opposite = w.add("Neg", scores)  # which is 1 - p of probabilities, but for the label
        first = opposite if kind == "LOGISTIC" else w.add("Sub", w.constant(1.0), scores)
        scores = w.add("Concat", opposite, scores, axis=-1)
        both = w.add("Concat", first, both, axis=-1)
    _labelled(w, scores)
    if len(w.node.output) > 1:
        _transformed(w, both, w.node.output[1])


def _labelled(w, scores):
    """Add the label with the largest score: a number, or text."""
    output = w.node.output[0]
    labels = [*w.attributes.get("classlabels_ints", [])]
    if not output:
        return
    words = w.attributes.get("classlabels_strings")
    array = np.array([b.decode() for b in words], object) if words else np.array(labels or [0, 1])
    table = w.stored("labels", array)
    w.add("Gather", table, w.add("ArgMax", scores, axis=-1, keepdims=0), output=output)


def _kernel(w, vectors):
    """Return the values of the kernel for each support vector, [N, V]."""
    gamma, offset, degree = (list(w.numbers("kernel_params")) + [0.0] * 3)[:3]
    kind, x = w.text("kernel_type", "LINEAR"), w.floats()
    product = w.add("MatMul", x, w.stored("support_vectors", vectors.T))
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        squares = w.reduced("Sum", w.add("Mul", x, x))
        lengths = w.stored("squares", (vectors.astype(np.float64) ** 2).sum(1).astype(np.float32))
        twice = w.add("Mul", product, w.constant(2.0))
        distance = w.add("Sub", w.add("Add", squares, lengths), twice)
        return w.add("Exp", w.add("Mul", distance, w.constant(-gamma)))
    scaled = w.add("Add", w.add("Mul", product, w.constant(gamma)), w.constant(offset))
    if kind == "POLY":
        return w.add("Pow", scaled, w.constant(degree))
    if kind == "SIGMOID":
        return w.add("Tanh", scaled)
    raise w.fail(f"there is no kernel {kind!r}")


def _svm_regressor(w):
    count = w.attributes.get("n_supports", 0)
    if w.attributes.get("one_class", 0):
        raise w.fail("the sign that finds outliers has no gradient")
    if count:
        kernel = _kernel(w, w.numbers("support_vectors", (count, -1)))
        weights = w.stored("coefficients", w.numbers("coefficients", (count, 1)))
    else:
        kernel, weights = w.floats(), w.stored("coefficients", w.numbers("coefficients", (-1, 1)))
    if w.text("post_transform", "NONE") != "NONE":
        raise w.fail("post_transform, which ONNX Runtime leaves out, is not imported")
    rho = w.stored("rho", w.numbers("rho")[:1])
    w.add("Add", w.add("MatMul", kernel, weights), rho, output=w.node.output[0])


def _svm_classifier(w):
    """One against one: a score for each pair of classes, whose sign is a vote."""
    sizes = w.attributes.get("vectors_per_class", [])
    classes, ends = len(sizes), np.cumsum([0, *sizes])
    if classes < 2:
        raise w.fail("a linear one, without support vectors, is not imported")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    kernel = _kernel(w, w.numbers("support_vectors", (ends[-1], -1)))
    coefficients = w.numbers("coefficients", (classes - 1, ends[-1]))
    matrix = np.zeros((ends[-1], len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        matrix[ends[i] : ends[i + 1], k] = coefficients[j - 1, ends[i] : ends[i + 1]]
        matrix[ends[j] : ends[j + 1], k] = coefficients[i, ends[j] : ends[j + 1]]
    product = w.add("MatMul", kernel, w.stored("coefficients", matrix))
    scores = w.add("Add", product, w.stored("rho", w.numbers("rho", (len(pairs),))))
    first, second = (np.zeros((len(pairs), classes), np.int64) for _ in range(2))
    for k, (i, j) in enumerate(pairs):
        first[k, i], second[k, j] = 1, 1
    sign = w.add("Cast", w.add("Greater", scores, w.constant(0.0)), to=7)
    votes = w.add("MatMul", sign, w.stored("votes", first - second))
    _labelled(w, w.add("Add", votes, w.stored("votes_against", second.sum(0))))
    if len(w.node.output) > 1:
        _scores_of_pairs(w, scores, classes)


def _scores_of_pairs(w, scores, classes):
    """Add the scores; of two classes their probabilities (Platt 1999), if the node has these.

    ONNX Runtime iterates these, and stops within 0.005 of the formula.
    """
    if len(w.attributes.get("prob_a", [])):
        if classes > 2 or w.text("post_transform", "NONE") != "NONE":
            raise w.fail("probabilities of more than two classes, or transformed, have no formula")
        slope, offset = (w.stored(k, w.numbers(k)) for k in ("prob_a", "prob_b"))
        exponent = w.add("Add", w.add("Mul", scores, slope), offset)
        both = w.add("Concat", w.add("Neg", exponent), exponent, axis=-1)
        w.add("Sigmoid", both, output=w.node.output[1])
        return
    if classes == 2:
        scores = w.add("Concat", w.add("Neg", scores), scores, axis=-1)
    _transformed(w, scores, w.node.output[1])


def _zip_map(w):
    """The values of the maps: their keys are the labels of the columns."""
    w.add("Identity", w.node.input[0], output=w.node.output[0])


def _binarizer(w):
    """1 for what is above the threshold, else 0: its derivative is zero."""
    threshold = w.stored("threshold", np.float32(w.attributes.get("threshold", 0.0)))
    above = w.add("Greater", w.floats(), threshold)
    w.add("Cast", above, output=w.node.output[0], to=1)


def _imputer(w):
    """A number for each feature in the place of the one that stands for a missing value."""
    x, integers = w.node.input[0], [*w.attributes.get("imputed_value_int64s", [])]
    if integers:
        new = w.stored("imputed", np.array(integers, np.int64))
        old = w.stored("replaced", np.int64(w.attributes.get("replaced_value_int64", 0)))
        missing = w.add("Equal", x, old)
    else:
        new = w.stored("imputed", w.numbers("imputed_value_floats"))
        number = np.float32(w.attributes.get("replaced_value_float", 0.0))
        missing = w.add("IsNaN", x) if np.isnan(number) else ""
        missing = missing or w.add("Equal", x, w.stored("replaced", number))
    w.add("Where", missing, new, x, output=w.node.output[0])


def _feature_vectorizer(w):
    """The features of all inputs side by side."""
    parts = [w.add("Cast", x, to=1) for x in w.node.input]
    w.add("Concat", *(w.add("Flatten", x) for x in parts), output=w.node.output[0], axis=-1)


_WRITERS: dict[str, Callable[[_Writer], None]] = {
    "Binarizer": _binarizer,
    "FeatureVectorizer": _feature_vectorizer,
    "Imputer": _imputer,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "SVMClassifier": _svm_classifier,
    "SVMRegressor": _svm_regressor,
    "Scaler": _scaler,
    "ZipMap": _zip_map,
}
