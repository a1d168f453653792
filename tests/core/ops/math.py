"""Rows of the elementwise functions."""

import math

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, flags, normal, whole

UNARY = [
    case("Neg", ops.neg, np.negative, [normal(3, 4)]),
    case("Neg", lambda x: -x, np.negative, [normal(3)], label="operator"),
    case("Abs", ops.abs, np.abs, [distinct(3, 4)]),
    case("Abs", abs, np.abs, [distinct(3)], label="operator"),
    case("Sign", ops.sign, np.sign, [distinct(3, 4)]),
    case("Exp", ops.exp, np.exp, [normal(3, 4)]),
    case("Log", ops.log, np.log, [between(0.2, 3, 3, 4)]),
    case("Sqrt", ops.sqrt, np.sqrt, [between(0.2, 3, 3, 4)]),
    case("Reciprocal", ops.reciprocal, np.reciprocal, [between(0.5, 3, 3, 4)]),
    case("Floor", ops.floor, np.floor, [distinct(3, 4)]),
    case("Round", ops.round, np.round, [distinct(3, 4)]),
    case("Sin", ops.sin, np.sin, [normal(3, 4)]),
    case("Cos", ops.cos, np.cos, [normal(3, 4)]),
    case("Erf", ops.erf, np.vectorize(math.erf), [normal(3, 4)]),
    case("Mul", ops.square, np.square, [normal(3, 4)]),
    case("Identity", ops.identity, lambda x: x, [normal(3, 4)]),
]

SIGNS = [-7.5, -2.5, -1.2, -0.7, 0.4, 1.3, 2.6, 7.0]
CORNERS = fixed([-np.inf, -1.0, 0.0, 2.0, np.inf, np.nan])

MORE = [
    case(
        "inverse_functions",
        lambda x: [ops.asin(x), ops.acos(x), ops.atan(x), ops.atanh(x), ops.tan(x)],
        lambda x: [np.arcsin(x), np.arccos(x), np.arctan(x), np.arctanh(x), np.tan(x)],
        [between(-0.8, 0.8, 3, 4)],
    ),
    case(
        "hyperbolic_functions",
        lambda x: [ops.sinh(x), ops.cosh(x), ops.asinh(x), ops.acosh(x * x + 1.5)],
        lambda x: [np.sinh(x), np.cosh(x), np.arcsinh(x), np.arccosh(x * x + 1.5)],
        [normal(3, 4)],
    ),
    case(
        "logarithms",
        lambda x: [ops.log2(x), ops.log10(x), ops.log1p(x), ops.expm1(x), ops.rsqrt(x)],
        lambda x: [np.log2(x), np.log10(x), np.log1p(x), np.expm1(x), 1 / np.sqrt(x)],
        [between(0.2, 3, 3, 4)],
    ),
    case(
        "rounding",
        lambda x: [ops.ceil(x), ops.trunc(x)],
        lambda x: [np.ceil(x), np.trunc(x)],
        [fixed(SIGNS)],
        smooth=False,
    ),
    case(
        "atan2",
        ops.atan2,
        np.arctan2,
        [fixed([2.0, -0.3, 1.0, -1.0, 0.0, 0.0, 3.0, -3.0]), fixed([1.0, -2, -1, 1, 2, -2, 0, 0])],
        label="quadrants and axes",
        smooth=False,
    ),
    case(
        "atan2",
        ops.atan2,
        np.arctan2,
        [fixed([[2.0], [-0.3], [1.0]]), fixed([1.0, -2.0, -0.7, 0.1])],
        label="broadcast",
    ),
    case(
        "remainders",
        lambda a, b: [ops.mod(a, b), ops.fmod(a, b)],
        lambda a, b: [np.mod(a, b), np.fmod(a, b)],
        [fixed([[x] for x in SIGNS]), fixed([1.1, -1.7])],
    ),
    case(
        "remainders",
        lambda a, b: [ops.mod(a, b), ops.fmod(a, b)],
        lambda a, b: [np.mod(a, b), np.fmod(a, b)],
        [fixed([[-7], [7], [6]]), fixed([2, -4])],
        label="int",
        smooth=False,
    ),
    case(
        "lerp",
        ops.lerp,
        lambda a, b, w: (1 - w) * a + w * b,
        [normal(3, 4), normal(4), normal(3, 1)],
        batch=(0, 2),
    ),
    case(
        "number_classes",
        lambda x: [ops.is_nan(x), ops.is_inf(x), ops.is_finite(x)],
        lambda x: [np.isnan(x), np.isinf(x), np.isfinite(x)],
        [CORNERS],
        smooth=False,
    ),
    case(
        "is_close",
        lambda a, b: [ops.is_close(a, b), ops.is_close(a, b, 0.0, 0.1)],
        lambda a, b: [np.isclose(a, b), np.isclose(a, b, 0.0, 0.1)],
        [CORNERS, fixed([[-np.inf], [2.00001], [2.05], [np.inf], [np.nan]])],
        batch=(),
        smooth=False,
    ),
    *(
        case(
            name, function, reference, [whole(-9, 9, 8, dtype=dtype)] * 2, label=dtype, smooth=False
        )
        for name, function, reference in (
            ("BitwiseAnd", ops.bitwise_and, np.bitwise_and),
            ("BitwiseOr", ops.bitwise_or, np.bitwise_or),
            ("BitwiseXor", ops.bitwise_xor, np.bitwise_xor),
        )
        for dtype in ("int64", "int32")
    ),
    case("BitwiseNot", ops.bitwise_not, np.bitwise_not, [whole(-9, 9, 8)], smooth=False),
    case("Xor", ops.bitwise_xor, np.logical_xor, [flags(8), flags(8)], smooth=False, label="bits"),
    case("And", ops.bitwise_and, np.logical_and, [flags(8), flags(8)], smooth=False, label="bits"),
    case(
        "floor_div",
        ops.floor_div,
        np.floor_divide,
        [fixed([-7, -6, 7, 6, -1, 0]), fixed([2, 3, -2, 4, 3, -5])],
        smooth=False,
    ),
    case(
        "floor_div",
        ops.floor_div,
        np.floor_divide,
        [distinct(8), fixed([0.3])],
        label="floats",
        batch=(),
        smooth=False,
    ),
    case("Xor", ops.logical_xor, np.logical_xor, [flags(8), flags(8)], smooth=False),
]

# shapes of both operands, and which of them have a batch as their first axis
STRETCHES = [
    ((3, 4), (3, 4), (0, 1)),
    ((3, 4), (4,), (0,)),
    ((4,), (3, 4), (1,)),
    ((3, 1), (1, 4), (0,)),
    ((), (3, 4), (1,)),
    ((2, 3, 4), (3, 1), (0,)),
    ((1, 3, 1), (2, 1, 4), (1,)),
]
ARITHMETIC = {
    "Add": (ops.add, np.add, normal, normal),
    "Sub": (ops.sub, np.subtract, normal, normal),
    "Mul": (ops.mul, np.multiply, normal, normal),
    "Div": (ops.div, np.divide, normal, lambda *s: between(0.5, 2, *s)),
    "Pow": (ops.pow, np.power, lambda *s: between(0.5, 2, *s), normal),
    "Max": (ops.maximum, np.maximum, lambda *s: distinct(*s), lambda *s: _offset(*s)),
    "Min": (ops.minimum, np.minimum, lambda *s: distinct(*s), lambda *s: _offset(*s)),
}


def _offset(*shape):
    """Values halfway between those of `distinct`, so that none are equal."""
    draw = distinct(*shape)
    return lambda rng: draw(rng) + 0.05


BINARY = [
    case(name, function, reference, [left(*a), right(*b)], batch=batch, label=f"{list(a)}{list(b)}")
    for name, (function, reference, left, right) in ARITHMETIC.items()
    for a, b, batch in STRETCHES
]

OPERATORS = [
    case("Add", lambda x: x + 2.0, lambda x: x + 2.0, [normal(3)], label="x+2"),
    case("Add", lambda x: 2 + x, lambda x: 2 + x, [normal(3)], label="2+x"),
    case("Sub", lambda x: x - 2.0, lambda x: x - 2.0, [normal(3)], label="x-2"),
    case("Sub", lambda x: 2.0 - x, lambda x: 2.0 - x, [normal(3)], label="2-x"),
    case("Mul", lambda x: np.float64(3) * x, lambda x: 3 * x, [normal(3)], label="float64*x"),
    case("Mul", lambda x: x * np.arange(3), lambda x: x * np.arange(3), [normal(2, 3)]),
    case("Div", lambda x: x / 4, lambda x: x / 4, [normal(3)], label="x/4"),
    case("Div", lambda x: 1.0 / x, lambda x: 1.0 / x, [between(0.5, 2, 3)], label="1/x"),
    case("Pow", lambda x: x**3, lambda x: x**3, [normal(3)], label="x**3, x < 0 too"),
    case("Pow", lambda x: 2.0**x, lambda x: 2.0**x, [normal(3)], label="2**x"),
    case("Pow", lambda x, k: x**k, lambda x, k: x**k, [normal(3), whole(2, 5, 3)], label="x**int"),
    case("Add", ops.add, np.add, [whole(0, 9, 3), whole(0, 9, 3)], smooth=False, label="int"),
    case("Mul", ops.mul, np.multiply, [whole(0, 9, 3), whole(0, 9, 3)], smooth=False, label="int"),
    case(
        "Div",
        ops.div,
        lambda a, b: (a / b).astype("float32"),
        [fixed([-7, 7, -8]), fixed([2, -2, 3])],
        smooth=False,
        label="of integers",
    ),
]

COMPARED = {
    "Less": (ops.less_than, np.less),
    "LessOrEqual": (ops.less_equal, np.less_equal),
    "Greater": (ops.greater_than, np.greater),
    "GreaterOrEqual": (ops.greater_equal, np.greater_equal),
    "Equal": (ops.equal, np.equal),
}
LOGIC = [
    case(name, function, reference, samples, smooth=False, label=label)
    for name, (function, reference) in COMPARED.items()
    for label, samples in {
        "int": [whole(0, 3, 4, 5), whole(0, 3, 5)],
        "float": [fixed([[0.5, 1.5], [2.5, 3.5]]), fixed([1.5, 3.5])],
    }.items()
] + [
    case("Less", lambda x: x < 1, lambda x: x < 1, [normal(4)], smooth=False, label="x<1"),
    case("LessOrEqual", lambda x: x <= 1, lambda x: x <= 1, [normal(4)], smooth=False),
    case("Greater", lambda x: x > 1, lambda x: x > 1, [normal(4)], smooth=False),
    case("GreaterOrEqual", lambda x: x >= 1, lambda x: x >= 1, [normal(4)], smooth=False),
    case("And", ops.logical_and, np.logical_and, [flags(8), flags(8)], smooth=False),
    case("Or", ops.logical_or, np.logical_or, [flags(8), flags(8)], smooth=False),
    case("Not", ops.logical_not, np.logical_not, [flags(8)], smooth=False),
]

CHOICE = [
    case("Where", ops.where, np.where, [flags(3, 4), normal(3, 4), normal(3, 4)], batch=(0, 1, 2)),
    case(
        "Where",
        ops.where,
        np.where,
        [flags(3, 1), normal(4), normal(3, 4)],
        batch=(0, 2),
        label="stretched",
    ),
    case("Where", ops.where, np.where, [flags(3, 4), normal(), normal(4)], label="scalar"),
    case(
        "Where",
        lambda c, x: ops.where(c, x, 0.0),
        lambda c, x: np.where(c, x, 0),
        [flags(4), normal(4)],
    ),
    case(
        "Clip",
        ops.clip,
        lambda x, low, high: np.clip(x, low, high),
        [distinct(3, 4)],
        low=-0.3,
        high=0.4,
    ),
    case("Clip", ops.clip, lambda x, low: np.maximum(x, low), [distinct(3, 4)], low=-0.2),
    case("Clip", ops.clip, lambda x, high: np.minimum(x, high), [distinct(3, 4)], high=0.2),
    case("Clip", ops.clip, np.clip, [distinct(3, 4), fixed(-0.3), fixed(0.4)], label="bounds"),
    case(
        "Clip",
        lambda k: ops.clip(k, 2, 5),
        lambda k: np.clip(k, 2, 5),
        [whole(0, 9, 6)],
        smooth=False,
    ),
    case("Cast", lambda x: ops.cast(x, "float64"), lambda x: x, [normal(3, 4)], label="float64"),
    case("Cast", lambda k: ops.cast(k, "float32"), lambda k: k, [whole(0, 9, 4)], smooth=False),
    case(
        "Cast",
        lambda x: ops.cast(x, "int64"),
        np.trunc,
        [between(-3, 3, 5)],
        smooth=False,
        label="int",
    ),
    case("Cast", lambda b: ops.cast(b, "int32"), lambda b: b.astype(int), [flags(5)], smooth=False),
]

CASES = UNARY + MORE + BINARY + OPERATORS + LOGIC + CHOICE
