"""Export of a whole training step: forward, backward and optimizer as one standard ONNX model."""

import json

import numpy as np
import onnx
from onnx import numpy_helper

from .backend.lowering import lower
from .errors import ExportError
from .node import Update
from .onnx_io import dimension_names, exported_graph, finished
from .session import default_session
from .step import changes_of


def export_step(path, step, fetches=(), inputs=None, session=None) -> onnx.ModelProto:
    """Write a training step as one ONNX model (ai.onnx only), and return it.

    Its inputs are the feeds, then the stored state: parameters, optimizer slots, and `random_seed`
    where the step draws random numbers; its outputs are the fetches, then the new state. Every
    state input has the session's value as its default, so that the first run needs feeds alone.
    The metadata entry `pd.state` is a JSON object {output: input} that says which output feeds
    which input of the next run; `pd.feeds` and `pd.fetches` list the others. `random_seed` is
    int64 [draws, 2], rows of (seed, steps made so far); `random_seed_next` is the next one.
    What is frozen when this is called stays as it is in the model.
    """
    session = session or default_session()
    fetches = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
    steps = list(step) if isinstance(step, (list, tuple)) else [step]
    for s in steps:
        if not isinstance(s, Update):
            raise ExportError(f"export_step: a step is what minimize() returns, not {s!r}")
    updates = _updates(steps)
    graph, _ = exported_graph("export_step", fetches, updates, inputs, training=True)
    values = {v: session.get(v) for v in graph.states}
    lowered = lower(graph, dims=dimension_names(graph), fetches=[v.name for v in fetches])
    model = lowered.model
    state = _state(graph, lowered)
    model.graph.initializer.extend(
        numpy_helper.from_array(values[v], lowered.names[v]) for v in graph.states
    )
    if graph.seed is not None:
        state |= _counted(model, graph, lowered, session)
    return finished(model, path, _described(graph, lowered, state))


def _updates(steps):
    """(variable, new value) pairs of the steps."""
    changes = changes_of(steps)
    redrawn = [v for v, new in changes.items() if new is None]
    if redrawn:
        raise ExportError(f"export_step: initial values of {redrawn} are drawn on the host")
    return list(changes.items())


def _state(graph, lowered):
    """{output: input} of the state that the step reads."""
    outputs = lowered.outputs[len(graph.fetches) :]
    return {
        name: lowered.names[v]
        for (v, _), name in zip(graph.updates, outputs, strict=True)
        if v in lowered.names
    }


def _counted(model, graph, lowered, session):
    """The seed for the next run: the same rows, one step further."""
    seed, name = lowered.names[graph.seed], f"{lowered.names[graph.seed]}_next"
    start = np.array([[session.seed, session.draws[k]] for k in graph.draws], np.int64)
    model.graph.initializer.append(numpy_helper.from_array(start, seed))
    one = f"{name}_increment"
    model.graph.initializer.append(numpy_helper.from_array(np.array([[0, 1]], np.int64), one))
    model.graph.node.append(onnx.helper.make_node("Add", [seed, one], [name], name=name))
    shape = list(graph.seed.dims)
    info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, shape)
    model.graph.output.append(info)
    return {name: seed}


def _described(graph, lowered, state):
    """The metadata that says what is what, as JSON."""
    entries = {
        "pd.state": state,
        "pd.feeds": [lowered.names[v] for v in graph.feeds],
        "pd.fetches": lowered.outputs[: len(graph.fetches)],
    }
    return {key: json.dumps(value) for key, value in entries.items()}
