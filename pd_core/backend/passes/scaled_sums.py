"""Sums with a scaled summand, x + c y, in one pass over memory.

ONNX has no such operator; ONNX Runtime has `GatedAdd` since 1.31, for rows that have a factor each.
The updates of optimizers consist of such sums: running means, weight decay, and the step itself.
"""

import numpy as np
from onnx import TensorProto, helper

from ... import ops
from ...graph.node import Node, composite, new_node
from ...graph.rewrite import is_output_of
from ...graph.size_reads import at_most, filled
from ...graph.variable import Inputs, constant
from .context import Context, Outputs

DOMAIN, KERNEL = "com.microsoft", "GatedAdd"
_SHORTEST = 16  # elements in a row; with shorter rows a product and a sum are faster


def scaled_sum(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute x + c y, x - c y and x - c y / z by one operator for the product and the sum.

    c is a scalar. The division comes before the product then: c y / z is rounded as c (y / z).
    """
    if KERNEL not in context.contributed or not _has_rows(node.outputs[0]):
        return None
    dims, negative = node.outputs[0].symbolic_dims, node.op_type == "Sub"
    for k in (1,) if negative else (1, 0):
        whole, parts = inputs[1 - k], _scaled(node.inputs[k], inputs[k], context)
        if parts is not None and whole.symbolic_dims == parts[0].symbolic_dims == dims:
            y, factor = parts
            gate = _gate(factor, dims, negative, context)
            types = [(dims, np.dtype(np.float32))]
            return (composite(KERNEL, whole, y, gate, types=types, domain=DOMAIN),)
    return None


def _has_rows(y):
    """Whether a result has long rows, of known sizes, in float32."""
    known = y.dtype == np.float32 and y.rank > 0 and y.is_static
    if known and y.symbolic_dims[-1] == 0:  # which the kernel refuses
        return False
    return known and (y.rank == 1 or not at_most(y.symbolic_dims[-1:], _SHORTEST - 1))


def _scaled(old, new, context):
    """(y, c) where `new` is c y or c y / z, and nothing else reads it; else None.

    `old` is what it was before this walk, whose readers are known.
    """
    if context.uses[old] != 1:
        return None
    if is_output_of(new, "Mul"):
        return _product(*new.node.inputs)
    if not is_output_of(new, "Div") or not is_output_of(old, "Div"):
        return None
    parts = _scaled(old.node.inputs[0], new.node.inputs[0], context)
    if (
        parts is None
        or parts[0].symbolic_dims != new.symbolic_dims
        or is_output_of(new.node.inputs[0], "Div")
    ):
        return None
    return parts[0] / new.node.inputs[1], parts[1]


def _product(a, b):
    """(tensor, scalar) for the factors of a product; None if there is no scalar, or no tensor."""
    if (a.rank == 0) == (b.rank == 0):
        return None
    return (b, a) if a.rank == 0 else (a, b)


def _gate(factor, dims, negative, context):
    """The factor of each row, of which the scalar is the only one: [..., 1]."""

    def make():
        column, value = (*dims[:-1], 1), factor.value
        if value is not None:
            value = -value if negative else value
            return filled(column, value, np.float32) if dims[:-1] else constant([value], np.float32)
        scalar = -factor if negative else factor
        if not dims[:-1]:
            return ops.expand(scalar, column)
        sizes = filled(column, None, np.int64)
        return new_node("Expand", (scalar, sizes), {}, [(column, scalar.dtype)]).outputs[0]

    return context.cached((factor, dims[:-1], negative), make)


def probe() -> tuple[bytes, np.ndarray]:
    """Return a model with the operator, whose input `x` is a vector, and such a vector."""
    x = np.arange(2, dtype=np.float32)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in "xy"]
    gate = helper.make_tensor("gate", TensorProto.FLOAT, [1], [1.0])
    node = helper.make_node(KERNEL, ["x", "x", "gate"], ["y"], domain=DOMAIN)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph([node], "probe", values[:1], values[1:], [gate])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString(), x
