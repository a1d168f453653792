"""put trained values into a model

VALUES has arrays by the names of the model's parameters: an .npz file with the state of an exported
step, a .safetensors file, or a checkpoint folder of a Runner. Its slots of the optimizer are left
out; the nodes of the model stay as they are.
"""

import argparse
import os
from collections.abc import Mapping

import numpy as np

from ...files.tensors import read_tensors
from ...graph.errors import ModelError, ShapeError
from ...importing import ImportedModel
from ...run.session import default_session
from ..arrays import read_arrays
from ..tuned_file import export_tuned
from .options import add_model, model_of

NAME = "export"
_TENSORS = "tensors.safetensors"  # in the folder of a checkpoint


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument(
        "values", metavar="VALUES", help="an .npz or .safetensors file, or a folder"
    )
    parser.add_argument("-o", required=True, metavar="TUNED", help="the file to write")


def run(options: argparse.Namespace) -> int:
    """Write the model with the values."""
    f = model_of(options)
    values = read_values(options.values)
    stored = set_values(f, values, options.values)
    export_tuned(options.o, f)
    left = len(values) - stored
    print(
        f"{options.o}: {stored} of {len(f.parameters)} parameters have the values of "
        f"{options.values}, where {left} arrays are something else"
    )
    return 0


def read_values(path: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of values, or of a checkpoint, by name."""
    if os.path.isdir(path):
        path = os.path.join(path, _TENSORS)
    return read_tensors(path)[0] if path.endswith(".safetensors") else read_arrays(path)


def set_values(f: ImportedModel, values: Mapping[str, np.ndarray], origin: str) -> int:
    """Set the parameters of a model that have a value of their name; return their number.

    ModelError if none has one, ShapeError for another shape.
    """
    names = [name for name in f.parameters if name in values]
    if not names:
        raise ModelError(
            f"{origin} has no value for a parameter of {f.origin}; it has "
            f"{', '.join([*values][:4])}"
        )
    for name in names:
        if values[name].shape != f.parameters[name].dims:
            raise ShapeError(
                f"{origin}: {name!r} is {values[name].shape}, not {f.parameters[name]!r}"
            )
    for name in names:
        default_session().set(f.parameters[name], values[name])
    return len(names)
