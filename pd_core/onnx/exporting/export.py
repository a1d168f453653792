"""Export of inference models as ONNX files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from ...backend import program
from ...backend.dtypes import without_bodies
from ...backend.lowering import lower
from ...backend.passes.forms import forms_of
from ...graph.broadcast import equal_sizes
from ...graph.errors import ExportError, MissingFeed
from ...graph.inference import OPSET
from ...graph.names import fresh_names, names
from ...graph.node import ancestors
from ...graph.recording import not_recording
from ...graph.rewrite import rewrite
from ...graph.variable import Variable
from ...run.session import Session, default_session
from ...storage.atomic import atomic_write
from ...version import __version__
from .folding import folded
from .opsets import check_opset, in_forms_of, in_operators_of
from .resize import resize
from .stored_integers import as_stored


def export_onnx(
    path: str | os.PathLike | None,
    targets: Variable | Sequence[Variable],
    inputs: Sequence[Variable | str] | None = None,
    session: Session | None = None,
    metadata: Mapping[str, str] | None = None,
    opset: int | None = None,
    ir_version: int | None = None,
    name: str = "pd",
    description: str = "",
    domain: str = "",
    model_version: int = 0,
    seed: int | None = None,
) -> onnx.ModelProto:
    """Write the inference model of some targets as standard ONNX, and return it.

    Inputs and outputs have the variables' names; parameters are stored in the file with the
    session's values; sizes known only at run time are named dimensions, the first axis of the
    inputs `batch`. Only what the targets need is written. `inputs` fixes the order of the inputs
    and may name intermediate variables, at which the model is cut; all feeds if None. The
    model is checked with ONNX's checker, strict shape inference included. If the path
    is None it is only returned.

    A target that draws random numbers adds the input `random_seed`, int64 [draws, 2]: a row for
    each draw, of any two integers, equal ones for equal numbers. With `seed` these rows are stored
    in the file instead, as (seed, 0), and each run draws the same numbers.

    The model is of `opset`, 13 … 26, by default 21 or that of the newest operator; ExportError
    names the operators that an opset lacks. `ir_version` is by default the oldest that goes with
    the opset, so that runtimes of its time read the file. Nodes have the names of their layers,
    such as `encoder/fc_0/MatMul`, and what tools have operators for is one of them:
    normalisations, recurrent layers, and from opset 23 on attention. `name`, `description`,
    `domain` and `model_version` are fields of the file; `metadata` are its entries.

    Args:
        path: the file, or None.
        targets: Variables.
        inputs: feed slots or intermediate Variables.
        opset: 13 … 26.
        seed: an int64.

    Returns:
        The model.

    Raises:
        ExportError: an input is missing or unused, or the opset is unknown or lacks an operator.
        TypeError: the seed is no integer.
        ValueError: the seed is no int64.
    """
    session = session or default_session()
    seed = None if seed is None else checked_seed("export", seed)
    if opset is not None:
        check_opset("export", opset)
    targets = [_target(v) for v in (targets if isinstance(targets, (list, tuple)) else [targets])]
    forms = forms_of(OPSET if opset is None else opset)
    graph, feeds = build_graph("export", targets, [], inputs, training=False, forms=forms)
    unused = [v for v in feeds if v not in graph.fed]
    if unused:
        raise ExportError(f"export: the targets do not depend on the inputs {unused}")
    graph, origins = _for_tools(graph, session, opset)
    values = {v: session.get(v) for v in graph.states}
    if seed is not None and graph.seed is not None:
        values[graph.seed] = np.array([[seed, 0]] * len(graph.draws), np.int64)
        graph = replace(graph, states=(*graph.states, graph.seed), seed=None)
    outputs = [v.name for v in targets]
    dims = dimension_names(graph, outputs)
    model = lower(graph, values, dims, outputs, name, opset, origins).model
    model.doc_string, model.domain, model.model_version = description, domain, model_version
    if ir_version is not None:
        _set_ir_version(model, ir_version)
    return check_and_write(model, path, metadata or {})


def checked_seed(caller: str, seed: Any) -> int:
    """Return a seed, an int64, as a Python integer."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"{caller}: a seed is a whole number, not {seed!r}")
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"{caller}: a seed is an int64, which {seed} does not fit")
    return int(seed)


def _for_tools(graph, session, opset):
    """The graph in the operators of an opset, with folded constants; what these stand for."""
    with fresh_names(), not_recording():
        targets = as_stored(graph.fetches, session)
        targets = rewrite(targets, resize, only={"Resize"})
        if opset is not None:
            targets = in_operators_of(targets, opset)
        targets = without_bodies(targets, opset)
        targets, origins = folded(targets, session)
        if opset is not None:
            targets = in_forms_of(targets, opset, "export")
    states = tuple(v for v in program.leaves(targets) if v.is_persistent)
    return replace(graph, fetches=tuple(targets), states=states), origins


def _set_ir_version(model, ir_version):
    """Set the version of the file format; ExportError if the opset needs a newer one."""
    oldest = onnx.helper.find_min_ir_version_for(list(model.opset_import))
    if not oldest <= ir_version <= onnx.IR_VERSION:
        opset = model.opset_import[0].version
        raise ExportError(
            f"export: ir_version of opset {opset} is {oldest} … {onnx.IR_VERSION}, not {ir_version}"
        )
    model.ir_version = ir_version


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
    model.producer_name, model.producer_version = "pd", __version__
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
    computed = [y for node in ancestors(graph.outputs) for y in node.outputs]
    inside = {d for y in computed for d in y.dims if isinstance(d, str)}
    return {d: named[roots[d]] for d in inside | {d for d, _, _ in sizes} if roots[d] in named}


class _EqualSizes:
    """{size: the representative of all sizes equal to it}, as far as operators need that.

    That an imported file gives two sizes one name is no reason: nothing checks it, and ONNX Runtime
    plans memory by the names of an exported file.
    """

    def __init__(self, graph):
        self.parent: dict[str, str] = {}
        for node in ancestors(graph.outputs):
            for a, b in equal_sizes(node):
                self._join(a, b)

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
