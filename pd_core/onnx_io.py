"""ONNX files: models for inference."""

import os

import onnx

from .backend import program
from .backend.lowering import lower
from .errors import ExportError, MissingFeed
from .namespace import names
from .session import default_session
from .shapes import BROADCASTING, meetings
from .node import ancestors
from .variable import Variable


def export_onnx(path, targets, inputs=None, session=None, metadata=None) -> onnx.ModelProto:
    """Write the inference model of some targets as standard ONNX, and return it.

    Inputs and outputs have the variables' names; parameters are stored in the file with the
    session's values; sizes known only at run time are named dimensions, the first axis of the
    inputs `batch`. Only what the targets need is written. `inputs` fixes the order of the inputs
    and may name intermediate variables, where the model is then cut; all feeds if None. The
    model is checked with ONNX's checker, strict shape inference included.
    """
    session = session or default_session()
    targets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    model = inference_model(targets, inputs, session, metadata or {})
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        _write(path, model.SerializeToString())
    return model


def inference_model(targets, inputs, session, metadata):
    """The ModelProto of `export_onnx`, not checked."""
    feeds = _feeds(targets) if inputs is None else [_variable(v) for v in inputs]
    try:
        graph = program.build(targets, [], feeds, training=False, sizes={})
    except MissingFeed as error:
        raise ExportError(f"export: {error}\n  hint: add it to inputs") from None
    unused = [v for v in feeds if v not in graph.feeds]
    if unused:
        raise ExportError(f"export: the targets do not depend on the inputs {unused}")
    session.initialize(graph.states)
    values = {v: session.get(v) for v in graph.states}
    lowered = lower(graph, values, _dimension_names(graph))
    for key, value in {"producer": "pd", **metadata}.items():
        lowered.model.metadata_props.add(key=key, value=str(value))
    return lowered.model


def _feeds(targets):
    """The feed slots behind the targets in inference, by order of use."""
    graph = program.build(targets, [], [], training=False, sizes={}, complete=False)
    return [v for v in program.leaves(graph.outputs, set()) if v.is_feed and v is not graph.seed]


def _variable(v):
    if isinstance(v, Variable):
        return v
    if v in names().variables:
        return names().variables[v]
    raise ExportError(f"export: there is no variable {v!r}")


def _dimension_names(graph):
    """A readable name for every run-time size: `batch` for first axes, equal sizes alike."""
    parent = {}

    def root(d):
        while d in parent:
            d = parent[d]
        return d

    for node in ancestors(graph.outputs, stop=set(graph.inputs)):
        for a, b in meetings(node) if node.op_type in BROADCASTING else ():
            if isinstance(a, str) and isinstance(b, str) and root(a) != root(b):
                parent[root(b)] = root(a)
    found = {}
    for v in graph.feeds:
        for axis, d in enumerate(v.dims):
            if isinstance(d, str):
                name = "batch" if axis == 0 else f"{v.name}_{axis}"
                found.setdefault(root(d), name)
    return _spread(graph, root, _distinct(found))


def _distinct(found):
    """Two sizes never share a name."""
    taken, out = set(), {}
    for d, name in found.items():
        k, free = 1, name
        while free in taken:
            k += 1
            free = f"{name}_{k}"
        taken.add(free)
        out[d] = free
    return out


def _spread(graph, root, found):
    dims = {d for v in (*graph.feeds, *graph.outputs) for d in v.dims if isinstance(d, str)}
    return {d: found[root(d)] for d in dims if root(d) in found}


def _write(path, data):
    """All or nothing: a temporary file beside the target, then a rename."""
    partial = f"{path}.part"
    with open(partial, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(partial, path)
