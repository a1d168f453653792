"""Quantised models as files: QuantizeLinear and DequantizeLinear around operators."""

from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from ...graph.errors import ExportError
from ...run.session import Session
from .fake_quantization import ACTIVATION_LEVELS, SMALLEST_SCALE, WEIGHT_LEVELS, FakeQuantization
from .stored_tensors import free_name, remove_unread


def add_quantization(model: ModelProto, quantization: FakeQuantization, session: Session) -> None:
    """Quantise the operators of a model in place, with the ranges of a session.

    Weights are stored as int8, biases of Conv and Gemm as int32 with the scale of the products.
    ExportError for an activation that has no range yet.
    """
    _Writer(model, quantization, session).run()


class _Writer:
    def __init__(self, model, quantization, session):
        self.graph, self.quantization, self.session = model.graph, quantization, session
        self.arrays = {t.name: t for t in model.graph.initializer}
        self.taken = {*self.arrays, *(i.name for i in model.graph.input)}
        self.taken.update(y for node in model.graph.node for y in node.output)
        self.nodes: list[NodeProto] = []  # of the new graph, in order
        self.activations: dict[str, tuple[str, np.float32]] = {}  # (rounded tensor, its scale)
        self.weights: dict[str, tuple[str, np.ndarray]] = {}

    def run(self):
        """Rewrite the graph."""
        before = list(self.graph.node)
        read = set()
        for node in before:
            if self.quantization.quantises(node):
                read.update(node.input[1:])
                self._quantise(node)
            self.nodes.append(node)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in self.nodes]
        del self.graph.node[:]
        self.graph.node.extend(copies)
        remove_unread(self.graph, read)

    def _quantise(self, node):
        x, w = node.input[:2]
        node.input[0], x_scale = self._activation(x)
        node.input[1], w_scales = self._weight(w)
        plain = len(node.input) > 2 and self._has_plain_bias(node, w_scales)
        if plain and x_scale is not None:
            bias = numpy_helper.to_array(self.arrays[node.input[2]])
            scales = x_scale * w_scales
            limits = np.iinfo(np.int32)
            integers = np.clip(np.rint(bias.astype(np.float64) / scales), limits.min, limits.max)
            node.input[2] = self._stored(node.input[2], integers.astype(np.int32), scales, None, 0)

    def _has_plain_bias(self, node, scales):
        """Check whether a bias is added to the products as it is, one number for each channel."""
        tensor = self.arrays.get(node.input[2])
        scaled = any(a.name in ("alpha", "beta") and a.f != 1.0 for a in node.attribute)
        return tensor is not None and list(tensor.dims) == [len(scales)] and not scaled

    def _activation(self, name):
        """Return the name of a rounded activation, and its scale; None for one for each channel."""
        if name in self.quantization.rounded_already:
            (node,) = [n for n in self.nodes if name in n.output]
            scale = self.arrays.get(node.input[1])
            array = None if scale is None else numpy_helper.to_array(scale)
            return name, array if array is not None and array.size == 1 else None
        if name not in self.activations:
            low, high = self._range(name)
            scale = max(np.float32((high - low) / ACTIVATION_LEVELS), SMALLEST_SCALE)
            zero = np.clip(np.rint(-low / scale), 0, ACTIVATION_LEVELS).astype(np.uint8)
            constants = [
                self._initializer(f"{name}_scale", scale),
                self._initializer(f"{name}_zero_point", zero),
            ]
            integers = free_name(f"{name}_quantized", self.taken)
            self._node("QuantizeLinear", [name, *constants], integers)
            rounded = free_name(f"{name}_dequantized", self.taken)
            self._node("DequantizeLinear", [integers, *constants], rounded)
            self.activations[name] = rounded, scale
        return self.activations[name]

    def _range(self, name):
        """Return the moving means of the smallest and largest element of an activation."""
        moving = self.quantization.ranges[name]
        if not self.session.get(moving.weight) > 0:
            raise ExportError(
                f"export_tuned: the activation {name!r} has no range yet\n"
                "  hint: take a training step, or evaluate calibration(outputs)"
            )
        return self.session.eval(moving.means(), training=False)

    def _weight(self, name):
        """Return the name of a rounded weight, and its scales."""
        if name not in self.weights:
            array = numpy_helper.to_array(self.arrays[name])
            axis = self.quantization.axes[name] % array.ndim
            others = tuple(k for k in range(array.ndim) if k != axis)
            scales = np.abs(array).max(others) / np.float32(WEIGHT_LEVELS)
            scales = np.maximum(scales, SMALLEST_SCALE)
            integers = np.rint(array / np.expand_dims(scales, others)).astype(np.int8)
            zeros = np.zeros(len(scales), np.int8)
            self.weights[name] = self._stored(name, integers, scales, zeros, axis), scales
        return self.weights[name]

    def _stored(self, name, integers, scales, zeros, axis):
        """Store integers; return the name of their float values."""
        inputs = [
            self._initializer(f"{name}_quantized", integers),
            self._initializer(f"{name}_scale", scales),
        ]
        if zeros is not None:
            inputs.append(self._initializer(f"{name}_zero_point", zeros))
        rounded = free_name(f"{name}_dequantized", self.taken)
        self._node("DequantizeLinear", inputs, rounded, axis=axis)
        return rounded

    def _node(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(
            helper.make_node(op_type, inputs, [output], name=f"{output}_{op_type}", **attributes)
        )

    def _initializer(self, name, array):
        name = free_name(name, self.taken)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name
