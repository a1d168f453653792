"""The pass that finds operators without a kernel for their element types.

They are computed by formulas, or in other types that lose nothing, or refused.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import defs

from ... import ops
from ...graph.errors import DTypeError, GraphError
from ...graph.formulas import formulas
from ...graph.inference import OPSET
from ...graph.node import Node, all_nodes, apply
from ...graph.rewrite import rewrite
from ...graph.site import site_text
from ...graph.variable import Inputs, Variable, constant, describe
from ..passes.context import Context
from ..passes.identities import without_identities
from . import double, images, matrices, spectra, windows
from .kernels import Types, accepted, is_function, lacking
from .wider import in_wider

Outputs = Sequence[Variable] | None
_Form = Callable[[Node, Inputs, int, Types], Outputs]


def by_formulas(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with operators that lack a float64 kernel computed by others."""
    return _replaced(targets, _formula)


def without_bodies(targets: Sequence[Variable], opset: int | None) -> list[Variable]:
    """Return the targets with float64 functions of ONNX that a runtime has no kernel for as others.

    ONNX Runtime makes other operators of their bodies in those opsets in which none of these means
    anything else. The opset is that of the newest operator if None. Halves are normalized in
    float32, the only type in which ONNX's body of MeanVarianceNormalization is one.
    """
    nodes = list(all_nodes(targets))
    dtypes = {y.dtype for node in nodes for y in node.outputs}
    if dtypes <= {np.dtype(t) for t in (np.float32, np.int32, np.int64, np.bool_)}:
        return list(targets)
    opset = max([node.opset for node in nodes], default=OPSET) if opset is None else opset

    def rule(node, inputs):
        if node.op_type == "MeanVarianceNormalization" and node.outputs[0].dtype.itemsize == 2:
            y = apply(node.op_type, ops.cast(inputs[0], np.float32), **node.attributes)
            return _as_announced(node, [y])
        if not defs.has(node.op_type, opset) or not is_function(node.op_type, opset):
            return None
        types = lacking(node, opset)
        outputs = _formula(node, inputs, opset, types) if types else None
        return None if outputs is None else _as_announced(node, outputs)

    return without_identities(rewrite(targets, rule))


def with_kernels(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Return the targets with every operator in a form that ONNX Runtime's CPU has a kernel for.

    DTypeError for one that has none, and would lose digits in another element type.
    """
    return _replaced(targets, _any_form)


def _replaced(targets: Sequence[Variable], form: _Form) -> list[Variable]:
    """The targets with operators without kernels in another form, if there is one."""
    nodes = list(all_nodes(targets))
    opset = max([node.opset for node in nodes], default=OPSET)
    op_types = {node.op_type for node in nodes if lacking(node, opset)}
    if not op_types:
        return list(targets)

    def rule(node, inputs):
        types = lacking(node, opset)
        outputs = form(node, inputs, opset, types) if types else None
        return None if outputs is None else _as_announced(node, outputs)

    replaced = without_identities(rewrite(targets, rule, only=op_types))
    # what a formula is made of may lack kernels itself
    return replaced if replaced == list(targets) else _replaced(replaced, form)


def _as_announced(node, outputs):
    """The outputs with the sizes and element types of those of the node."""
    cast = [ops.cast(y, old.dtype) for y, old in zip(outputs, node.outputs, strict=False)]
    return [
        y if y.dims == old.dims else apply("Identity", y, known=old.dims)
        for y, old in zip(cast, node.outputs, strict=True)
    ]


# ---- forms


def _any_form(node: Node, inputs: Inputs, opset: int, types: Types) -> Outputs:
    for form in (_formula, in_wider, _in_any_type):
        outputs = form(node, inputs, opset, types)
        if outputs is not None:
            return outputs
    if is_function(node.op_type, opset):
        return None  # of operators that may have kernels
    raise DTypeError(_refusal(node, opset, types))


def _formula(node: Node, inputs: Inputs, opset: int, types: Types) -> Outputs:
    """Compute an operator in float64 by others, or return None."""
    if any(dtype != np.float64 for dtype in types.values()):
        return None
    y = None
    if node.op_type in double.FUNCTIONS:
        y = double.FUNCTIONS[node.op_type](*inputs, **node.attributes)
    elif node.op_type in SHAPED:
        y = SHAPED[node.op_type](node, inputs)
    if y is None and node.op_type in formulas:
        try:
            y = formulas[node.op_type](node.attributes, *inputs)
        except GraphError:  # it takes known sizes
            return None
    return [y] if isinstance(y, Variable) else y


def _in_any_type(node: Node, inputs: Inputs, opset: int, types: Types) -> Outputs:
    """Compute an operator by others that are alike in all element types, or return None."""
    y = _ALIKE[node.op_type](node, inputs) if node.op_type in _ALIKE else None
    return None if y is None else [y]


def _nearest(node, inputs):
    nearest = node.attributes.get("mode", "nearest") == "nearest"
    return images.resize(node, inputs) if nearest else None


def _one_hot(node, inputs):
    """Choose between the two values by a mask, made of numbers."""
    index, depth, values = inputs
    axis = node.attributes.get("axis", -1)
    index, depth = (ops.cast(v, np.int64) for v in (index, depth))
    hot = apply("OneHot", index, depth, np.array([0, 1], np.int64), axis=axis)
    off, on = (ops.reshape(ops.slice(values, [k], [k + 1], [0]), []) for k in (0, 1))
    return ops.where(ops.equal(hot, 1), on, off)


def _depth_to_space(node, inputs):
    (x,), b = inputs, node.attributes["blocksize"]
    n, channels, rows, columns = (windows.size(x, k) for k in range(4))
    per = windows.quotient(channels, b * b)
    crd = node.attributes.get("mode", "DCR") == "CRD"
    lead = [per, b, b] if crd else [b, b, per]
    x = windows.reshaped(x, [n, *lead, rows, columns])
    x = ops.transpose(x, [0, 1, 4, 2, 5, 3] if crd else [0, 3, 4, 1, 5, 2])
    return windows.reshaped(x, [n, per, rows * b, columns * b])


def _space_to_depth(node, inputs):
    (x,), b = inputs, node.attributes["blocksize"]
    n, channels, rows, columns = (windows.size(x, k) for k in range(4))
    rows, columns = (windows.quotient(s, b) for s in (rows, columns))
    x = windows.reshaped(x, [n, channels, rows, b, columns, b])
    x = ops.transpose(x, [0, 3, 5, 1, 2, 4])
    return windows.reshaped(x, [n, channels * (b * b), rows, columns])


SHAPED: dict[str, Callable[[Node, Inputs], Variable | None]] = {
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "AveragePool": windows.average_pool,
    "LpPool": windows.lp_pool,
    "Resize": images.resize,
    "DFT": spectra.dft,
    "Det": lambda node, inputs: matrices.det(*inputs),
}
_ALIKE: dict[str, Callable[[Node, Inputs], Variable | None]] = {
    "NonZero": lambda node, inputs: apply("NonZero", ops.cast(inputs[0], np.bool_)),
    "PRelu": lambda node, inputs: double.prelu(*inputs),
    "Relu": lambda node, inputs: ops.maximum(inputs[0], constant(0, inputs[0].dtype)),
    "OneHot": _one_hot,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Resize": _nearest,
}


# ---- words


def _refusal(node: Node, opset: int, types: Types) -> str:
    name, dtype = next(iter(types.items()))
    known = accepted(node.op_type, opset, name)
    lines = [
        f"{node.op_type}: a CPU has no kernel for {dtype}, only for {', '.join(known)}",
        f"  node   {node.op_type}, built at {site_text(node.site)}",
    ]
    lines += [f"  input  {x.name}: {describe(x)}" for x in node.inputs if x is not None]
    return "\n".join([*lines, f"  hint: pd.cast(x, {_nearest_of(dtype, known)!r})"])


def _nearest_of(dtype: np.dtype, known: Sequence[str]) -> str:
    """The element type to cast to: of the same kind if there is one, and the widest."""
    same: list[Any] = [t for t in known if np.dtype(t).kind == dtype.kind]
    return (same or known)[-1]
