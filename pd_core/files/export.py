"""ONNX files: models for inference."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from ..backend import program
from ..backend.lowering import lower
from ..graph.broadcast import meetings
from ..graph.errors import ExportError, MissingFeed
from ..graph.names import names
from ..graph.node import ancestors
from ..graph.variable import Variable
from ..run.session import Session, default_session
from .atomic import atomic_write


def export_onnx(
    path: str | os.PathLike | None,
    targets: Variable | Sequence[Variable],
    inputs: Sequence[Variable | str] | None = None,
    session: Session | None = None,
    metadata: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
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
    wanted = [v.name for v in targets]
    lowered = lower(graph, values, dimension_names(graph, wanted), wanted)
    return finished(lowered.model, path, metadata or {})


def exported_graph(
    who: str,
    fetches: Sequence[Variable],
    updates: Sequence[tuple[Variable, Variable]],
    inputs: Sequence[Variable | str] | None,
    training: bool,
    **options: Any,
) -> tuple[program.Graph, list[Variable]]:
    """The Graph of a file, and the feeds asked for: `inputs`, or what the targets need."""
    if inputs is None:
        feeds = program.feed_slots([*fetches, *(new for _, new in updates)], training)
    else:
        feeds = [_input(v) for v in inputs]
    try:
        return program.build(fetches, updates, feeds, training, sizes={}, **options), feeds
    except MissingFeed as error:
        raise ExportError(f"{who}: {error}\n  hint: add it to inputs") from None


def finished(
    model: onnx.ModelProto, path: str | os.PathLike | None, metadata: Mapping[str, str]
) -> onnx.ModelProto:
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


def dimension_names(graph: program.Graph, outputs: Sequence[str] = ()) -> dict[str, str]:
    """A readable name for every run-time size, equal sizes alike: the user's or that of the file
    it came from, `batch` for other first axes, else that of an input or output and the axis.

    `outputs` are the names of the first outputs.
    """
    roots = _Roots(graph)
    variables = [(v, v.name) for v in graph.feeds] + list(zip(graph.outputs, outputs, strict=False))
    fed = {roots[d] for v in graph.feeds for d in v.dims}
    sizes = [
        (d, roots[d], "batch" if axis == 0 and roots[d] in fed else f"{name}_{axis}")
        for v, name in variables
        for axis, d in enumerate(v.dims)
        if isinstance(d, str)
    ]
    found: dict[str, str] = {}
    for d, root, _ in sizes:
        given = names().sizes.get(d) if d.startswith("?") else d
        if given:
            found.setdefault(root, given)
    for _, root, automatic in sizes:
        found.setdefault(root, automatic)
    found = _distinct(found)
    return {d: found[root] for d, root, _ in sizes}


class _Roots:
    """The first of the sizes that a graph, or the file it came from, takes to be equal to one."""

    def __init__(self, graph):
        self.parent = {}
        for node in ancestors(graph.outputs):
            for a, b in meetings(node):
                self._join(a, b)
        for v in (*graph.feeds, *graph.outputs):
            for d in v.dims:
                self._join(names().equal_sizes.get(d), d)

    def _join(self, a, b):
        if isinstance(a, str) and isinstance(b, str) and self[a] != self[b]:
            self.parent[self[b]] = self[a]

    def __getitem__(self, d):
        while d in self.parent:
            d = self.parent[d]
        return d


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
