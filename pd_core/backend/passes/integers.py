"""Whole numbers, exact: operators of integers that ONNX Runtime rounds, saturates or dies of.

Its kernels for CPUs (1.31) add, multiply and raise integers in float64, where 2^53 + 1 is lost,
and saturate the result. Division and remainder of the least integer by -1 end the process; by 0
they are errors that name no line. Max, Min, Clip and Sign of int64 are wrong where a difference has
more than 31 bits. Products of matrices, sums of two numbers and comparisons are exact, and wrap
around as they do in NumPy: the others are written with those.
"""

from functools import reduce
from math import prod

import numpy as np
from onnx import numpy_helper

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, constant
from .context import Context, Outputs
from .integer_products import power, product
from .letters import axes_of_letters, terms_of

_EXACT = {"int32": (1 << 31) - 1, "int64": 1 << 53}  # up to which ONNX Runtime loses nothing
_SIZE = 1 << 47  # that memory has no room for
_ELEMENTS = (1 << 31) - 1  # in a sum, if it is not known how many
# operators whose outputs are some of the elements of their first input
_CHOOSING = ("Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def whole_numbers(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute an operator of integers exactly."""
    y = INTEGERS[node.op_type](node, inputs) if inputs[0].dtype.kind in "iu" else None
    return None if y is None else [refined(y, node.outputs[0].dims)]


# ---- division


def _divided(node, inputs):
    """a / b toward zero; a / 0 is 0, and the least integer / -1 itself, as in NumPy."""
    a, b = inputs
    if a.value is not None and a.value.size == 1 and a.value.min() == 1 and b.value is None:
        # no division: ONNX Runtime takes (1 / b) c for c / b
        y = a * ops.cast(ops.equal(b, 1), b.dtype)
        return y if b.dtype.kind == "u" else y - ops.cast(ops.equal(b, -1), b.dtype)
    excess = _excess(node.inputs[1], b)
    return None if excess is None else apply("Div", a, b - excess) * (excess + 1)


def _remainder(node, inputs):
    a, b = inputs
    excess = _excess(node.inputs[1], b)
    divisor = b if excess is None else b - excess
    if not node.attributes.get("fmod"):
        return None if excess is None else apply("Mod", a, divisor)
    rest = apply("Mod", a, divisor)  # the kernel for the sign of a goes through float64
    if a.dtype.kind == "u":
        return rest
    other = ops.logical_and(ops.logical_not(ops.equal(rest, 0)), ops.logical_xor(a < 0, rest < 0))
    return rest - ops.cast(other, a.dtype) * divisor


def _excess(written, b):
    """Return b - 1 where a division by b has to be one by 1, else 0; None if it is 0 everywhere.

    That is where b is 0 or -1: there b (b + 1) is 0, also in integers that wrap around.
    `written` is b before the inputs of its own node were replaced.
    """
    if b.value is not None and not np.isin(b.value, (0, -1) if b.dtype.kind == "i" else 0).any():
        return None
    if is_output_of(written, "Max") and any(_is_positive(x) for x in written.node.inputs):
        return None
    product = b * (b + 1) if b.dtype.kind == "i" else b
    return ops.cast(ops.equal(product, 0), b.dtype) * (b - 1)


def _is_positive(x):
    return x.value is not None and bool((x.value > 0).all())


# ---- order, of int64


def _extremes(node, inputs):
    axes, x = _axes(node, inputs), inputs[0]
    if not axes or x.dtype not in (np.int64, np.uint32, np.uint64):  # the latter two as int64
        return None
    for a in axes:  # the places that ONNX Runtime finds are right
        x = ops.gather_elements(x, apply(f"Arg{node.op_type[-3:]}", x, axis=a), a)
    return x if node.attributes.get("keepdims", 1) else ops.squeeze(x, axes)


def _extreme(node, inputs):
    if node.outputs[0].dtype != np.int64:
        return None
    return reduce(_smaller if node.op_type == "Min" else _larger, inputs)


def _clipped(node, inputs):
    x, low, high = (*inputs, None, None)[:3]
    if x.dtype != np.int64:
        return None
    x = x if low is None else _larger(x, low)
    return x if high is None else _smaller(x, high)


def _larger(a, b):
    return ops.where(a < b, b, a)


def _smaller(a, b):
    return ops.where(b < a, b, a)


def _rectified(node, inputs):
    (x,) = inputs
    return None if x.dtype != np.int64 else ops.where(x < 0, 0, x)


def _sign(node, inputs):
    (x,) = inputs
    return None if x.dtype != np.int64 else ops.cast(x > 0, x.dtype) - ops.cast(x < 0, x.dtype)


# ---- sums


def _sum(node, inputs):
    axes, x = _axes(node, inputs), inputs[0]
    if not axes or _is_exact(x, node.outputs[0]):
        return None
    return _summed(x, axes, node.attributes.get("keepdims", 1))


def _sum_of_squares(node, inputs):
    axes, x = _axes(node, inputs), inputs[0]
    return _summed(x * x, axes, node.attributes.get("keepdims", 1)) if axes else None


def _sum_of_magnitudes(node, inputs):
    axes, x = _axes(node, inputs), inputs[0]
    return _summed(ops.abs(x), axes, node.attributes.get("keepdims", 1)) if axes else None


def _mean(node, inputs):
    axes, x = _axes(node, inputs), inputs[0]
    if not axes:
        return None
    total = _summed(x, axes, node.attributes.get("keepdims", 1))
    count = reduce(ops.mul, [ops.size_of(x, a) for a in axes])
    return apply("Div", total, ops.cast(ops.squeeze(ops.maximum(count, 1), 0), x.dtype))


def _product(node, inputs):
    axes, x = _axes(node, inputs), inputs[0]
    if not axes or _is_size(x):
        return None
    return product(x, axes, node.attributes.get("keepdims", 1))


def _axes(node, inputs):
    """The axes of a reduction, in order; None where they are known at run time only, or none."""
    x, axes = (*inputs, None)[:2]
    if axes is None or (axes.value is not None and not axes.value.size):
        return None if node.attributes.get("noop_with_empty_axes", 0) else list(range(x.rank))
    return None if axes.value is None else sorted({int(a) % x.rank for a in axes.value})


def _is_exact(x, y):
    """Whether ONNX Runtime loses no digit of a sum of x: of counts, masks and sizes, say."""
    most = _most(x)
    if most is None or y.dtype.name not in _EXACT:
        return False
    return most * (prod(x.dims) if x.is_static else _ELEMENTS) <= _EXACT[y.dtype.name]


def _most(x):
    """A number that no element of x exceeds in size; None if there is none that is known."""
    if x.value is not None:
        return max(abs(int(v)) for v in (x.value.max(initial=0), x.value.min(initial=0)))
    if _is_size(x):
        return _SIZE
    if is_output_of(x, "Cast"):
        source = x.node.inputs[0]
        if source.dtype.kind in "iu" and source.dtype.itemsize >= 4:
            return _most(source)
        return {"b": 1, "i": 1 << 15, "u": 1 << 16}.get(source.dtype.kind)
    return _most(x.node.inputs[0]) if x.node and x.node.op_type in _CHOOSING else None


def _is_size(x):
    """Whether x are sizes of arrays, all or some of them."""
    while x.node is not None and x.node.op_type in _CHOOSING:
        x = x.node.inputs[0]
    return is_output_of(x, "Shape") or is_output_of(x, "Size")


def _summed(x, axes, keep):
    """The sums over some axes, as products with ones."""
    y = x
    if len(axes) == x.rank:
        y = apply("Reshape", x, np.array([-1]))
        y = ops.matmul(y, _ones(y, 0))
    else:
        for a in reversed(axes):
            y = _without(y, a)
    return apply("Unsqueeze", y, np.array(axes)) if keep else y


def _without(x, axis):
    # by a matrix: ONNX Runtime refuses a product with a vector where x is empty
    ones = _ones(x, axis)
    if axis == x.rank - 2:
        return ops.squeeze(ops.matmul(ops.unsqueeze(ones, 0), x), axis)
    last = x if axis == x.rank - 1 else ops.move_axis(x, axis, -1)
    return ops.squeeze(ops.matmul(last, ops.unsqueeze(ones, 1)), -1)


def _ones(x, axis):
    """As many ones as x has elements on an axis."""
    if isinstance(x.dims[axis], int):
        return constant(np.ones(x.dims[axis], x.dtype))
    one = numpy_helper.from_array(np.ones(1, x.dtype))
    return apply("ConstantOfShape", ops.size_of(x, axis), value=one, known=x.dims[axis : axis + 1])


def _contracted(node, inputs):
    """An Einsum without letters of one operand only, over which the kernel sums in float64."""
    if inputs[0].dtype.itemsize < 4:  # of which there are no products of matrices
        y = apply("Einsum", *(ops.cast(x, np.int32) for x in inputs), **node.attributes)
        exact = _contracted(y.node, y.node.inputs)
        return ops.cast(y if exact is None else exact, inputs[0].dtype)
    terms, result = terms_of(node.attributes["equation"])
    found, scalars = [], []
    for k, (x, letters) in enumerate(zip(inputs, terms, strict=True)):
        others = {c for other in (*terms[:k], *terms[k + 1 :], result) for c in other}
        own = [c for c in dict.fromkeys(letters) if c not in others]
        if own:
            distinct = list(dict.fromkeys(letters))
            if distinct != letters:
                x = apply("Einsum", x, equation=f"{''.join(letters)}->{''.join(distinct)}")
            axes = axes_of_letters(distinct, x.rank)
            x = _summed(x, [a for c in own for a in axes[distinct.index(c)]], False)
            letters = [c for c in distinct if c not in own]
        (found if letters else scalars).append((x, letters))
    if all(x is y for (x, _), y in zip([*found, *scalars], inputs, strict=True)):
        return None
    factors = [x for x, _ in scalars]
    if found:
        equation = ",".join("".join(letters) for _, letters in found)
        factors.append(
            apply("Einsum", *(x for x, _ in found), equation=f"{equation}->{''.join(result)}")
        )
    return reduce(ops.mul, factors)


INTEGERS = {
    "Clip": _clipped,
    "Div": _divided,
    "Einsum": _contracted,
    "Max": _extreme,
    "Min": _extreme,
    "Mod": _remainder,
    "Pow": power,
    "ReduceL1": _sum_of_magnitudes,
    "ReduceMax": _extremes,
    "ReduceMean": _mean,
    "ReduceMin": _extremes,
    "ReduceProd": _product,
    "ReduceSum": _sum,
    "ReduceSumSquare": _sum_of_squares,
    "Relu": _rectified,
    "Sign": _sign,
}
