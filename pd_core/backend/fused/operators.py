"""Elementwise operators as C expressions, the views, and what else a group may contain.

The expressions give what ONNX Runtime gives for NaN, infinities, -0.0 and denormal numbers, and
round where it rounds: the compiler contracts nothing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

FLOAT, DOUBLE, BOOL = (int(TensorProto.FLOAT), int(TensorProto.DOUBLE), int(TensorProto.BOOL))
INT32, INT64 = int(TensorProto.INT32), int(TensorProto.INT64)
FLOATS = {FLOAT, DOUBLE}
INTS = {INT32, INT64}
C_TYPES: Mapping[int, str] = {
    FLOAT: "float",
    DOUBLE: "double",
    INT32: "int32_t",
    INT64: "int64_t",
    BOOL: "uint8_t",
}
BYTES = {FLOAT: 4, DOUBLE: 8, INT32: 4, INT64: 8, BOOL: 1}

# operator: (the element types that it takes here, its expression)
_SAME: dict[str, tuple[set[int], str]] = {
    "Add": (FLOATS | INTS, "{0} + {1}"),
    "Sub": (FLOATS | INTS, "{0} - {1}"),
    "Mul": (FLOATS | INTS, "{0} * {1}"),
    "Div": (FLOATS, "{0} / {1}"),
    "Neg": (FLOATS | INTS, "-{0}"),
    "GatedAdd": ({FLOAT}, "{0} + {1} * {2}"),
    "Relu": (FLOATS, "({0} < 0 ? 0 : {0})"),
    "Reciprocal": (FLOATS, "1 / {0}"),
    "Softsign": ({FLOAT}, "{0} / (1 + fabsf({0}))"),
    "Sign": (FLOATS, "({0} > 0 ? 1 : {0} < 0 ? -1 : {0} == 0 ? 0 : {0})"),
    "And": ({BOOL}, "({0} && {1})"),
    "Or": ({BOOL}, "({0} || {1})"),
    "Xor": ({BOOL}, "({0} != {1})"),
    "Not": ({BOOL}, "!{0}"),
}
# operator: (function of float, function of double)
_FUNCTIONS = {
    "Abs": ("fabsf", "fabs"),
    "Sqrt": ("sqrtf", "sqrt"),
    "Floor": ("floorf", "floor"),
    "Ceil": ("ceilf", "ceil"),
    "Round": ("rintf", "rint"),
    "Exp": ("f_exp", "exp"),
    "Log": ("f_log", "log"),
    "Tanh": ("f_tanh", "tanh"),
    "Sigmoid": ("f_sigmoid", ""),
    "Softplus": ("f_softplus", ""),
    "Erf": ("f_erf", "erf"),
    "Gelu": ("f_gelu", ""),
}
_COMPARED = {
    "Greater": ">",
    "Less": "<",
    "GreaterOrEqual": ">=",
    "LessOrEqual": "<=",
    "Equal": "==",
}
_FOLDED = {  # of any number of inputs
    "Max": ("larger_{type}({0}, {1})", FLOATS | INTS),
    "Min": ("smaller_{type}({0}, {1})", FLOATS | INTS),
    "Sum": ("({0} + {1})", FLOATS),
}
_OTHERS = {"Clip", "Cast", "Where", "HardSigmoid", "LeakyRelu", "Pow", "IsNaN"}
_POWERS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}"}

ELEMENTWISE = {*_SAME, *_FUNCTIONS, *_COMPARED, *_FOLDED, *_OTHERS}
# views that give the elements of their input in the same order; the runtime copies nothing either
RESHAPES = {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity"}
VIEWS = RESHAPES | {"Expand", "Transpose", "Split", "Slice"}
REDUCTIONS = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"}
COMPOSED = {"Softmax", "LogSoftmax", "LayerNormalization"}


def attributes(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def literal(value: Any) -> str:
    """Return a number as C."""
    if value.dtype.kind != "f":
        return f"INT64_C({int(value)})" if int(value) > -(2**63) else "INT64_MIN"
    number = float(value)
    if not np.isfinite(number):
        return "NAN" if number != number else "INFINITY" if number > 0 else "(-INFINITY)"
    return f"({number.hex()}{'f' if value.dtype == np.float32 else ''})"


def expression(node: NodeProto, kinds: list[int], result: int, scalars: list[Any]) -> str | None:
    """Return an elementwise operator in C, with places for its inputs; None if it has no such form.

    `kinds` are the element types of the inputs, 0 for one that is left out; `scalars` their values
    where they are constants.
    """
    op, first = node.op_type, kinds[0]
    if op in _SAME:
        allowed, text = _SAME[op]
        return text if first in allowed and {*kinds, result} == {first} else None
    if op in _FUNCTIONS:
        function = _FUNCTIONS[op][first == DOUBLE]
        approximate = attributes(node).get("approximate", b"none") != b"none"
        fits = first in FLOATS and result == first and function and not approximate
        return f"{function}({{0}})" if fits else None
    if op in _COMPARED:
        fits = first in FLOATS | INTS and kinds == [first] * 2 and result == BOOL
        return f"({{0}} {_COMPARED[op]} {{1}})" if fits else None
    if op in _FOLDED:
        return _folded(op, kinds, result)
    return _other(op, node, kinds, result, scalars)


def _folded(op, kinds, result):
    form, allowed = _FOLDED[op]
    if result not in allowed or {*kinds} != {result}:
        return None
    text = "{0}"
    for k in range(1, len(kinds)):
        text = form.replace("{1}", f"{{{k}}}").replace("{0}", text)
    return text.replace("{type}", C_TYPES[result])


def _other(op, node, kinds, result, scalars):
    first = kinds[0]
    if op == "Where":
        fits = first == BOOL and kinds[1:] == [result] * 2
        return "({0} ? {1} : {2})" if fits else None
    if op == "Clip":
        if first not in FLOATS or result != first:
            return None
        text, k = "{0}", 0
        most = np.finfo(np.float32 if first == FLOAT else np.float64).max
        # without a bound the runtime takes the largest number, which infinities are clipped to
        for kind, sign, number in zip((*kinds[1:], 0, 0), "<>", (-most, most), strict=False):
            k += bool(kind)
            bound = f"{{{k}}}" if kind else literal(number)
            text = f"({text} {sign} {bound} ? {bound} : {text})"
        return text
    if op == "Cast":
        if first not in C_TYPES or result not in C_TYPES:
            return None
        if result == BOOL:
            return "({0} != 0)"
        # conversions of floats to integers that they do not fit in are not C's to define
        return None if first in FLOATS and result in INTS else f"({C_TYPES[result]}){{0}}"
    if op == "IsNaN":
        return "({0} != {0})" if first in FLOATS and result == BOOL else None
    if op == "Pow":
        fits = first in FLOATS and kinds[1] in FLOATS and scalars[1] is not None
        return _POWERS.get(float(scalars[1])) if fits else None
    if first != FLOAT or result != FLOAT:
        return None
    given = attributes(node)
    alpha = literal(np.float32(given.get("alpha", 0.2 if op == "HardSigmoid" else 0.01)))
    if op == "LeakyRelu":
        return f"({{0}} >= 0 ? {{0}} : {alpha} * {{0}})"
    beta = literal(np.float32(given.get("beta", 0.5)))
    line = f"({alpha} * {{0}} + {beta})"
    return f"({line} < 0 ? 0 : {line} > 1 ? 1 : {line})"
