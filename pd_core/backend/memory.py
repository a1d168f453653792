"""Peak memory of a run of a model, by liveness in the graph that ONNX Runtime makes of it."""

import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper

# Whose result is the memory of the first input.
_VIEWS = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
# Which write into an input of the same size that nothing reads afterwards.
_IN_PLACE = frozenset(
    (
        *("Abs", "Add", "Cast", "Ceil", "Clip", "Div", "Elu", "Erf", "Exp", "Floor", "HardSigmoid"),
        *("HardSwish", "LeakyRelu", "Log", "Mul", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid"),
        *("Sign", "Softplus", "Softsign", "Sqrt", "Sub", "Tanh", "ThresholdedRelu"),
    )
)


class UnknownSize(ValueError):
    """A size of an input is not given, or one that is given is no size of an input."""


class Memory(NamedTuple):
    """Bytes of a run: feeds and state, which the caller holds, and what the run adds to them."""

    inputs: dict[str, int]
    constants: int
    peak: int  # values between the nodes and outputs, at the worst node
    unknown: int  # how many values of no known size are not in it


def fixed_sizes(model: onnx.ModelProto, batch: int, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """Return a model without values of sizes that are unknown before a run.

    `batch` is the size of the first axes of the inputs, `sizes` those of others by name.
    """
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.value_info[:]
    chosen, missing = dict(sizes), set()
    shapes = {i.name: i.type.tensor_type.shape.dim for i in fixed.graph.input}
    for dims in shapes.values():
        for d in dims[:1]:
            if not d.HasField("dim_value") and d.dim_param:
                chosen.setdefault(d.dim_param, batch)
    for name, dims in shapes.items():
        for axis, d in enumerate(dims):
            if d.HasField("dim_value"):
                continue
            size = chosen.get(d.dim_param) if d.dim_param else batch if axis == 0 else None
            if size is None:
                missing.add(d.dim_param or f"axis {axis} of {name}")
            else:
                d.dim_value = size
    if missing:
        listed = ", ".join(sorted(missing))
        raise UnknownSize(f"the inputs have sizes that are known at run time only: {listed}")
    unused = set(sizes) - {d.dim_param for i in model.graph.input for d in _dims(i)}
    if unused:
        raise UnknownSize(f"no input has a size named {', '.join(sorted(unused))}")
    for o in fixed.graph.output:
        o.type.tensor_type.ClearField("shape")
    return fixed


def _dims(info):
    return info.type.tensor_type.shape.dim


def run_memory(model: onnx.ModelProto, batch: int, sizes: Mapping[str, int]) -> Memory:
    """Return what a run of a model takes, on a CPU and in the order of ONNX Runtime.

    The graph is the one that ONNX Runtime makes by its basic optimizations, which compute what
    follows from sizes, and leave operators of ONNX. A value lives from the node that makes it to
    the last one that reads it; kernels that may write into an input do. Scratch memory of kernels,
    such as the columns of a convolution, and what an arena keeps beyond that are not counted.
    """
    graph = _optimized(fixed_sizes(model, batch, sizes)).graph
    known = {i.name: _bytes(i) for i in (*graph.input, *graph.output, *graph.value_info)}
    constants = {t.name: math.prod(t.dims) * _width(t.data_type) for t in graph.initializer}
    inputs = {i.name: known[i.name] or 0 for i in graph.input}
    for name in inputs:
        constants.pop(name, None)
    stored = sum(
        math.prod(a.t.dims) * _width(a.t.data_type)
        for node in graph.node
        for a in node.attribute
        if node.op_type == "Constant" and a.name == "value"
    )
    peak, unknown = _peak(graph)
    return Memory(inputs, sum(constants.values()) + stored, peak, unknown)


def _optimized(model):
    """The graph as ONNX Runtime runs it, with the shapes that it finds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "optimized.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = path
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.graph_optimization_level = level
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)


def _width(element_type):
    """Bytes of an element; 1 of what is smaller or has no fixed size."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type)).itemsize
    except KeyError:
        return 1


def _bytes(info):
    """Bytes of a value, or None if a size is unknown."""
    tensor = info.type.tensor_type
    known = all(d.HasField("dim_value") for d in tensor.shape.dim)
    if not info.type.HasField("tensor_type") or not tensor.HasField("shape") or not known:
        return None
    return math.prod(d.dim_value for d in tensor.shape.dim) * _width(tensor.elem_type)


class _Buffers:
    """The memory of values while a graph runs, and the most that is allocated at once."""

    def __init__(self):
        self.of: dict[str, str] = {}  # the buffer that a value is in, called after its first value
        self.sizes: dict[str, int] = {}
        self.reads: Counter[str] = Counter()  # that are still to come, of all values in a buffer
        self.now = self.peak = 0

    def add(self, value, size, reads):
        """Allocate a value."""
        self.sizes[value] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        self.share(value, value, reads)

    def share(self, value, buffer, reads):
        """Put a value where another one is."""
        self.of[value] = buffer
        self.reads[buffer] += reads

    def read(self, value):
        """Count a reading, the last of which frees the buffer."""
        buffer = self.of.get(value)
        if buffer is not None:
            self.reads[buffer] -= 1
            if self.reads[buffer] <= 0:
                self.now -= self.sizes.pop(buffer, 0)

    def overwritten(self, node, size):
        """Return a buffer of this size that nothing reads but this node, or None."""
        read = Counter(self.of[name] for name in node.input if name in self.of)
        fits = (b for b, n in read.items() if self.reads[b] == n and self.sizes[b] == size)
        return next(fits, None)


def _peak(graph):
    """The most bytes of values that live at once, and how many values have no known size.

    Inputs and stored tensors are not among them, nor what a body reads from around it.
    """
    known = {i.name: _bytes(i) for i in (*graph.value_info, *graph.output)}
    reads = Counter(name for node in graph.node for name in _read(node))
    reads.update(o.name for o in graph.output)
    buffers, unknown = _Buffers(), 0
    for node in graph.node:
        bodies = [_peak(a.g) for a in node.attribute if a.HasField("g")]
        unknown += sum(count for _, count in bodies)
        for k, name in enumerate(node.output):
            if not name:
                continue
            size, first = known.get(name), node.input[0] if node.input else ""
            unknown += size is None
            buffer = buffers.overwritten(node, size) if node.op_type in _IN_PLACE else None
            if node.op_type in _VIEWS and k == 0:
                if first in buffers.of:  # a view of an input is no memory of ours
                    buffers.share(name, buffers.of[first], reads[name])
            elif buffer is not None:
                buffers.share(name, buffer, reads[name])
            else:
                buffers.add(name, size or 0, reads[name] or 1)
        buffers.peak = max(buffers.peak, buffers.now + max((peak for peak, _ in bodies), default=0))
        for name in (*_read(node), *(n for n in node.output if n and not reads[n])):
            buffers.read(name)
    return buffers.peak, unknown


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield what a node reads, also in its bodies."""
    yield from filter(None, node.input)
    for a in node.attribute:
        if a.HasField("g"):
            for inner in a.g.node:
                yield from _read(inner)
            yield from (o.name for o in a.g.output)
