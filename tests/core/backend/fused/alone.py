"""Fused operators alone, against the operators that they replace, on the same values."""

import re

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, shape_inference

from pd_core.backend.fused.build import build
from pd_core.backend.fused.fusion import fuse
from pd_core.backend.fused.groups import DOMAIN

FLAGS = ["-O1"]  # these libraries are run once; vectors are made as with -O3
FLAGS += ["-ftree-vectorize"]
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def model_of(nodes, inputs, outputs, constants=()):
    """Return a model; `inputs` are {name: (element type, sizes)}, `outputs` names, and constants
    {name: array}."""
    given = [helper.make_tensor_value_info(k, *v) for k, v in inputs.items()]
    results = [onnx.ValueInfoProto(name=k) for k in outputs]
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    graph = helper.make_graph(nodes, "test", given, results, tensors)
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


def kinds_of(model):
    """Return the types of all values, as ONNX infers them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        if node.op_type == "GatedAdd":
            node.op_type, node.domain = "Sum", ""
    graph = shape_inference.infer_shapes(copy, data_prop=True).graph
    return dict(_kinds(graph))


def _kinds(graph):
    for v in (*graph.input, *graph.output, *graph.value_info):
        t = v.type.tensor_type
        dims = [
            d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in t.shape.dim
        ]
        if t.HasField("shape") and None not in dims:
            yield v.name, (t.elem_type, tuple(dims))
    for node in graph.node:
        for a in node.attribute:
            if a.type == a.GRAPH:
                yield from _kinds(a.g)


def opened(model, library=None):
    """Return a session without the runtime's own changes of the graph."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if library is not None:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def fused(model, kinds, equal=()):
    """Return (the fused model, its library); the model itself is kept."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    source, _ = fuse(copy, kinds, equal)
    return copy, None if source is None else build(source, flags=FLAGS)


def run(model, feeds, library=None):
    """Return {output: value}."""
    session = opened(model, library)
    results = session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()})
    return dict(zip([v.name for v in session.get_outputs()], results, strict=True))


def alone(model, kinds, equal, feeds):
    """Return [(error, operator, value)] of each result of each fused operator outside of bodies.

    Each is run on what the unfused program gives it. The error is relative to the largest element,
    or to a hundredth of the largest one that the operator reads, where results cancel out.
    """
    changed, library = fused(model, kinds, equal)
    if library is None:
        return []
    nodes = [node for node in changed.graph.node if node.domain == DOMAIN]
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    made = {y for node in plain.graph.node for y in node.output}
    known = {v.name for v in plain.graph.output}
    names = dict.fromkeys(x for node in nodes for x in (*node.input, *node.output))
    copied = {x: re.sub(r"(/for\d+)+$", "", x) for x in names}  # views outside of groups
    more = [x for x in dict.fromkeys(copied.values()) if x in made and x not in known]
    plain.graph.output.extend(onnx.ValueInfoProto(name=x) for x in more)
    values = run(plain, feeds) | feeds
    values |= {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values |= {x: values[y] for x, y in copied.items() if x not in values and y in values}
    inputs, own, results = {}, [], {}
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for k, y in enumerate(node.output):
            copy.output[k] = f"{y}/fused"
            if y in values:
                results[f"{y}/fused"] = node, y
        for x in node.input:
            kind = helper.np_dtype_to_tensor_dtype(values[x].dtype)
            inputs[x] = kind, list(values[x].shape)
        own.append(copy)
    side = model_of(own, inputs, results)
    side.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    found = run(side, values, library)
    return [
        (_error(values[y], found[name], [values[x] for x in node.input]), node.op_type, y)
        for name, (node, y) in results.items()
    ]


def _error(expected, found, inputs):
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return np.inf
    if expected.dtype.kind != "f":
        return float(np.mean(expected != found)) if expected.size else 0.0
    largest = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in inputs if x.dtype.kind == "f"]
    scale = max(
        [np.abs(expected[np.isfinite(expected)]).max(initial=1e-30), 0.01 * max(largest, default=0)]
    )
    with np.errstate(invalid="ignore"):
        apart = np.abs(expected.astype(np.float64) - found)
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    apart = np.where(same, 0, np.where(np.isfinite(apart), apart, np.inf))
    return float(apart.max(initial=0) / scale)
