"""Random nodes: arithmetic, comparisons, reductions, conversions."""

import numpy as np
from onnx import TensorProto, helper

from .draw import FLOATS, INTEGERS, Draw

recipes: dict = {}  # name -> (first opset, recipe)


def recipe(since: int, *names: str):
    """Register fn(draw, operator) for these operators, from an opset on."""

    def register(fn):
        for name in names:
            recipes[name] = (since, lambda d, name=name: fn(d, name))
        return fn

    return register


_DOMAINS = {
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), (0.3, 3.0)),
    **dict.fromkeys(("Acos", "Asin", "Atanh"), (-0.9, 0.9)),
    "Acosh": (1.2, 3.0),
    "Tan": (-1.2, 1.2),
}


@recipe(7, "Abs", "Neg", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Relu", "Sigmoid")
@recipe(7, "Tanh", "Softplus", "Softsign", "Sin", "Cos", "Tan", "Acos", "Asin", "Atan", "Identity")
@recipe(9, "Sinh", "Cosh", "Acosh", "Asinh", "Atanh", "Erf", "Sign")
@recipe(11, "Round")
@recipe(14, "HardSwish")
@recipe(18, "Mish")
def unary(d: Draw, op_type: str):
    low, high = _DOMAINS.get(op_type, (-2.0, 2.0))
    dtypes = FLOATS
    if op_type in ("Abs", "Neg", "Sign", "Identity") and d.chance(0.3):
        dtypes = INTEGERS
    return d.node(op_type, [d.any(dtypes, low=low, high=high)])


@recipe(7, "Elu", "LeakyRelu", "Selu", "HardSigmoid")
@recipe(10, "ThresholdedRelu")
@recipe(12, "Celu")
@recipe(10, "Shrink")
@recipe(24, "Swish")
def with_alpha(d: Draw, op_type: str):
    keys = {"Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta")}
    keys["Shrink"] = ("lambd", "bias")
    a = {
        k: round(float(d.rng.uniform(0.1, 1.5)), 3)
        for k in keys.get(op_type, ("alpha",))
        if d.chance(0.6)
    }
    return d.node(op_type, [d.any(FLOATS)], **a)


@recipe(20, "Gelu")
def gelu(d: Draw, op_type: str):
    return d.node(op_type, [d.any(FLOATS)], approximate=d.one((None, "none", "tanh")))


def beside(d: Draw, x: str, dtype: str, low=-2.0, high=2.0) -> str:
    """Return a value that broadcasts with x, which may be larger than it."""
    dims = [1 if d.chance(0.25) else n for n in d.shape(x)]
    dims = [d.number(2, 3) if n == 1 and d.chance(0.15) else n for n in dims]
    cut = d.number(0, len(dims)) if d.chance(0.3) else 0
    dims = [*(d.dims(1) if d.chance(0.1) and len(dims) < 4 and not cut else ()), *dims[cut:]]
    return d.any((dtype,), shape=dims, low=low, high=high)


@recipe(7, "Add", "Sub", "Mul", "Div")
def arithmetic(d: Draw, op_type: str):
    kinds = FLOATS if d.chance(0.75) else ("int64", "int32") if d.opset < 14 else INTEGERS
    x = d.any(kinds)
    low, high = (0.5, 3.0) if op_type == "Div" else (-2.0, 2.0)
    if np.dtype(d.dtype(x)).kind in "iu":
        dims = [1 if d.chance(0.3) else n for n in d.shape(x)]
        y = d.give(np.abs(d.array(dims, d.dtype(x))) % 4 + 1)
    else:
        y = beside(d, x, d.dtype(x), low, high)
    pair = [x, y] if d.chance(0.6) or op_type == "Div" else [y, x]
    return d.node(op_type, pair)


@recipe(7, "Pow")
def power(d: Draw, op_type: str):
    x = d.any(("float32", "float64", "int64", "int32"), low=0.3, high=3.0)
    dtype = d.one(("float32", "int64", "int32", "float64")) if d.opset >= 12 else d.dtype(x)
    dims = [1 if d.chance(0.3) else n for n in d.shape(x)]
    whole = "int" in d.dtype(x)  # 0 to the power of -1 is no integer
    return d.node(op_type, [x, d.give(d.array(dims, dtype, 1 if whole else 0, 2))])


@recipe(10, "Mod")
def modulo(d: Draw, op_type: str):
    x = d.any((*FLOATS[-3:], *INTEGERS))
    y = d.give((np.abs(d.array(d.shape(x), d.dtype(x))) + 1).astype(d.dtype(x)))
    return d.node(
        op_type, [x, y], fmod=1 if np.dtype(d.dtype(x)).kind == "f" else d.one((None, 0, 1))
    )


@recipe(8, "Sum", "Mean", "Max", "Min")
def variadic(d: Draw, op_type: str):
    dtypes = INTEGERS if op_type in ("Max", "Min") and d.opset > 12 and d.chance(0.2) else FLOATS
    x = d.any(dtypes)
    return d.node(op_type, [x, *(beside(d, x, d.dtype(x)) for _ in range(d.number(0, 2)))])


@recipe(7, "Less", "Greater", "Equal", "And", "Or", "Xor")
@recipe(12, "LessOrEqual", "GreaterOrEqual")
def comparison(d: Draw, op_type: str):
    logical = op_type in ("And", "Or", "Xor")
    x = d.any(("bool",) if logical else (*FLOATS, "int64", "int32"))
    return d.node(op_type, [x, beside(d, x, d.dtype(x))])


@recipe(7, "Not")
def negation(d: Draw, op_type: str):
    return d.node(op_type, [d.any(("bool",))])


@recipe(10, "IsInf", "IsNaN")
def special(d: Draw, op_type: str):
    a = {}
    if op_type == "IsInf":
        a = {k: d.one((0, 1)) for k in ("detect_negative", "detect_positive") if d.chance(0.5)}
    x = d.any(("float32", "float64"))
    if d.chance(0.6):
        array = d.array(d.dims(2))
        array.flat[: array.size // 2] = d.one((np.inf, -np.inf, np.nan))
        x = d.give(array)
    return d.node(op_type, [x], **a)


@recipe(18, "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
@recipe(11, "BitShift")
def bitwise(d: Draw, op_type: str):
    x = d.any(("uint8", "uint32", "uint64") if op_type == "BitShift" else INTEGERS)
    a = {"direction": d.one(("LEFT", "RIGHT"))} if op_type == "BitShift" else {}
    more = [] if op_type == "BitwiseNot" else [beside(d, x, d.dtype(x))]
    return d.node(op_type, [x, *more], **a)


@recipe(9, "Where")
def where(d: Draw, op_type: str):
    x = d.any((*FLOATS, "int64", "bool", "uint8"))
    return d.node(op_type, [beside(d, x, "bool"), x, beside(d, x, d.dtype(x))])


@recipe(7, "Clip")
def clip(d: Draw, op_type: str):
    dtypes = FLOATS if d.opset < 12 or d.chance(0.7) else ("int64", "int32", "int8", "uint8")
    x = d.any(dtypes)
    if d.opset < 11:
        a = {k: v for k, v in (("min", -0.5), ("max", 0.7)) if d.chance(0.7)}
        return d.node(op_type, [x], **a)
    kind = d.dtype(x)
    low = d.fixed(-0.5 if np.dtype(kind).kind == "f" else 0, kind) if d.chance(0.7) else ""
    high = [d.fixed(0.75 if np.dtype(kind).kind == "f" else 2, kind)] if d.chance(0.7) else []
    return d.node(op_type, [x, low, *high])


_REDUCTIONS = {f"Reduce{k}": 7 for k in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum")}
_REDUCTIONS |= {f"Reduce{k}": 7 for k in ("LogSumExp", "SumSquare")}


@recipe(7, *_REDUCTIONS)
def reduction(d: Draw, op_type: str):
    dtypes = (
        FLOATS[:-1]
        if d.chance(0.8) or "Log" in op_type
        else ("int64", "int32", "int8", "uint8", "bool")
    )
    low = 0.2 if op_type == "ReduceLogSum" else -2.0
    x = d.any(dtypes, low=low, high=3.0 if low > 0 else 2.0)
    rank = len(d.shape(x))
    a = {"keepdims": d.one((None, 0, 1))}
    axes = d.rng.permutation(rank)[: d.number(0 if d.chance(0.2) else min(1, rank), rank)]
    axes = [int(k) - (rank if d.chance(0.4) else 0) for k in axes]
    if d.opset < (13 if op_type == "ReduceSum" else 18):
        return d.node(op_type, [x], axes=axes or None, **a)
    a["noop_with_empty_axes"] = d.one((None, 0, 1))
    more = [] if d.chance(0.15) else [""] if d.chance(0.1) else [d.fixed(axes)]
    return d.node(op_type, [x, *more], **a)


@recipe(7, "ArgMax", "ArgMin")
def arg(d: Draw, op_type: str):
    x = d.any((*FLOATS[:-1], "int32", "uint8"), least=1)
    a = {"keepdims": d.one((None, 0, 1)), "axis": d.one((None, d.axis(len(d.shape(x)))))}
    if d.opset >= 12:
        a["select_last_index"] = d.one((None, 0, 1))
    if d.opset < 11 and (a["axis"] or 0) < 0:
        a["axis"] = 0
    return d.node(op_type, [x], **a)


@recipe(11, "CumSum")
@recipe(26, "CumProd")
def cumulative(d: Draw, op_type: str):
    x = d.any(("float32", "float64", "int64", "int32"), least=1)
    a = {k: d.one((None, 0, 1)) for k in ("exclusive", "reverse")}
    return d.node(op_type, [x, d.fixed(d.axis(len(d.shape(x))), d.one(("int64", "int32")))], **a)


@recipe(9, "Cast")
def cast(d: Draw, op_type: str):
    x = d.any((*FLOATS, *INTEGERS, "bool"))
    to = d.one(("float32", "float32", "float64", "float16", *INTEGERS, "bool"))
    if np.dtype(to).kind == "u" and np.dtype(d.dtype(x)).kind == "f":
        to = "int32"  # of negative numbers it is undefined
    return d.node(op_type, [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@recipe(13, "CastBfloat16")
def to_bfloat16(d: Draw, op_type: str):
    (y,) = d.node("Cast", [d.any(("float32",))], to=TensorProto.BFLOAT16)
    return d.node("Cast", [y], to=TensorProto.FLOAT)


@recipe(15, "CastLike")
def cast_like(d: Draw, op_type: str):
    return d.node(op_type, [d.any((*FLOATS, "int64", "bool")), d.any((*FLOATS, "int32"))])


@recipe(7, "PRelu")
def prelu(d: Draw, op_type: str):
    x = d.any(FLOATS, least=1)
    dims = [1 if d.chance(0.5) else n for n in d.shape(x)]
    return d.node(op_type, [x, d.new(*dims[d.number(0, len(dims)) :], dtype=d.dtype(x))])


@recipe(7, "Softmax", "LogSoftmax", "Hardmax")
def softmax(d: Draw, op_type: str):
    x = d.any(FLOATS, least=1)
    rank = len(d.shape(x))
    axis = d.axis(rank) if d.opset > 10 else d.number(0, rank - 1)
    return d.node(op_type, [x], axis=d.one((None, axis)))


@recipe(7, "Dropout")
def dropout(d: Draw, op_type: str):
    x = d.any(FLOATS)
    outputs = d.number(1, 2) if d.opset >= 10 else 1
    if d.opset < 12:
        return d.node(op_type, [x], outputs, ratio=d.one((None, 0.3)))
    ratio = d.one(([], [""], [d.fixed(0.3, "float32")]))
    if ratio and d.chance(0.3):
        ratio = [*ratio, d.fixed(False, "bool")]
    return d.node(op_type, [x, *ratio], outputs)
