"""The file of `Topology.serialize_for_inference`: a network that can be read without its program.

It is 2017's pickle, {'protobin': ModelConfig, 'data_type': [(name, InputType)]}, with one more
entry: 'onnx' is the computation, an ONNX model whose inputs are the data and the parameters.
"""

import json
import pickle
import pickletools
from contextlib import contextmanager
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError

import pd_core as pd

from ..data_type import InputType
from ..pickles import load
from ..training.layer_outputs import fields_of, variables_of
from .proto import ModelConfig

# Raised while the network of an invalid configuration is built.
_BUILD_ERRORS = (
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError),
)
_MODULE_OF_2017 = "paddle.trainer.PyDataProvider2"


class TopologyFileError(pd.DamagedFile):
    """Raised for a file without a topology, or one whose network cannot be built."""


def write_topology(topology, stream):
    """Pickle the configuration, the data types and the computation of a Topology.

    The computation is left out, as in 2017, where the rows of a table are spread over ranks: who
    reads the file builds it of the configuration, for a table that is whole.
    """
    content = {
        "protobin": topology.proto().SerializeToString(),
        "data_type": topology.data_type(),
    }
    if all(p.table is None for p in topology.parameters):
        content["onnx"] = program_of(topology).SerializeToString()
    getattr(stream, "buffer", stream).write(_as_in_2017(pickle.dumps(content, protocol=2)))


def program_of(topology):
    """Export the outputs as an ONNX model whose parameters are inputs.

    Its metadata map the fields of each layer's output to outputs of the model.
    """
    fields = [fields_of(x) for x in topology.outputs]
    names = [{f: v.name for f, v in each.items() if v is not None} for each in fields]
    targets = variables_of(fields)
    inputs = [*topology.data_inputs(), *(p.variable for p in topology.parameters)]
    metadata = {"pd.fields": json.dumps(names)}
    read = topology.read_by_inference(targets)
    return pd.export_onnx(None, targets, [v for v in inputs if v in read], metadata=metadata)


def _as_in_2017(pickled):
    """Replace the class of the data types in a pickle by its name in 2017."""
    ours, theirs = (f"{module} InputType" for module in (InputType.__module__, _MODULE_OF_2017))
    for opcode, argument, start in pickletools.genops(pickled):
        if opcode.name == "GLOBAL" and argument == ours:
            name = theirs.replace(" ", "\n").encode()
            return pickled[: start + 1] + name + pickled[start + 1 + len(ours) :]
    return pickled


@dataclass
class StoredTopology:
    """The content of a file: the ModelConfig, [(name, InputType)], the model (None in 2017)."""

    config: ModelConfig
    data_types: list
    program: onnx.ModelProto | None
    where: str = "the file"


def read_topology(stream, where="the file"):
    """Read a StoredTopology, or raise TopologyFileError; `where` names the file in errors."""
    try:
        content = load("it", getattr(stream, "buffer", stream).read(), _CLASSES)
        config = ModelConfig.FromString(_bytes(content["protobin"]))
        data_types = [(_name(name), _checked(kind)) for name, kind in content["data_type"]]
        program = onnx.ModelProto.FromString(content["onnx"]) if "onnx" in content else None
    except (DecodeError, LookupError, TypeError, ValueError) as error:
        problem = error if isinstance(error, pd.DamagedFile) else _in_one_line(error)
        raise TopologyFileError(
            f"{where} holds no topology, as Topology.serialize_for_inference writes it: {problem}"
        ) from error
    return StoredTopology(config, data_types, program, where)


@contextmanager
def building(where, passing=()):
    """Convert errors while the network of a file is built to TopologyFileError, with its name."""
    try:
        yield
    except passing:
        raise
    except pd.DamagedFile as error:
        if str(where) in str(error):
            raise
        raise TopologyFileError(f"{where}: {error}") from error
    except _BUILD_ERRORS as error:
        what = "describes no network that can be built"
        raise TopologyFileError(f"{where} {what}: {_in_one_line(error)}") from error


def _in_one_line(error):
    """The type and the message of an error, which ONNX writes in several lines."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _input_type(fields):
    """Return the InputType of {"dim": ..., "seq_type": ..., "type": ...}."""
    return InputType(fields["dim"], fields["seq_type"], fields["type"])


_CLASSES = {
    (module, "InputType"): _input_type for module in (_MODULE_OF_2017, InputType.__module__)
}


def _bytes(text):
    return text.encode("latin1") if isinstance(text, str) else text


def _name(value):
    if not isinstance(value, str):
        raise TypeError(f"a name is a {type(value).__name__}")
    return value


def _checked(kind):
    if not isinstance(kind, InputType):
        raise TypeError(f"{type(kind).__name__} is no InputType")
    return kind
