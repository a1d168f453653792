"""Export of inference models as ONNX files."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from ..backend import program
from ..backend.lowering import lower
from ..graph.broadcast import equal_sizes
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
    and may name intermediate variables, at which the model is cut; all feeds if None. The
    model is checked with ONNX's checker, strict shape inference included. If the path
    is None it is only returned. A target that draws random numbers adds the input `random_seed`.
    """
    session = session or default_session()
    targets = [_target(v) for v in (targets if isinstance(targets, (list, tuple)) else [targets])]
    graph, feeds = build_graph("export", targets, [], inputs, training=False)
    unused = [v for v in feeds if v not in graph.fed]
    if unused:
        raise ExportError(f"export: the targets do not depend on the inputs {unused}")
    values = {v: session.get(v) for v in graph.states}
    outputs = [v.name for v in targets]
    lowered = lower(graph, values, dimension_names(graph, outputs), outputs)
    return check_and_write(lowered.model, path, metadata or {})


def build_graph(
    caller: str,
    fetches: Sequence[Variable],
    updates: Sequence[tuple[Variable, Variable]],
    inputs: Sequence[Variable | str] | None,
    training: bool,
    **options: Any,
) -> tuple[program.Graph, list[Variable]]:
    """Return the Graph of a file and its feeds: `inputs`, or all feeds of the targets.

    `caller` begins the message of an error.
    """
    if inputs is None:
        feeds = program.feed_slots([*fetches, *(new for _, new in updates)], training)
    else:
        feeds = [_input(v) for v in inputs]
    try:
        return program.build(fetches, updates, feeds, training, sizes={}, **options), feeds
    except MissingFeed as error:
        raise ExportError(f"{caller}: {error}\n  hint: add it to inputs") from None


def check_and_write(
    model: onnx.ModelProto, path: str | os.PathLike | None, metadata: Mapping[str, str]
) -> onnx.ModelProto:
    """Add metadata to a model, check it, write it unless the path is None, and return it."""
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
    """Return {run-time size: readable name}, the same name for equal sizes.

    It is the user's name or that of the imported file, `batch` for the first axis of an input, else
    `<input or output>_<axis>`. `outputs` are the names of the first outputs.
    """
    roots = _EqualSizes(graph)
    variables = [(v, v.name) for v in graph.feeds] + list(zip(graph.outputs, outputs, strict=False))
    fed = {roots[d] for v in graph.feeds for d in v.dims}
    sizes = [
        (d, roots[d], "batch" if axis == 0 and roots[d] in fed else f"{name}_{axis}")
        for v, name in variables
        for axis, d in enumerate(v.dims)
        if isinstance(d, str)
    ]
    named: dict[str, str] = {}
    for d, root, _ in sizes:
        own = names().sizes.get(d) if d.startswith("?") else d
        if own:
            named.setdefault(root, own)
    for _, root, automatic in sizes:
        named.setdefault(root, automatic)
    named = _distinct(named)
    return {d: named[root] for d, root, _ in sizes}


class _EqualSizes:
    """{size: the representative of all sizes equal to it}, by the graph or an imported file."""

    def __init__(self, graph):
        self.parent: dict[str, str] = {}
        for node in ancestors(graph.outputs):
            for a, b in equal_sizes(node):
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


def _distinct(named):
    """The names with a number added where two different sizes have the same one."""
    taken, distinct = set(), {}
    for d, name in named.items():
        k, free = 1, name
        while free in taken:
            k += 1
            free = f"{name}_{k}"
        taken.add(free)
        distinct[d] = free
    return distinct
