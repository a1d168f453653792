"""Reports of `info --memory` and `info --operators`, on training on a device."""

import argparse
import json
import math
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import onnx

from ..backend.memory import UnknownSize, run_memory
from ..graph.errors import ExportError, ModelError
from ..onnx.exporting.training_export import export_step
from ..storage.atomic import atomic_write
from ..training.tuning.artifacts import training_step
from .options import prepared

ONNX = "ai.onnx"  # the domain that files call ""
_TOLERANCE = "kernels' scratch memory and the runtime itself come on top"


def size(text: str) -> tuple[str, int]:
    """Convert a value of --size, such as T=128."""
    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or not int(number):
        raise argparse.ArgumentTypeError(
            f"a name and a positive integer, such as T=128, not {text}"
        )
    return name, int(number)


def is_step(path: str) -> bool:
    """Return whether a file is a step of `export_step`."""
    with open(path, "rb") as file:
        data = file.read()
    return b"pd.schema" in data and "pd.schema" in _metadata(onnx.load_from_string(data))


def _metadata(model):
    return {entry.key: entry.value for entry in model.metadata_props}


def print_memory(options: argparse.Namespace) -> None:
    """Print what training a model takes: in a step that is made for it, or the step that it is."""
    if is_step(options.model):
        step = onnx.load(options.model)
        rows = [*_state_rows(step), *_run_rows(step, options)]
        _print_rows(f"memory of this step, batch {options.batch}, in bytes", rows)
        return
    _, _, task, optimizer = prepared(options)
    update = training_step(task, optimizer)
    inputs = [*task.inputs.values(), task.label]
    with tempfile.TemporaryDirectory() as folder:
        path, initial = (os.path.join(folder, name) for name in ("step.onnx", "initial.onnx"))
        step = export_step(path, update, [task.cost], inputs, initial=initial)
        files: list[tuple[str, int | None, str]] = [
            ("step.onnx", os.path.getsize(path), "without the state")
        ]
        try:
            export_step(path, update, [task.cost], inputs, initial=initial, portable=True)
            files.append(("step.onnx, portable", os.path.getsize(path), "for WebGPU, too"))
        except ExportError as error:
            files.append(("step.onnx, portable", None, str(error).partition("\n")[0]))
        files.append(("initial.onnx", os.path.getsize(initial), "the state at first"))
    trained = [v.name for v in task.parameters()]
    others = [v.name for v in task.state() if not v.trainable]
    rows = [*_state_rows(step, trained, others), *_run_rows(step, options), *files]
    _print_rows(f"memory of a step, {options.optimizer}, batch {options.batch}, in bytes", rows)


def _print_rows(title, rows):
    print(f"\n{title}")
    names = max(len(name) for name, _, _ in rows)
    for name, count, text in rows:
        number = "-" if count is None else f"{count:,}"
        print(f"  {name.ljust(names)}  {number.rjust(15)}  {text}".rstrip())


def _state_rows(step, trained=(), others=()):
    """The state of a step, of which some are known to be parameters, and others of the model."""
    entries = _metadata(step)
    changing = set(json.loads(entries["pd.state"]).values())
    schema = json.loads(entries["pd.schema"])
    sizes = {n: math.prod(s["shape"]) * np.dtype(s["type"]).itemsize for n, s in schema.items()}

    def total(names):
        return sum(sizes[n] for n in names if n in sizes)

    if trained:
        frozen = [n for n in others if n not in changing]
        moving = [n for n in others if n in changing]
        yield "parameters", total(trained), "trained"
        if frozen:
            yield "frozen", total(frozen), "parameters and statistics that do not change"
        if moving:
            yield "statistics", total(moving), "of the model, which a step changes"
        rest = sizes.keys() - {*trained, *others}
        yield "optimizer", total(rest), "slots, learning rate, random seed"
    yield "state", sum(sizes.values()), "all that is kept between runs, and saved"


def _run_rows(step, options):
    """Memory of a run besides the state."""
    try:
        memory = run_memory(step, options.batch, dict(options.size))
    except UnknownSize as error:
        raise ModelError(f"{options.model}: {error}\n  hint: --size NAME=N gives one") from None
    state = json.loads(_metadata(step)["pd.schema"])
    feeds = sum(count for name, count in memory.inputs.items() if name not in state)
    held = sum(memory.inputs.values()) - feeds
    text = "values between the operators and the next state, at the worst operator"
    if memory.unknown:
        text += f"; not in it are {memory.unknown} values of unknown size"
    yield "feeds", feeds, "the batch"
    yield "constants", memory.constants, "stored in the step"
    yield "peak of a run", memory.peak, text
    total = held + feeds + memory.constants + memory.peak
    yield "in all", total, f"state, feeds, constants and peak; {_TOLERANCE}"


def write_operators(options: argparse.Namespace) -> None:
    """Write which operators a file needs, as a configuration of a reduced build."""
    model = onnx.load(options.model, load_external_data=False)
    versions = {entry.domain or ONNX: entry.version for entry in model.opset_import}
    found = operators_of(model)
    lines = [f"{d};{versions.get(d, 1)};{','.join(sorted(found[d]))}\n" for d in sorted(found)]
    with atomic_write(options.operators) as file:
        file.write("".join(lines).encode())
    print(f"{options.operators}: {sum(map(len, found.values()))} operators")


def operators_of(model: onnx.ModelProto) -> dict[str, set[str]]:
    """Return the operators of a model by domain, those of bodies and of its functions included."""
    own = {(function.domain, function.name) for function in model.functions}
    found: dict[str, set[str]] = {}
    for body in (model.graph, *model.functions):
        for node in _nodes(body.node):
            if (node.domain, node.op_type) not in own:
                found.setdefault(node.domain or ONNX, set()).add(node.op_type)
    return found


def _nodes(nodes) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for a in node.attribute:
            for body in [a.g] if a.HasField("g") else a.graphs:
                yield from _nodes(body.node)
