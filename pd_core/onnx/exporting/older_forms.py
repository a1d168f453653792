"""Operators in the forms that they had in opsets before ours.

A form is a function (node, inputs, opset) -> outputs, or None to keep the node, which is an error
later if the opset does not have it. The steps of FORMS are applied from the newest to the oldest.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...graph.node import Node, apply, new_node
from ...graph.variable import Inputs, Variable, constant

Form = Callable[[Node, Inputs, int], Sequence[Variable] | None]
_forms: dict[int, dict[str, Form]] = defaultdict(dict)


def before(opset: int, *op_types: str) -> Callable[[Form], Form]:
    """Register fn(node, inputs, opset) for these operators in opsets before this one."""

    def register(form):
        _forms[opset].update(dict.fromkeys(op_types, form))
        return form

    return register


def _older(node, inputs, attributes, opset):
    """The operator with other inputs and attributes, of the same types."""
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return new_node(node.op_type, tuple(inputs), attributes, node.types, opset=opset).outputs


def _without(node, inputs, opset, **defaults: Any):
    """The operator without attributes that have no effect, or None if there is nothing to leave."""
    kept = {
        k: v
        for k, v in node.attributes.items()
        if k not in defaults or (v != defaults[k] and set(np.ravel(v)) != {defaults[k]})
    }
    return None if len(kept) == len(node.attributes) else _older(node, inputs, kept, opset)


def _padded(inputs, count):
    return [*inputs, *[None] * (count - len(inputs))]


@before(20, "GridSample")
def _grid_sample(node, inputs, opset):
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    if node.inputs[0].rank != 4:
        return None
    mode = node.attributes.get("mode", "linear")
    return _older(node, inputs, {**node.attributes, "mode": modes.get(mode, mode)}, opset)


@before(20, "ReduceMax", "ReduceMin")
def _boolean(node, inputs, opset):
    x, *axes = inputs
    if x.dtype != np.bool_:
        return None
    y = apply(node.op_type, ops.cast(x, np.int32), *axes, **node.attributes)
    return (ops.cast(y, np.bool_),)


@before(20, "DFT")
def _dft(node, inputs, opset):
    x, length, axis = _padded(inputs, 3)
    if axis is not None and axis.value is None:
        return None
    k = -2 if axis is None else int(axis.value)
    k = k + x.rank if k < 0 else k
    return _older(node, (x, length), {**node.attributes, "axis": k}, opset)


@before(19, "Cast")
def _cast(node, inputs, opset):
    return _without(node, inputs, opset, saturate=1)


@before(19, "AveragePool")
def _average_pool(node, inputs, opset):
    return _without(node, inputs, opset, dilations=1)


@before(18, "LpPool")
def _lp_pool(node, inputs, opset):
    return _without(node, inputs, opset, dilations=1, ceil_mode=0)


@before(18, *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"))
@before(18, *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"))
def _axes(node, inputs, opset):
    x, axes = _padded(inputs, 2)
    attributes = dict(node.attributes)
    nothing = attributes.pop("noop_with_empty_axes", 0)
    if axes is None or axes.dims == (0,):
        if nothing:
            return None
    elif axes.value is None:
        return None
    else:
        attributes["axes"] = [int(k) for k in axes.value.reshape(-1)]
    return _older(node, (x,), attributes, opset)


@before(18, "Split")
def _split(node, inputs, opset):
    if "num_outputs" not in node.attributes:
        return None
    attributes = {k: v for k, v in node.attributes.items() if k != "num_outputs"}
    sizes = [y.dims[attributes.get("axis", 0)] for y in node.outputs]
    if not all(isinstance(d, int) for d in sizes):
        return None
    return _older(node, (inputs[0], constant(np.array(sizes, np.int64))), attributes, opset)


@before(18, "Pad")
def _pad(node, inputs, opset):
    x, pads, value, axes = _padded(inputs, 4)
    if axes is None or axes.value is None:
        return None
    order = [int(k) % x.rank for k in axes.value.reshape(-1)]
    if pads.value is not None:
        full = np.zeros((2, x.rank), np.int64)
        full[:, order] = pads.value.reshape(2, -1)
        all_pads = constant(full.reshape(-1))
    else:
        zero = constant(np.zeros(1, np.int64))
        parts = ops.split(pads, [1] * (2 * len(order)))
        indices = {k: j for j, k in enumerate(order)}
        both = [
            parts[indices[k] + end * len(order)] if k in indices else zero
            for end in (0, 1)
            for k in range(x.rank)
        ]
        all_pads = ops.concat(both)
    return _older(node, (x, all_pads, value), dict(node.attributes), opset)


@before(18, "Resize")
def _resize(node, inputs, opset):
    """The axes are all of them already, see `resize.py`."""
    return _without(node, inputs, opset, antialias=0, keep_aspect_ratio_policy="stretch")


@before(18, "ScatterElements", "ScatterND")
def _scatter(node, inputs, opset):
    return _without(node, inputs, opset, reduction="none")


@before(16, "RoiAlign")
def _roi_align(node, inputs, opset):
    return _without(node, inputs, opset, coordinate_transformation_mode="output_half_pixel")


@before(15, "Shape")
def _shape(node, inputs, opset):
    if not node.attributes:
        return None
    (x,) = inputs
    start, end, _ = slice(node.attributes.get("start"), node.attributes.get("end")).indices(x.rank)
    return (ops.slice(apply("Shape", x), [start], [end], [0]),)


@before(14, "BatchNormalization")
def _batch_norm(node, inputs, opset):
    return _without(node, inputs, opset, training_mode=0)


@before(14, "Reshape")
def _reshape(node, inputs, opset):
    """Differs for empty tensors alone, which no zero describes in opset 13."""
    return _without(node, inputs, opset, allowzero=node.attributes.get("allowzero"))


@before(14, "RNN", "GRU", "LSTM")
def _time_first(node, inputs, opset):
    return _without(node, inputs, opset, layout=0)


FORMS: list[tuple[int, dict[str, Form]]] = sorted(_forms.items(), reverse=True)
