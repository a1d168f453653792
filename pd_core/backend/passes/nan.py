"""NaN in maxima: ONNX Runtime's CPU kernels lose one, unless it stands first or in a lucky lane.

ReduceMax, ReduceMin, ReduceLogSumExp beside an infinity, ArgMax, ArgMin, TopK, both max poolings
and scatters by max and min compare a NaN as any number. Here an element that is NaN makes the
result NaN, or is the place that was asked for, as in NumPy and PyTorch. A sum over the operand
tells whether there may be any, in about the time that the fastest of these kernels takes: NaN + x
is NaN. Only then, or where infinities of both signs give such a sum, the form runs that is exact.
"""

from collections.abc import Callable

import numpy as np

from ... import ops
from ...graph.node import Node, apply, retyped
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, Variable, constant
from ...ops.control import as_list
from .context import Context, Outputs

Form = Callable[[], Outputs]
_FEW = 65_536  # elements, which one thread adds in a few microseconds


def reduced(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Make a ReduceMax, ReduceMin or ReduceLogSumExp of NaN and others NaN."""
    x, *axes = inputs

    def exact():
        y = _kept(node, inputs)[0]
        return [_nan_where(_has_nan(x, *axes, **node.attributes), y)]

    return _exact_if_nan(node, inputs, context, exact)


def global_max_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Make the maximum of an image with a NaN NaN."""
    (x,) = inputs

    def exact():
        has_nan = _has_nan(x, np.arange(2, x.rank), keepdims=1)
        return [_nan_where(has_nan, _kept(node, inputs)[0])]

    return _exact_if_nan(node, inputs, context, exact)


def max_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Make the maximum of a window with a NaN NaN; its index is that of the last one.

    Without Indices the kernels for float32 make -inf the lowest finite number too. Behind a
    convolution in inference the kernel stays: the sum and the branch take a tenth of LeNet's time
    there, for one image.
    """
    (x,) = inputs
    if not is_float(x) or _is_finite(x) or _is_inferred(node, context):
        return None

    def exact():
        largest, at = _pooled(node, _indices(x))
        y, index = _pooled(node, x)
        results = _nan_where(largest > 0, y), ops.where(largest > 0, at, index)
        return results[: len(node.outputs)]

    # with neither NaN nor -inf
    is_plain = apply("Greater", _total(x, context), constant(-np.inf, x.dtype))
    results = ops.cond(is_plain, lambda: _kept(node, inputs), exact)
    return retyped(as_list(results), [y.dims for y in node.outputs])


def _is_inferred(node, context):
    """Whether a pooling alone reads a convolution, or a relu of one: there is no gradient of it."""
    x = node.inputs[0]
    conv = x.node.inputs[0] if is_output_of(x, "Relu") else x
    return is_output_of(conv, "Conv") and context.uses[x] == 1


def _pooled(node, x):
    """A MaxPool with Indices."""
    return apply("MaxPool", x, outputs=2, **node.attributes)


def top_k(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Count NaN as larger than every number."""
    x, count = inputs
    axis, largest = node.attributes.get("axis", -1), node.attributes.get("largest", 1)

    def exact():
        is_nan = apply("IsNaN", x)
        options = {"outputs": 2, "axis": axis, "largest": largest}
        by_number = apply("TopK", ops.where(is_nan, np.inf, x), ops.size_of(x, axis), **options)[1]
        is_nan = ops.gather_elements(ops.cast(is_nan, np.float32), by_number, axis)
        index = ops.gather_elements(by_number, apply("TopK", is_nan, count, **options)[1], axis)
        return [ops.gather_elements(x, index, axis), index]

    return _exact_if_nan(node, inputs, context, exact)


def arg_extreme(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Find the first NaN by ArgMax and ArgMin, or the last with `select_last_index`."""
    (x,), axis = inputs, node.attributes.get("axis", 0)

    def exact():
        is_nan = ops.cast(apply("IsNaN", x), np.float32)
        keep = node.attributes.get("keepdims", 1)
        has_nan = apply("ReduceMax", is_nan, np.array([axis]), keepdims=keep) > 0
        at = apply("ArgMax", is_nan, **node.attributes)
        return [ops.where(has_nan, at, _kept(node, inputs)[0])]

    return _exact_if_nan(node, inputs, context, exact)


def scattered(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Make an element NaN to which a NaN is scattered by max or min, and one that is NaN before."""
    data, index, updates = inputs
    if node.attributes.get("reduction") not in ("max", "min") or not is_float(data):
        return None

    def exact():
        none = ops.cast(ops.zeros_like(data), np.float32)
        is_nan = ops.cast(apply("IsNaN", updates), np.float32)
        options = {**node.attributes, "reduction": "add"}
        counts = apply(node.op_type, none, index, is_nan, **options)
        mask = ops.logical_or(counts > 0, apply("IsNaN", data))
        return [_nan_where(mask, _kept(node, inputs)[0])]

    is_filled = is_output_of(data, "Expand") and data.node.inputs[0].value is not None
    total = _total(updates, context)
    if not is_filled and data.value is None:
        total = total + _total(data, context)
    results = ops.cond(apply("IsNaN", total), exact, lambda: _kept(node, inputs))
    return retyped(as_list(results), [y.dims for y in node.outputs])


def clip(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Limit by Max and Min where a bound may be NaN: Clip passes over it."""
    x, *bounds = inputs
    if not is_float(x) or all(
        b is None or (b.value is not None and b.value == b.value) for b in bounds
    ):
        return None
    for op_type, bound in zip(("Max", "Min"), bounds, strict=False):
        x = x if bound is None else apply(op_type, x, bound, known=x.dims)
    return (x,)


def sign(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute the sign of float16 in float32: its own kernel gives 0 for NaN."""
    (x,) = inputs
    if x.dtype != np.float16:
        return None
    return (ops.cast(apply("Sign", ops.cast(x, np.float32)), np.float16),)


def _indices(x: Variable) -> Variable:
    """Return numbers [*S] of the elements of images x [N, C, *S] that are NaN, and 0 elsewhere.

    They rise from 1, row by row. float64 has enough of them for every image.
    """
    spatial = apply("Shape", x, start=2)
    indices = ops.reshape(ops.arange(ops.reduce_prod(spatial)) + 1, spatial)
    return ops.where(apply("IsNaN", x), ops.cast(indices, np.float64), 0.0)


def if_nan(x: Variable, context: Context, exact: Form, otherwise: Form) -> list[Variable]:
    """Return what `exact` computes if x may have a NaN, else what `otherwise` does."""
    return as_list(ops.cond(apply("IsNaN", _total(x, context)), exact, otherwise))


def _exact_if_nan(node, inputs, context, exact):
    """The outputs of a node, by the exact form if its first input may have a NaN."""
    x = inputs[0]
    if not is_float(x):
        return None
    return retyped(
        if_nan(x, context, exact, lambda: _kept(node, inputs)), [y.dims for y in node.outputs]
    )


def _kept(node, inputs):
    """The outputs of the kernel."""
    outputs = apply(node.op_type, *inputs, outputs=len(node.outputs), **node.attributes)
    return as_list(outputs)


def _total(x, context):
    """The sum of all elements; of many first by rows, which several threads share."""
    elements = context.elements(x)
    if x.rank > 1 and (elements is None or elements > _FEW):
        x = apply("ReduceSum", x, np.arange((x.rank + 1) // 2, x.rank), keepdims=0)
    return apply("ReduceSum", x, keepdims=0)


def _has_nan(x, *axes, **attributes):
    """Where there is a NaN along axes: without numbers below zero no sum is NaN by itself."""
    return apply("IsNaN", apply("ReduceSum", apply("Relu", x), *axes, **attributes))


def _nan_where(mask, y):
    return ops.where(mask, constant(np.nan, y.dtype), y)


def _is_finite(x):
    """Whether x is made of integers or masks by products and sums with constants."""
    if x.value is not None or is_output_of(x, "Cast"):
        return x.value is not None or x.node.inputs[0].dtype.kind in "biu"
    return any(is_output_of(x, op) for op in ("Mul", "Add")) and all(map(_is_finite, x.node.inputs))


def is_float(x: Variable) -> bool:
    """Return whether x may hold a NaN by its element type."""
    return x.dtype.kind == "f" or str(x.dtype) == "bfloat16"
