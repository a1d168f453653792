"""Operators on integers and bools without a kernel, computed in others that lose nothing."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant
from .kernels import Types, positions, takes, types_of

# What an operator does to numbers says in which other types it gives the same. Those of MOVING
# copy or compare them for equality: any type serves that has a place for each number. Those of
# CHOOSING go by their order, those of COUNTING divide or compare with 0: in a type that has all
# these numbers. Those of WRAPPING are sums, products and bits, right modulo 2^bits: in any integers
# of as many bits or more.
MOVING = frozenset(
    {
        *("Where", "Pad", "Tile", "Gather", "GatherElements", "GatherND", "Slice", "Concat"),
        *("Split", "Expand", "Reshape", "Transpose", "Trilu", "Compress", "ReverseSequence"),
        *("CenterCropPad", "Identity", "Squeeze", "Unsqueeze", "Flatten", "TensorScatter"),
        *("Equal", "OneHot", "Size", "ScatterElements", "ScatterND"),
    }
)
CHOOSING = frozenset(
    {
        *("Max", "Min", "Clip", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "Unique"),
        *("Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    }
)
COUNTING = frozenset({"Div", "Mod", "Pow", "Range", "Sign", "Abs", "Relu", "NonZero"})
WRAPPING = frozenset(
    {
        *("Add", "Sub", "Mul", "Neg", "MatMul", "Gemm", "Sum", "ReduceSum", "ReduceSumSquare"),
        *("ReduceProd", "CumSum", "CumProd", "Einsum"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
    }
)
_REDUCTIONS = {"add": WRAPPING, "mul": WRAPPING, "max": CHOOSING, "min": CHOOSING}

_WIDER = {
    "bool": ("uint8", "int32"),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "int32": ("int64",),
    "uint32": ("int64",),
    "uint64": ("int64",),  # by its bits
}
_HIGH = np.uint64(1 << 63)  # exchanged, the order of uint64 is that of its bits as int64


def in_wider(node: Node, inputs: Inputs, opset: int, lacking: Types) -> list[Variable] | None:
    """Return the outputs of an operator computed in other element types; None if none serves."""
    types = types_of(node, opset)
    choices = [[(name, t) for t in _candidates(node, dtype)] for name, dtype in lacking.items()]
    for chosen in map(dict, product(*choices)):
        if takes(node.op_type, opset, types | chosen):
            return _computed(node, inputs, opset, chosen)
    return None


def _candidates(node: Node, dtype: np.dtype) -> Iterator[np.dtype]:
    """The element types in which an operator gives what it would give in this one."""
    name, kind = str(dtype), _kind(node)
    if name in ("bfloat16", "float16"):
        yield np.dtype(np.float32)
    elif kind is not None and not (name == "uint64" and kind is COUNTING):
        yield from map(np.dtype, _WIDER.get(name, ()))


def _kind(node):
    """The set of operators that an operator belongs to, or None."""
    reduction = node.attributes.get("reduction", "none")
    if node.op_type.startswith("Scatter") and reduction in _REDUCTIONS:
        return _REDUCTIONS[reduction]
    kinds = (MOVING, CHOOSING, COUNTING, WRAPPING)
    return next((kind for kind in kinds if node.op_type in kind), None)


def _computed(node, inputs, opset, chosen):
    """The outputs of a node whose type variables `chosen` have other element types."""
    changed, flip = [*inputs], _kind(node) is CHOOSING
    back = {}
    for name, dtype in chosen.items():
        read, written = positions(node, opset, name)
        for k in read:
            changed[k] = _cast(inputs[k], dtype, flip)
        back.update({k: node.outputs[k].dtype for k in written})
    outputs = apply(
        node.op_type,
        *changed,
        outputs=len(node.outputs),
        known=[y.dims for y in node.outputs],
        opset=node.opset,
        **node.attributes,
    )
    outputs = (outputs,) if isinstance(outputs, Variable) else outputs
    return [_cast_back(y, back[k], flip) if k in back else y for k, y in enumerate(outputs)]


def _cast(x: Variable, dtype, flip):
    if flip and x.dtype == np.uint64:
        x = ops.bitwise_xor(x, constant(_HIGH))
    return ops.cast(x, dtype)


def _cast_back(y: Variable, dtype, flip):
    y = ops.cast(y, dtype)
    return ops.bitwise_xor(y, constant(_HIGH)) if flip and dtype == np.uint64 else y
