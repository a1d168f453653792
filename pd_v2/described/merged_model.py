"""Files of 2017's C library: a network with its parameters, or its configuration alone."""

import struct

from google.protobuf import text_format
from google.protobuf.message import DecodeError

import pd_core as pd

from ..formats.parameter_file import write_value
from ..formats.proto import ModelConfig, TrainerConfig
from ..formats.topology_file import StoredTopology, TopologyFileError, building
from ..parameters import Parameters
from ..topology import Topology, parse_network
from . import UnknownLayer, data_types_of

_LENGTH = struct.Struct("<q")


def merge_v2_model(net, param_file, output_file):
    """Merge the network of one output layer and a tar of parameters, gzipped or not, into one file.

    The file is the length of the ModelConfig as an int64, the ModelConfig, then the value of each
    of its parameters in their order, in the format of `Parameters.serialize`.
    """
    topology = Topology(net)
    if len(topology.outputs) != 1 or isinstance(net, (list, tuple)):
        raise ValueError(f"merge_v2_model: net is one output layer, not {net!r}")
    parameters = Parameters.from_tar(param_file)
    values = parameters.values_to_write(topology.parameters)
    config = topology.proto().SerializeToString()
    with pd.atomic_write(output_file) as f:
        f.write(_LENGTH.pack(len(config)) + config)
        for value in values:
            write_value(f, value)
    print(f"Generate  {output_file}  success!")


def read_merged(data, where="the file"):
    """Parse the bytes of a merged model to a StoredTopology; None if they begin with no length.

    `paddle train` wrote a TrainerConfig in place of the ModelConfig. The values are not read. The
    data types are inferred from the layers that consume the data.
    """
    start = _LENGTH.size
    length = _LENGTH.unpack_from(data)[0] if len(data) > start else 0
    if not 0 < length <= len(data) - start:
        return None
    config = _config(data[start : start + length], where)
    try:
        with building(where, (UnknownLayer,)):
            return StoredTopology(config, data_types_of(config), None, where)
    except UnknownLayer as error:
        raise UnknownLayer(f"{where}: {error}") from error


def _config(data, where):
    try:
        return TrainerConfig.FromString(data).model_config
    except DecodeError:
        pass
    try:
        return ModelConfig.FromString(data)
    except DecodeError as error:
        raise TopologyFileError(f"{where} begins like a merged model, but: {error}") from error


def dump_v2_config(topology, save_path, binary=False):
    """Write the ModelConfig of some output layers, as protobuf text or binary."""
    config = parse_network(topology)
    text = config.SerializeToString() if binary else text_format.MessageToString(config).encode()
    with pd.atomic_write(save_path) as f:
        f.write(text)
