"""The ops behind the operators and methods of Variables, and einops' with them."""

from ..graph.imports import import_with
from ..graph.method import provide
from . import activation, copies, math, matrix, order, reduce, shape, statistics
from .getitem import get_item, rows
from .numpy_functions import array_function, ufunc

_MODULES = {
    activation: ("relu", "sigmoid", "tanh"),
    copies: ("flip", "repeat", "tile"),
    math: (
        *("abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast"),
        *("cos", "div", "exp", "floor", "floor_div", "greater_equal", "greater_than"),
        *("less_equal", "less_than", "log", "mod", "mul", "neg", "pow", "round", "sign"),
        *("sin", "sqrt", "square", "sub"),
    ),
    matrix: ("matmul",),
    order: ("arg_min", "argsort", "sort", "top_k"),
    reduce: (
        *("arg_max", "cum_sum", "log_softmax", "reduce_max", "reduce_mean", "reduce_min"),
        *("reduce_prod", "reduce_sum", "softmax"),
    ),
    shape: (
        "expand",
        "flatten",
        "matrix_transpose",
        "reshape",
        "squeeze",
        "transpose",
        "unsqueeze",
    ),
    statistics: ("cum_prod", "logsumexp", "norm", "reduce_all", "reduce_any", "std", "var"),
}

for module, names in _MODULES.items():
    provide(**{name: getattr(module, name) for name in names})
provide(get_item=get_item, rows=rows, ufunc=ufunc, array_function=array_function)
import_with("einops", f"{__package__}.einops_backend")
