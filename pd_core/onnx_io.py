"""ONNX files: models for inference."""

import onnx

from .atomic import atomic_write
from .backend import program
from .backend.lowering import lower
from .errors import ExportError, MissingFeed
from .namespace import names
from .node import ancestors
from .session import default_session
from .shapes import meetings
from .variable import Variable


def export_onnx(path, targets, inputs=None, session=None, metadata=None) -> onnx.ModelProto:
    """Write the inference model of some targets as standard ONNX, and return it.

    Inputs and outputs have the variables' names; parameters are stored in the file with the
    session's values; sizes known only at run time are named dimensions, the first axis of the
    inputs `batch`. Only what the targets need is written. `inputs` fixes the order of the inputs
    and may name intermediate variables, where the model is then cut; all feeds if None. The
    model is checked with ONNX's checker, strict shape inference included. Without a path it is
    only returned. A target that draws random numbers adds the input `random_seed`.
    """
    session = session or default_session()
    targets = [_target(v) for v in (targets if isinstance(targets, (list, tuple)) else [targets])]
    graph, feeds = exported_graph("export", targets, [], inputs, training=False)
    unused = [v for v in feeds if v not in graph.fed]
    if unused:
        raise ExportError(f"export: the targets do not depend on the inputs {unused}")
    values = {v: session.get(v) for v in graph.states}
    lowered = lower(graph, values, dimension_names(graph), [v.name for v in targets])
    return finished(lowered.model, path, metadata or {})


def exported_graph(who, fetches, updates, inputs, training, **options):
    """The Graph of a file, and the feeds asked for: `inputs`, or what the targets need."""
    if inputs is None:
        feeds = program.feed_slots([*fetches, *(new for _, new in updates)], training)
    else:
        feeds = [_input(v) for v in inputs]
    try:
        return program.build(fetches, updates, feeds, training, sizes={}, **options), feeds
    except MissingFeed as error:
        raise ExportError(f"{who}: {error}\n  hint: add it to inputs") from None


def finished(model, path, metadata):
    """The model with its metadata, checked, and written unless the path is None."""
    for key, value in {"producer": "pd", **metadata}.items():
        model.metadata_props.add(key=key, value=str(value))
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with atomic_write(path) as file:
            file.write(model.SerializeToString())
    return model


def _target(v):
    if isinstance(v, Variable):
        return v
    raise ExportError(f"export: a target is a Variable, not {v!r}")


def _input(v):
    """A variable, or the one of that name."""
    if isinstance(v, Variable):
        return v
    if isinstance(v, str) and v in names().variables:
        return names().variables[v]
    raise ExportError(f"export: there is no variable {v!r}")


def dimension_names(graph):
    """A readable name for every run-time size: `batch` for first axes, equal sizes alike."""
    parent = {}

    def root(d):
        while d in parent:
            d = parent[d]
        return d

    for node in ancestors(graph.outputs):
        for a, b in meetings(node):
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
