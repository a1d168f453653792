"""Export of a whole training step: forward, backward and optimizer as one standard ONNX model."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ...backend.dtypes import without_bodies
from ...backend.lowering import lower
from ...backend.passes.portable import refused
from ...graph.errors import ExportError
from ...graph.names import fresh_names
from ...graph.recording import not_recording
from ...graph.site import site_text
from ...graph.update import Update
from ...graph.variable import Variable
from ...run.changes import changes_of
from ...run.session import Session, default_session
from .export import build_graph, check_and_write, checked_seed, dimension_names
from .opsets import check_opset, in_forms_of, in_operators_of


def export_step(
    path: str | os.PathLike | None,
    step: Update | Sequence[Update],
    fetches: Variable | Sequence[Variable] = (),
    inputs: Sequence[Variable | str] | None = None,
    session: Session | None = None,
    initial: str | os.PathLike | None = None,
    portable: bool = False,
    seed: int | None = None,
    opset: int | None = None,
) -> onnx.ModelProto:
    """Write a training step as one ONNX model (ai.onnx only), and return it.

    Its inputs are the feeds, then the stored state: parameters, optimizer slots, and `random_seed`
    where the step draws random numbers; its outputs are the fetches, then the new state, for an
    input `w` as `w_next` unless that name is taken. Every state input has the session's value as
    its default, so that the first run needs feeds alone.
    With `initial`, a second path, the inputs have no defaults; a second model without inputs is
    written there, whose outputs are these values, by the names of the inputs. Runtimes for
    JavaScript need that, since they accept no value for an input with a default.
    `portable` uses forms that run on WebGPU too, where some operators are missing; ExportError
    if there is no such form. Elsewhere they compute the same numbers, some more slowly.
    The metadata entry `pd.state` is a JSON object {output: input}: the output to feed to each state
    input of the next run; `pd.feeds` and `pd.fetches` list the others. `pd.schema` has the type and
    the shape of each state input, and `pd.digest` is a hash of what a state has to fit: names,
    types, shapes and the operators of the step, not their values. A state that is kept between runs
    is kept with this digest, and is stale where the step has another one. `random_seed` is
    int64 [draws, 2], rows of (seed, steps made so far); `random_seed_next` is the next one. By
    default they go on with the session's draws; with `seed` they begin anew, at (seed, 0).
    Variables that are frozen when this is called are constant in the model.
    The model is of `opset`, 13 … 26, by default 21 or that of the newest operator; ExportError
    names the operators that an opset lacks.
    """
    session = session or default_session()
    seed = None if seed is None else checked_seed("export_step", seed)
    if opset is not None:
        check_opset("export_step", opset)
    fetched: Any = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
    steps = list(step) if isinstance(step, (list, tuple)) else [step]
    for s in steps:
        if not isinstance(s, Update):
            raise ExportError(f"export_step: a step is what minimize() returns, not {s!r}")
    updates = _updates(steps)
    graph, _ = build_graph(
        "export_step", fetched, updates, inputs, training=True, portable=portable
    )
    if portable:
        _check_portable(graph)
    graph = _of_opset(graph, opset)
    outputs = [v.name for v in fetched] + [f"{v.name}_next" for v, _ in graph.updates]
    dims = dimension_names(graph, outputs)
    lowered = lower(graph, dims=dims, outputs=outputs, opset=opset)
    model = lowered.model
    state = _state(graph, lowered)
    values = {lowered.names[v]: session.get(v) for v in graph.states}
    if graph.seed is not None:
        name = lowered.names[graph.seed]
        rows = [(session.seed, session.draws[k]) for k in graph.draws]
        rows = rows if seed is None else [(seed, 0)] * len(rows)
        values[name] = np.array(rows, np.int64)
        state |= _add_next_seed(model, graph, name)
    if initial is None:
        model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in values.items())
    else:
        check_and_write(_values_model(values, model), initial, {})
    entries = _metadata(graph, lowered, state) | _schema(model, values)
    return check_and_write(model, path, entries)


def _of_opset(graph, opset):
    """The graph in the operators of an opset, that of the newest operator if None."""
    with fresh_names(), not_recording():
        outputs = without_bodies(graph.outputs, opset)
        if opset is not None:
            outputs = in_forms_of(in_operators_of(outputs, opset), opset, "export_step")
    count = len(graph.fetches)
    kept = [v for v, _ in graph.updates]
    updates = tuple(zip(kept, outputs[count:], strict=True))
    return replace(graph, fetches=tuple(outputs[:count]), updates=updates)


def _updates(steps):
    """(variable, new value) pairs of the steps."""
    changes = changes_of(steps)
    redrawn = [v for v, new in changes.items() if new is None]
    if redrawn:
        raise ExportError(f"export_step: initial values of {redrawn} are drawn on the host")
    return list(changes.items())


def _check_portable(graph):
    for node, why in refused(graph.outputs):
        built = f"\n  node {node.op_type}, built at {site_text(node.site)}" if node.site else ""
        raise ExportError(f"export_step: this step is not portable: {why}{built}")


def _state(graph, lowered):
    """{output: input} of the state that the step reads."""
    outputs = lowered.outputs[len(graph.fetches) :]
    return {
        name: lowered.names[v]
        for (v, _), name in zip(graph.updates, outputs, strict=True)
        if v in lowered.names
    }


def _add_next_seed(model, graph, seed):
    """Add the output of the seed for the next run, one step further; return {output: input}."""
    name = f"{seed}_next"
    one = f"{name}_increment"
    model.graph.initializer.append(numpy_helper.from_array(np.array([[0, 1]], np.int64), one))
    model.graph.node.append(onnx.helper.make_node("Add", [seed, one], [name], name=name))
    model.graph.output.append(_value_info(name, np.zeros(graph.seed.dims, np.int64)))
    return {name: seed}


def _values_model(values, model):
    """A model without inputs that outputs arrays by name, of the versions of another model."""
    stored = [numpy_helper.from_array(a, f"{name}_value") for name, a in values.items()]
    nodes = [
        onnx.helper.make_node("Identity", [tensor.name], [name])
        for name, tensor in zip(values, stored, strict=True)
    ]
    outputs = [_value_info(name, array) for name, array in values.items()]
    graph = onnx.helper.make_graph(nodes, "initial", [], outputs, stored)
    return onnx.helper.make_model(
        graph,
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
    )


def _value_info(name, array):
    element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element_type, array.shape)


def _schema(model, values):
    """The types of the state, and a digest of these and of the operators, as metadata."""
    schema = {name: {"type": a.dtype.name, "shape": list(a.shape)} for name, a in values.items()}
    text = hashlib.sha256(json.dumps(schema).encode())
    for part in (*model.graph.input, *model.graph.output, *model.graph.node):
        text.update(part.SerializeToString(deterministic=True))
    return {"pd.schema": json.dumps(schema), "pd.digest": text.hexdigest()}


def _metadata(graph, lowered, state):
    """The roles of inputs and outputs, as JSON metadata."""
    entries = {
        "pd.state": state,
        "pd.feeds": [lowered.names[v] for v in graph.feeds],
        "pd.fetches": lowered.outputs[: len(graph.fetches)],
    }
    return {key: json.dumps(value) for key, value in entries.items()}
