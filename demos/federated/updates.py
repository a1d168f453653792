"""The parameters that are averaged, and validation of the updates of clients."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors import SafetensorError
from safetensors.numpy import load

MODELS = ("step.onnx", "initial.onnx", "predict.onnx")
HEADER_BYTES = 1 << 16  # of an update beside its arrays: names, shapes, metadata, padding
SHOWN = 4  # names in an error
LONGEST_SHOWN = 80  # characters of a name


class Refused(Exception):
    """A request that is refused, with the status of the answer over HTTP."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Averaged:
    """The part of a step's state that is averaged: its digest, and the arrays of the beginning."""

    digest: str
    initial: dict

    @property
    def schema(self):
        """{name: {"type": ..., "shape": [...]}}, as in the metadata `pd.schema` of a step."""
        return {
            name: {"type": a.dtype.name, "shape": list(a.shape)} for name, a in self.initial.items()
        }

    @property
    def most_bytes(self):
        """The size limit of an update, in bytes."""
        names = sum(len(json.dumps(name)) + 200 for name in self.initial)
        return sum(a.nbytes for a in self.initial.values()) + names + HEADER_BYTES

    def check(self, arrays):
        """Refuse arrays of other names, types or shapes, and numbers that are not finite."""
        missing, unknown = self.initial.keys() - arrays.keys(), arrays.keys() - self.initial.keys()
        if missing or unknown:
            wrong = f"lacks {shown(missing)}" if missing else f"has {shown(unknown)}"
            raise Refused(422, f"the update {wrong}; averaged are {shown(self.initial)}")
        for name, ours in self.initial.items():
            theirs = arrays[name]
            if (theirs.dtype, theirs.shape) != (ours.dtype, ours.shape):
                both = [f"{a.dtype.name}{list(a.shape)}" for a in (ours, theirs)]
                raise Refused(422, f"{name} is {both[0]}, and {both[1]} in the update")
            if not np.isfinite(theirs).all():
                raise Refused(422, f"{name} has numbers in the update that are NaN or infinite")

    def read(self, body):
        """Return the arrays of an update from the bytes that a client sent."""
        arrays, entries = decoded(body)
        if entries.get("pd.digest") != self.digest:
            raise Refused(409, "the state is stale: its pd.digest is that of another step")
        self.check(arrays)
        return arrays


def shown(names):
    """A few names as text."""
    names = sorted(name[:LONGEST_SHOWN] for name in names)
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def decoded(body):
    """Return the arrays of a safetensors file by name, and its metadata."""
    try:
        arrays = load(body)
        size = int.from_bytes(body[:8], "little")
        entries = json.loads(body[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refused(400, f"the body is no safetensors file: {str(error)[:200]}") from None
    return arrays, entries


def averaged_of(folder, only=None):
    """Return the Averaged of a folder with MODELS: the inputs of predict.onnx that are state.

    `only` is a regular expression that is searched in their names.
    """
    folder = Path(folder)
    step = onnx.load(folder / "step.onnx", load_external_data=False)
    entries = {e.key: e.value for e in step.metadata_props}
    if "pd.digest" not in entries:
        raise ValueError(f"{folder / 'step.onnx'} is no step of pd.export_step: no pd.digest")
    schema = json.loads(entries["pd.schema"])
    predict = onnx.load(folder / "predict.onnx", load_external_data=False)
    names = [i.name for i in predict.graph.input if i.name in schema]
    names = [name for name in names if only is None or re.search(only, name)]
    if not names:
        raise ValueError(f"{folder}: no input of predict.onnx is part of the state of step.onnx")
    for name in names:
        if not schema[name]["type"].startswith("float"):
            raise ValueError(f"{folder}: {name} is {schema[name]['type']}, of which is no average")
    session = onnxruntime.InferenceSession(folder / "initial.onnx")
    values = session.run(names, {})
    return Averaged(entries["pd.digest"], dict(zip(names, values, strict=True)))


def norm(arrays):
    """The L2 norm of all numbers of several arrays together."""
    return math.sqrt(sum(float(np.square(a, dtype=np.float64).sum()) for a in arrays))
