"""The cases of ONNX's own node tests that have a derivative, with their slope in one direction.

A case is one operator on float32 inputs. Its slope is that of a random projection of its outputs
along a random direction of its inputs, by central differences of ONNX's evaluator in double
precision. A case counts if the slope is finite and not zero; where its inputs stand on a kink (all
of them zero, or two equal ones), they are moved a little first.
"""

import os
import pickle
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, numpy_helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_scatter_elements import ScatterElements

from pd_core.backend.evaluator import evaluator

# Inputs that act as attributes, and are held fixed: (operator, index of the input).
HELD = {
    *(("Dropout", 1), ("OneHot", 0), ("OneHot", 1), ("Resize", 1), ("Resize", 2)),
    ("Upsample", 1),
}
STEPS = ((1e-6, 1e-3), (1e-4, 1e-3), (1e-2, 2e-2))  # (step, relative error of the slope)
ZERO = 1e-9


@dataclass(frozen=True)
class Case:
    """A node test: `inputs` by name, `direction` of those that move, `weights` of the outputs.

    `slope` is accurate to `rtol`; `outputs` are those of the evaluator.
    """

    name: str
    op_type: str
    model: ModelProto
    inputs: dict
    direction: dict
    weights: list
    outputs: list
    slope: float
    rtol: float

    def __str__(self):
        return self.name


# Each file of ONNX computes its cases when it is imported, ten seconds for all. They are the same
# in every process: the first one that needs them leaves them here.
_CACHE = Path(__file__).resolve().parents[4] / ".pytest_cache"


@cache
def node_tests():
    """Return ONNX's node tests: those that another process has collected, if one did."""
    versions = "-".join((onnx.__version__, np.__version__, *map(str, sys.version_info[:2])))
    path = _CACHE / f"node_tests-{versions}.pickle"
    try:
        return pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        found = _collected()
    _CACHE.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=_CACHE, delete=False) as file:
        pickle.dump(found, file)
    os.replace(file.name, path)  # at once: others may read it
    return found


def _collected():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():  # some of the cases overflow on purpose
        warnings.simplefilter("ignore")
        return collect_testcases(None)


@cache
def tests():
    """All single-operator float32 tests of the installed onnx: (operator, name, model, data)."""
    return [
        (test.model.graph.node[0].op_type, test.name, test.model, test.data_sets[0])
        for test in node_tests()
        if len(test.model.graph.node) == 1 and _is_float(test)
    ]


def _is_float(test):
    domain = test.model.graph.node[0].domain
    return domain in ("", "ai.onnx") and all(any(map(_single, x)) for x in test.data_sets[0])


def _single(x):
    return isinstance(x, np.ndarray | np.generic) and x.dtype == np.float32


def case(op_type, name, model, data):
    """Return the Case of a test, or the reason why it has none."""
    rng = np.random.default_rng(crc32(name.encode()))
    names = [i.name for i in model.graph.input]
    inputs = {n: _double(x) for n, x in zip(names, data[0], strict=True)}
    free = [n for n in _free(model.graph.node[0]) if _is_double(inputs.get(n))]
    direction = {n: rng.standard_normal(inputs[n].shape) for n in free}
    away = {n: inputs[n] + 0.02 * rng.standard_normal(inputs[n].shape) for n in free}
    reason = "no input can be moved"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for point in (inputs, {**inputs, **away}):
            try:
                found = _slope(doubled(model), point, direction, rng)
            except Exception as error:
                return f"the evaluator refuses it: {type(error).__name__}"
            if not isinstance(found, str):
                return Case(name, op_type, model, point, direction, *found)
            reason = found
    return reason


def _free(node):
    return [n for k, n in enumerate(node.input) if n and (node.op_type, k) not in HELD]


def _double(x):
    return np.asarray(x, np.float64) if _single(x) else np.asarray(x) if np.ndim(x) == 0 else x


def _is_double(x):
    return isinstance(x, np.ndarray) and x.dtype == np.float64


def _slope(model, point, direction, rng):
    """Return (weights, outputs, slope, rtol), or the reason why there is no slope."""
    run = evaluator(model, more=[DynamicQuantizeLinear, MeanVarianceNormalization, Scatter])

    def outputs(h):
        moved = {n: x + h * direction[n] if n in direction else x for n, x in point.items()}
        return run.run(None, moved)

    found = outputs(0.0)
    weights = [rng.standard_normal(np.shape(y)) if _is_float_array(y) else None for y in found]

    def projected(ys):
        return sum(np.vdot(w, y) for w, y in zip(weights, ys, strict=True) if w is not None)

    here = projected(found)
    wide = all(y.dtype == np.float64 for y in found if _is_float_array(y))
    for h, rtol in STEPS if wide else STEPS[-1:]:
        slopes = [(projected(outputs(k * h)) - here) / (k * h) for k in (1, -1, 3)]
        slope, scale = (slopes[0] + slopes[1]) / 2, np.abs(slopes).max()
        if not np.isfinite(slope):
            return "its slope is not finite"
        error = np.abs(slope - slopes).max() / max(scale, ZERO)
        if error <= rtol:
            exact = weights, found, slope, rtol
            return exact if abs(slope) > ZERO else "its slope is zero"
    return "it has no slope here"


def _is_float_array(y):
    return isinstance(y, np.ndarray) and y.dtype.kind == "f"


def doubled(model):
    """Return a copy of a model with float64 for float32."""
    model = ModelProto.FromString(model.SerializeToString())
    _double_graph(model.graph)
    return model


def _double_graph(graph):
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        _double_tensor(tensor)
    for node in graph.node:
        for a in node.attribute:
            if a.type == AttributeProto.TENSOR:
                _double_tensor(a.t)
            elif a.type == AttributeProto.GRAPH:
                _double_graph(a.g)
            elif node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.DOUBLE


def _double_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


class MeanVarianceNormalization(OpRun):
    """In the precision of x; the evaluator's body adds float32 to it."""

    op_domain = ""

    def _run(self, x, axes=(0, 2, 3)):
        axes = tuple(axes)
        return ((x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9),)


class DynamicQuantizeLinear(OpRun):
    """In the precision of x; the evaluator rounds the scale to float32."""

    op_domain = ""

    def _run(self, x):
        low, high = min(0.0, x.min()), max(0.0, x.max())
        scale = (high - low) / 255 or 1.0
        zero = np.rint(np.clip(-low / scale, 0, 255))
        y = np.clip(np.rint(x / scale) + zero, 0, 255)
        return y.astype(np.uint8), np.asarray(scale), np.asarray(zero, np.uint8)


class Scatter(ScatterElements):
    """The old name; the evaluator has only the new one."""

    op_domain = ""
