"""NumPy's functions of Variables: `np.exp(v)` is `pd.exp(v)`, `np.mean(v, axis=0)` pd.reduce_mean.

What pd has, by this name or another, is an op and differentiated. Other functions compute with
arrays where values are at hand, and are errors of static graphs, with our word for them.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..graph.arrays import is_float
from ..graph.errors import DTypeError
from ..graph.other_words import function_here
from ..graph.variable import Variable
from . import activation, math, matrix, reduce, special, statistics

_SAME = (
    *("add", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "cos", "cosh", "equal", "exp"),
    *("expm1", "floor", "fmod", "greater_equal", "less_equal", "log", "log10", "log1p", "log2"),
    *("logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum"),
    *("reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan", "trunc"),
)


def _not_equal(a, b):
    return math.logical_not(math.equal(a, b))


def _divmod(a, b):
    return math.floor_div(a, b), math.mod(a, b)


UFUNCS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _SAME},
    **{f"arc{n}": getattr(math, f"a{n}") for n in ("cos", "sin", "tan", "cosh", "sinh", "tanh")},
    **dict.fromkeys(("absolute", "fabs"), math.abs),
    "arctan2": math.atan2,
    "conjugate": math.identity,
    "divide": math.div,
    "divmod": _divmod,
    "floor_divide": math.floor_div,
    "greater": math.greater_than,
    "invert": math.bitwise_not,
    "isfinite": math.is_finite,
    "isinf": math.is_inf,
    "isnan": math.is_nan,
    "less": math.less_than,
    "logaddexp": special.logaddexp,
    "matmul": matrix.matmul,
    "multiply": math.mul,
    "negative": math.neg,
    "not_equal": _not_equal,
    "positive": math.identity,
    "power": math.pow,
    "remainder": math.mod,
    "rint": math.round,
    "subtract": math.sub,
    "tanh": activation.tanh,
}
REDUCTIONS: dict[str, Callable[..., Variable]] = {
    "sum": reduce.reduce_sum,
    "mean": reduce.reduce_mean,
    "prod": reduce.reduce_prod,
    **dict.fromkeys(("max", "amax"), reduce.reduce_max),
    **dict.fromkeys(("min", "amin"), reduce.reduce_min),
    "all": statistics.reduce_all,
    "any": statistics.reduce_any,
    "std": statistics.std,
    "var": statistics.var,
}
# which take what cannot be converted for unequal, or ask an array for more than Variables have
_OF_ARRAYS = {
    *("array_equal", "array_equiv", "array2string", "array_repr", "array_str"),
    *("histogramdd", "nanpercentile", "percentile"),
}
_OF_TRUTHS = {"all", "any"}
_ARRAY = np.zeros(0)
_WORDS = {"keepdims": "keep_dim", "ddof": "correction"}


def ufunc(
    function: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Return what a universal function gives for Variables among its inputs: `__array_ufunc__`.

    `array += v` gives a Variable, as `array + v` does: the name means another thing then.
    """
    own = UFUNCS.get(function.__name__) if method == "__call__" else None
    out = options.get("out", (None,))
    is_plain = len(options) == ("out" in options) and (out[0] is None or out[0] is inputs[0])
    if own is not None and is_plain:
        try:
            return own(*inputs)
        except DTypeError:  # of integers, as np.sqrt takes them, or of floats as truths
            is_truth = function.__name__.startswith("logical_")
            if not is_truth and any(is_float(v.dtype) for v in _variables(inputs)):
                raise
            if not all(v.has_value for v in _variables(inputs)):
                raise
    name = function.__name__ if method == "__call__" else f"{function.__name__}.{method}"
    arrays = _at_hand(name, inputs)
    return getattr(function, method)(*arrays, **_at_hand(name, dict(options)))


def array_function(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Return what another function of NumPy gives for Variables: `__array_function__`."""
    name = function.__name__
    own = REDUCTIONS.get(name)
    if own is not None:
        given = _given(function, arguments, options)
        x = given.pop("a")
        is_ours = isinstance(x, Variable) and (
            not x.has_value or (is_float(x.dtype) and name not in _OF_TRUTHS)
        )
        if is_ours and given.keys() <= {"axis", "keepdims", "ddof"}:
            if name in ("std", "var"):
                given.setdefault("ddof", 0)
            return own(x, **{_WORDS.get(key, key): value for key, value in given.items()})
        arguments = _at_hand(name, tuple(arguments))
    elif name in _OF_ARRAYS:
        arguments = _at_hand(name, tuple(arguments))
    try:
        return _ARRAY.__array_function__(function, (), arguments, options)  # NumPy's own code
    except DTypeError:
        _at_hand(name, [arguments, options])  # says which
        raise


def _given(function, arguments, options):
    """The arguments of a reduction by name, without those that are left out."""
    given = _signature(function).bind(*arguments, **options).arguments
    return {k: v for k, v in given.items() if k == "a" or not (v is None or v is np._NoValue)}


_signature = cache(inspect.signature)


def _variables(value: Any) -> Iterator[Variable]:
    """The Variables in nested lists, tuples and dicts."""
    if isinstance(value, Variable):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for part in parts:
            yield from _variables(part)


def _at_hand(name: str, value: Any) -> Any:
    """Arguments with arrays in the places of Variables; DTypeError if one has no value yet."""
    for v in _variables(value):
        if not v.has_value:
            here = function_here(name.partition(".")[0])
            hint = "evaluate it before, pd.eval(v)"
            if here is not None and not here.startswith("no: "):
                hint = f"here it is {here}"
            elif here is None and hasattr(sys.modules[__package__], name):
                hint = f"here it is pd.{name}"
            raise DTypeError(
                f"np.{name}: {v!r} has no values while the graph is built\n  hint: {hint}"
            )
    return _arrays(value)


def _arrays(value):
    if isinstance(value, Variable):
        return np.asarray(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_arrays(part) for part in value])
    if isinstance(value, dict):
        return {key: _arrays(part) for key, part in value.items()}
    return value
