"""Quantisation-aware training of imported models (Jacob et al. 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto

from ... import ops
from ...graph.errors import GraphError, ModelError
from ...graph.update import Update, effects
from ...graph.variable import Variable
from ...graph.whole import whole
from ...onnx.importing import ImportedModel
from .patterns import select

MINIMUM_OPSET = 13  # QuantizeLinear with a scale for each channel
_OPERATORS = ("Conv", "MatMul", "Gemm")
SMALLEST_SCALE = np.float32(1e-8)
WEIGHT_LEVELS = 127  # int8, symmetric: -127 … 127
ACTIVATION_LEVELS = 255  # uint8


@whole
def prepare_qat(
    f: ImportedModel, target: str | Sequence[str] = "*", momentum: float = 0.99
) -> "FakeQuantization":
    """Quantise weights and inputs of Conv, MatMul and Gemm in later calls of an imported model.

    Weights are rounded to int8 with a symmetric scale for each output channel, which follows them;
    inputs to uint8 in a range of their own, the moving mean of the smallest and largest element of
    the batches of training steps, `momentum` of which is kept in each. Gradients pass the rounding
    unchanged (straight-through), and end where an input is outside of its range.

    `target` are names or patterns of weights. Before the first training step, and before
    `calibration`, inputs are not rounded. `export_tuned` writes the quantised model. ModelError for
    an opset before 13, and for a pattern that matches no weight.
    """
    opset = max(f.opsets.get("", 0), f.opsets.get("ai.onnx", 0))
    if opset < MINIMUM_OPSET:
        raise ModelError(
            f"prepare_qat: {f.origin} has opset {opset}, scales for each channel need "
            f"{MINIMUM_OPSET}\n  hint: onnx.version_converter.convert_version(model, "
            f"{MINIMUM_OPSET})"
        )
    if f.operands is not None:
        raise GraphError(f"prepare_qat: {f.origin} is prepared already")
    if not 0 <= momentum < 1:
        raise ValueError(f"prepare_qat: momentum is within [0, 1), not {momentum}")
    weights = {n.input[1]: _channel_axis(n) for n in f.graph.node if _is_quantisable(n, f)}
    chosen = select("prepare_qat", "weight", weights, target)
    f.operands = FakeQuantization(f, {name: weights[name] for name in chosen}, momentum)
    return f.operands


@dataclass
class Range:
    """Moving sums of the smallest and largest element of an activation, and of their weights."""

    low: Variable
    high: Variable
    weight: Variable

    def means(self) -> tuple[Variable, Variable]:
        """Return the moving means, of a range that includes 0."""
        weight = ops.maximum(self.weight, SMALLEST_SCALE)
        return ops.minimum(self.low / weight, 0.0), ops.maximum(self.high / weight, 0.0)

    def moved(self, x: Variable, momentum: float) -> "Range":
        """Return the range after a batch; the same after one without elements."""
        x = ops.stop_gradient(x)
        moved = (
            self.low * momentum + ops.reduce_min(x) * (1.0 - momentum),
            self.high * momentum + ops.reduce_max(x) * (1.0 - momentum),
            self.weight * momentum + (1.0 - momentum),
        )
        pairs = zip(moved, self.variables(), strict=True)
        return Range(*(ops.where(ops.size(x) > 0, new, old) for new, old in pairs))

    def variables(self) -> tuple[Variable, Variable, Variable]:
        """Return the three numbers."""
        return self.low, self.high, self.weight


class FakeQuantization:
    """Fake quantization of the inputs of nodes, for `prepare_qat`.

    `axes` are the output channels' axes of the quantised weights by name, `ranges` those of the
    activations by the name of the tensor. What a DequantizeLinear of the file has rounded already
    stays as it is.
    """

    def __init__(self, f: ImportedModel, axes: dict[str, int], momentum: float):
        self.axes, self.momentum = axes, momentum
        self.ranges: dict[str, Range] = {}
        self.rounded_already = {
            node.output[0] for node in f.graph.node if node.op_type == "DequantizeLinear"
        }
        self.latest: dict[str, tuple[Variable, Variable]] = {}  # (activation, it rounded) by name
        done = set(self.rounded_already)
        for node in f.graph.node:
            if self.quantises(node) and node.input[0] not in done:
                self.ranges[node.input[0]] = _new_range(node.input[0])
                done.add(node.input[0])

    def quantises(self, node: NodeProto) -> bool:
        """Return whether the first two inputs of a node are quantised."""
        return node.op_type in _OPERATORS and node.input[1] in self.axes

    def __call__(self, node: NodeProto, inputs: list[Any]) -> list[Any]:
        """Return the inputs of a node, quantised where they are to be."""
        if not self.quantises(node):
            return inputs
        x, weight, *rest = inputs
        axis = self.axes[node.input[1]]
        return [self._activation(x, node.input[0]), _weight(weight, axis), *rest]

    def variables(self) -> list[Variable]:
        """Return the state of the ranges, three numbers for each activation."""
        return [v for r in self.ranges.values() for v in r.variables()]

    def buffers(self) -> dict[str, Variable]:
        """Return the state of the ranges by name, which a module that has the model saves."""
        parts = ("range_low", "range_high", "range_weight")
        return {
            f"{name}.{part}": v
            for name, r in self.ranges.items()
            for part, v in zip(parts, r.variables(), strict=True)
        }

    def calibration(self, targets: Variable | Sequence[Variable]) -> Update:
        """Return an Update that moves the ranges by a batch, and trains nothing."""
        several = [targets] if isinstance(targets, Variable) else list(targets)
        own = set(self.variables())
        return Update([a for a in effects(several) if a.variable in own], training=True)

    def _activation(self, x, name):
        """Round an activation, once for all nodes that read it."""
        if name in self.rounded_already:
            return x
        known, rounded = self.latest.get(name, (None, None))
        if known is not x:
            rounded = self._rounded(x, self.ranges[name])
            self.latest[name] = x, rounded
        return rounded

    def _rounded(self, x, stored):
        moved = stored.moved(x, self.momentum)
        pairs = zip(stored.variables(), moved.variables(), strict=True)
        at_rest = ops.where(stored.weight > 0.0, _rounded(x, stored), x)
        return ops.mode_switch(_rounded(x, moved), at_rest, effects=list(pairs))


def _new_range(name):
    numbers = [
        Variable(f"{name}.range_{part}", data=np.zeros((), np.float32), trainable=False)
        for part in ("low", "high", "weight")
    ]
    return Range(*numbers)


def _is_quantisable(node, f):
    """Check whether a node has a matrix or filters of float32 that the file stores."""
    if node.op_type not in _OPERATORS or node.input[0] in f.stored.values:
        return False
    v = f.stored.values.get(node.input[1])
    return v is not None and v.dtype == np.float32 and v.rank > 1 + (node.op_type == "Conv")


def _channel_axis(node):
    """Return the axis of the output channels of the weight of a node."""
    if node.op_type == "Conv":
        return 0
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    return 0 if transposed else -1


def _weight(w, axis):
    """Round a weight to int8 with a scale for each channel, which follows it."""
    axis %= w.rank
    others = [k for k in range(w.rank) if k != axis]
    largest = ops.reduce_max(ops.abs(ops.stop_gradient(w)), others, keep_dim=True)
    scale = ops.maximum(largest / float(WEIGHT_LEVELS), SMALLEST_SCALE)
    return ops.straight_through(ops.round(w / scale) * scale, w)


def _rounded(x, stored):
    """Round an activation to uint8 in a range.

    The integers are floats here: of QuantizeLinear in front of a product ONNX Runtime makes an
    8-bit product, which overflows 16 bits on processors without VNNI.
    """
    low, high = map(ops.stop_gradient, stored.means())
    scale = ops.maximum((high - low) / float(ACTIVATION_LEVELS), SMALLEST_SCALE)
    offset = ops.clip(ops.round(-low / scale), 0.0, float(ACTIVATION_LEVELS))
    integers = ops.clip(ops.round(x / scale), -offset, ACTIVATION_LEVELS - offset)
    # as by torch.fake_quantize: what rounds to the last integer is inside
    bounds = [(n - offset) * scale for n in (-0.5, ACTIVATION_LEVELS + 0.5)]
    return ops.straight_through(integers * scale, ops.clip(x, *bounds))
