"""Operators that onnx 1.23's reference evaluator gets wrong or refuses."""

from collections.abc import Iterable
from math import erf
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OneGroup
from onnx.reference.ops.op_resize import Resize as AnyResize
from onnx.reference.ops.op_scan import Scan as Forward

from ..graph.size_entries import sliced
from .pooling_evaluator import MaxPool
from .recurrent_evaluator import GRU, LSTM, RNN


class ConvTranspose(OneGroup):
    """For any number of groups, one call each; onnx's own reshapes all of them as one."""

    op_domain = ""

    def _run(self, x, w, bias=None, group=1, **attributes):
        one_group = super()._run
        parts = zip(np.split(x, group, 1), np.split(w, group), strict=True)
        y = np.concatenate([one_group(a, b, group=1, **attributes)[0] for a, b in parts], 1)
        return (y if bias is None else y + bias.reshape(-1, *[1] * (x.ndim - 2)),)


class Erf(OpRun):
    """In the precision of x; onnx's own rounds to float32."""

    op_domain = ""

    def _run(self, x):
        return (np.vectorize(erf, otypes=[x.dtype])(x),)


class GatherElements(OpRun):
    """For any sizes; onnx's own takes at most 32 along the axis, and an index as wide as x."""

    op_domain = ""

    def _run(self, x, index, axis=0):
        axis %= x.ndim
        covered = tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(index.shape))
        return (np.take_along_axis(x[covered], index, axis),)


class Gelu(OpRun):
    """In the precision of x; onnx's own expands it to an Erf that rounds to float32."""

    op_domain = ""

    def _run(self, x, approximate="none"):
        if approximate == "tanh":
            inner = np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)
            return ((0.5 * x * (1.0 + np.tanh(inner))).astype(x.dtype),)
        normal = 0.5 * (1.0 + np.vectorize(erf, otypes=[np.float64])(x * np.sqrt(0.5)))
        return ((x * normal).astype(x.dtype),)


class LogSoftmax(OpRun):
    """Without underflow; onnx's own takes the logarithm of the softmax."""

    op_domain = ""

    def _run(self, x, axis=-1):
        x = x - x.max(axis, keepdims=True)
        return (x - np.log(np.exp(x).sum(axis, keepdims=True)),)


class Resize(AnyResize):
    """Nearest by whole factors copies pixels; onnx's own multiplies them, infinite ones by 0."""

    op_domain = ""

    def _run(self, x, roi=None, scales=None, sizes=None, **attributes):
        names = ("mode", "nearest_mode", "coordinate_transformation_mode")
        copied = tuple(attributes.get(k) for k in names) == ("nearest", "floor", "asymmetric")
        if (
            not copied
            or scales is None
            or np.any(scales != np.floor(scales))
            or len(scales) != x.ndim
        ):
            return super()._run(x, roi, scales, sizes, **attributes)
        for axis, scale in enumerate(scales.astype(int)):
            x = np.repeat(x, scale, axis)
        return (x,)


class Scan(Forward):
    """In either direction; onnx's own knows the forward one only."""

    op_domain = ""

    def __init__(self, onnx_node: NodeProto, run_params: dict[str, Any]):
        node = NodeProto()
        node.CopyFrom(onnx_node)
        self._reversed = []
        for k in reversed(range(len(node.attribute))):
            if node.attribute[k].name.endswith("_directions"):
                if any(node.attribute[k].ints):
                    self._reversed.append(node.attribute[k].name)
                del node.attribute[k]
        super().__init__(node, run_params)

    def _run(self, *inputs, **attributes):
        states = len(inputs) - self.num_scan_inputs
        if "scan_input_directions" in self._reversed:
            inputs = (*inputs[:states], *(x[::-1] for x in inputs[states:]))
        outputs = super()._run(*inputs, **attributes)
        if "scan_output_directions" in self._reversed:
            outputs = (*outputs[:states], *(y[::-1] for y in outputs[states:]))
        return outputs


class Slice(OpRun):
    """Slices by ONNX Runtime's bounds.

    ONNX's evaluator takes NumPy's, in which nothing is backward of what stands before the axis.
    """

    op_domain = ""

    def _run(self, x, starts, ends, axes=None, steps=None):
        axes = range(len(starts)) if axes is None else axes
        steps = [1] * len(starts) if steps is None else steps
        index = [slice(None)] * x.ndim
        for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
            index[axis] = sliced(x.shape[axis], *map(int, bounds))
        return (x[tuple(index)],)


def evaluator(model: ModelProto, more: Iterable[type[OpRun]] = ()) -> ReferenceEvaluator:
    """Return ONNX's evaluator of a model, with the operators above and `more` of their kind."""
    own: list[type] = [
        ConvTranspose,
        Erf,
        GatherElements,
        Gelu,
        LogSoftmax,
        MaxPool,
        Resize,
        Scan,
        Slice,
        RNN,
        GRU,
        LSTM,
    ]
    return ReferenceEvaluator(model, new_ops=[*own, *more])
