"""Networks from the file of their topology, without the program that built them."""

import io
import json
import math

import onnx

import pd_core as pd

from .. import build
from ..formats.topology_file import building, program_of, read_topology
from ..layer.data import data
from ..topology import Topology
from ..training.layer_outputs import FIELDS
from . import UnknownLayer, outputs_of
from .merged_model import read_merged


def read_stored(stream):
    """Read a file of `Topology.serialize_for_inference`, or a merged model, as a StoredTopology."""
    content = getattr(stream, "buffer", stream).read()
    name = getattr(stream, "name", None)
    where = name if isinstance(name, str) and name else "the file"
    merged = read_merged(content, where)
    return read_topology(io.BytesIO(content), where) if merged is None else merged


def network_of(stored, parameters):
    """Build the network of a StoredTopology; return (data layers by name, fields of each output).

    The values of `parameters` become constants: ValueError if one is missing or of another size.
    """
    model = model_of(stored, parameters)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    with building(stored.where), build.fresh():
        layers = {name: data(name, kind) for name, kind in stored.data_types}
        imported = pd.import_onnx(model, trainable=False)
        variables = {v.name: v for x in layers.values() for v in x.inputs}
        inputs = {name: variables[name] for name in imported.inputs}
        outputs = imported(**inputs, output=list(imported.outputs))
        by_name = dict(zip(imported.outputs, outputs, strict=True))
        fields = json.loads(metadata["pd.fields"])
        return layers, [{f: by_name.get(each.get(f)) for f in FIELDS} for each in fields]


def model_of(stored, parameters):
    """Return the ONNX model of a StoredTopology, with the values of `parameters`."""
    names = {config.name for config in stored.config.parameters}
    model = onnx.ModelProto()
    with building(stored.where, (UnknownLayer,)):
        model.CopyFrom(stored.program or _described_program(stored))
    inputs = list(model.graph.input)
    del model.graph.input[:]
    missing = [i.name for i in inputs if i.name in names and i.name not in parameters]
    if missing:
        raise ValueError(f"there is no value for the parameters {missing} of {stored.where}")
    for info in inputs:
        if info.name in names:
            tensor = _tensor(info, parameters.get(info.name), stored.where)
            model.graph.initializer.append(tensor)
        else:
            model.graph.input.append(info)
    return model


def _described_program(stored):
    """Build the ONNX program of layers that are only configured, as in a file of 2017."""
    with build.fresh() as whole:
        whole.spreads = False  # its parameters become constants
        try:
            outputs = outputs_of(stored.config, dict(stored.data_types))
        except UnknownLayer as error:
            raise UnknownLayer(
                f"{stored.where} is a topology without its computation, as 2017 wrote it: {error}\n"
                "  hint: build the network in a program, and pass output_layer"
            ) from error
        return program_of(Topology(outputs))


def _tensor(info, value, where):
    """Return the initializer that replaces an input."""
    dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
    if value.size != math.prod(dims) or min(dims, default=0) < 0:
        raise ValueError(
            f"parameter {info.name!r} has {value.size} elements, {math.prod(dims)} in the topology "
            f"of {where}"
        )
    return onnx.numpy_helper.from_array(value.reshape(dims), info.name)
