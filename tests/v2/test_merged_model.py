"""The one-file models of 2017's C library, byte by byte."""

import struct

import numpy as np
import pytest
from google.protobuf import text_format

import pd_v2 as paddle
import pd_v2.as_paddle
from pd_v2 import merged_model
from pd_v2.merged_model import dump_v2_config, merge_v2_model
from pd_v2.parameters import Parameters
from pd_v2.proto import ModelConfig
from pd_v2.topology import Topology

L, T = paddle.layer, paddle.data_type


@pytest.fixture
def net():
    """x [2] -> y [3]; with the parameters 0 to 5 and 6 to 8."""
    x = L.data(name="x", type=T.dense_vector(2))
    y = L.fc(x, size=3, name="y")
    pool = paddle.parameters.create(y)
    pool["_y.w0"], pool["_y.wbias"] = np.arange(6.0), np.arange(6.0, 9.0)
    return y, pool


def value_of_2017(values):
    return struct.pack(f"<IIQ{len(values)}f", 0, 4, len(values), *values)


def test_the_bytes_of_a_merged_model(net, tmp_path, capsys):
    y, pool = net
    pool.to_tar(tmp_path / "p.tar")
    out = str(tmp_path / "model")
    merge_v2_model(y, str(tmp_path / "p.tar"), out)
    config = Topology(y).proto().SerializeToString()
    values = value_of_2017(range(6)) + value_of_2017(range(6, 9))
    with open(out, "rb") as f:
        assert f.read() == struct.pack("<q", len(config)) + config + values
    assert capsys.readouterr().out == f"Generate  {out}  success!\n"


def test_a_configuration_as_text_and_in_binary(net, tmp_path):
    y, _ = net
    expected = Topology(y).proto()
    dump_v2_config(y, tmp_path / "binary", binary=True)
    dump_v2_config(y, str(tmp_path / "text"))
    assert ModelConfig.FromString((tmp_path / "binary").read_bytes()) == expected
    text = (tmp_path / "text").read_text()
    assert text.startswith('type: "nn"\nlayers {\n  name: "x"\n')
    assert text_format.Parse(text, ModelConfig()) == expected


def test_the_names_of_2017():
    from paddle.utils.dump_v2_config import dump_v2_config as dump
    from paddle.utils.merge_model import merge_v2_model as merge

    assert pd_v2.as_paddle
    assert dump is merged_model.dump_v2_config and merge is merged_model.merge_v2_model


def test_what_it_refuses(net, tmp_path):
    y, pool = net
    pool.to_tar(tmp_path / "p.tar")
    out = tmp_path / "model"
    with pytest.raises(ValueError, match=r"merge_v2_model: net is one output layer, not \["):
        merge_v2_model([y], tmp_path / "p.tar", out)
    with pytest.raises(FileNotFoundError):
        merge_v2_model(y, tmp_path / "none.tar", out)
    z = L.fc(y, size=1, name="z")
    with pytest.raises(ValueError, match=r"no value for the parameters \['_z.w0', '_z.wbias'\]"):
        merge_v2_model(z, tmp_path / "p.tar", out)
    assert not out.exists() and Parameters.from_tar(tmp_path / "p.tar").names() == pool.names()
