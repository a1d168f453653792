"""put trained values into a model

VALUES has arrays by the names of the model's parameters: an .npz file with the state of an exported
step, a .safetensors file such as one of adapters, a checkpoint, or a folder of them, of which the
newest is taken. Slots of the optimizer are left out; the nodes of the model stay as they are. The
values of a model that was trained with --lora or --qat need the same options here.
"""

import argparse
import os
from collections.abc import Mapping

import numpy as np

from ..graph.errors import ModelError, ShapeError
from ..graph.variable import Variable
from ..run.session import default_session
from ..storage.tensors import read_tensors
from ..training.checkpoint import is_checkpoint, newest_checkpoint, read_checkpoint
from ..training.tuning.arrays import read_arrays
from ..training.tuning.fake_quantization import FakeQuantization
from ..training.tuning.tuned_file import export_tuned
from .options import adapted, add_adaptation, add_model, model_of

NAME = "export"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument(
        "values", metavar="VALUES", help="an .npz or .safetensors file, or a folder"
    )
    parser.add_argument("-o", required=True, metavar="TUNED", help="the file to write")
    add_adaptation(parser)


def run(options: argparse.Namespace) -> int:
    """Write the model with the values."""
    f = model_of(options)
    adapters = adapted(options, f)
    stored = dict(f.parameters)
    if adapters is not None:
        stored |= {v.name: v for v in adapters.parameters()}
    if isinstance(f.operands, FakeQuantization):
        stored |= {v.name: v for v in f.operands.variables()}
    values = read_values(options.values)
    _check_options(options, values)
    names = set_values(stored, values, options.values)
    export_tuned(options.o, f)
    left = len(values) - len(names)
    print(
        f"{options.o}: {len(names)} of {len(stored)} stored tensors have the values of "
        f"{options.values}, where {left} arrays are something else"
    )
    return 0


def _check_options(options, values):
    """Check that the model was adapted as the one whose values these are."""
    for ending, option, is_given in (
        (".lora_A", "--lora RANK, and --alpha if it was given", options.lora is not None),
        (".range_low", "--qat", options.qat),
    ):
        if not is_given and any(name.endswith(ending) for name in values):
            raise ModelError(f"{options.values} is of a model that was adapted: it needs {option}")


def read_values(path: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of values, or of a checkpoint, by name."""
    if os.path.isdir(path):
        return _checkpoint_values(path)
    return read_tensors(path)[0] if path.endswith(".safetensors") else read_arrays(path)


def _checkpoint_values(path):
    """Return the values of a checkpoint, or of the newest one in a folder."""
    found = (path, read_checkpoint(path)) if is_checkpoint(path) else newest_checkpoint(path)
    if found is None:
        raise ModelError(f"there is no checkpoint in {path}")
    values: dict[str, np.ndarray] = found[1].parts.get("Device", {}).get("values", {})
    return values


def set_values(
    stored: Mapping[str, Variable], values: Mapping[str, np.ndarray], origin: str
) -> list[str]:
    """Set the stored tensors that have a value of their name; return their names.

    ModelError if none has one, ShapeError for another shape.
    """
    names = [name for name in stored if name in values]
    if not names:
        listed = ", ".join([*values][:4])
        raise ModelError(f"{origin} has no value for a parameter of the model; it has {listed}")
    for name in names:
        if values[name].shape != stored[name].dims:
            raise ShapeError(f"{origin}: {name!r} is {values[name].shape}, not {stored[name]!r}")
    for name in names:
        default_session().set(stored[name], values[name])
    return names
