"""The one-file models of 2017's C library, byte by byte."""

import io
import struct

import numpy as np
import pytest
from google.protobuf import text_format

import pd_v2 as paddle
import pd_v2.as_paddle
from pd_v2 import build
from pd_v2.__main__ import main
from pd_v2.described import merged_model
from pd_v2.described.merged_model import dump_v2_config, merge_v2_model
from pd_v2.formats.proto import ModelConfig, TrainerConfig
from pd_v2.formats.topology_file import TopologyFileError
from pd_v2.inference import Inference
from pd_v2.parameters import Parameters
from pd_v2.topology import Topology

A, L, T = paddle.activation, paddle.layer, paddle.data_type


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


# ---- reading


def merged(config, values=b""):
    content = config.SerializeToString()
    return struct.pack("<q", len(content)) + content + values


def as_trainer(config):
    """What the trainer program of 2017 wrote."""
    trainer = TrainerConfig(model_config=config)
    trainer.opt_config.algorithm, trainer.opt_config.learning_rate = "sgd", 0.1
    return trainer


def tagger():
    """Data of every kind: ids in sequences, in nested sequences and alone, rows."""
    word = L.data(name="word", type=T.integer_value_sequence(9))
    parts = L.data(name="parts", type=T.integer_value_sub_sequence(7))
    user, x = L.data(name="user", type=T.integer_value(5)), L.data(name="x", type=T.dense_vector(2))

    def step(row, whole):
        return L.fc([row, whole, L.memory(name="h", size=3)], 3, name="h")

    level = L.AggregateLevel.TO_SEQUENCE
    rows = L.concat([L.embedding(word, 3), L.pooling(L.embedding(parts, 2), agg_level=level)])
    whole = L.StaticInput(L.concat([L.embedding(user, 2), x]))
    state = L.recurrent_group(step, [rows, whole], name="g")
    return L.crf_decoding(L.fc(state, 4), size=4)


SAMPLES = [
    ([1, 2], [[3], [4, 5, 6]], 4, [0.5, -1.0]),
    ([8], [[0, 1]], 0, [1.0, 2.0]),
]


@pytest.mark.parametrize("form", [lambda config: config, as_trainer], ids=["model", "trainer"])
def test_a_merged_model_is_computed(form, rng):
    out = tagger()
    pool = paddle.parameters.create(out)
    for name in pool:
        pool[name] = rng.standard_normal(pool.get_shape(name))
    expected = paddle.infer(out, pool, SAMPLES, field="id")
    file, tar = io.BytesIO(merged(form(Topology(out).proto()))), io.BytesIO()
    pool.to_tar(tar)
    with build.fresh():
        parameters = Parameters.from_tar(io.BytesIO(tar.getvalue()))
        found = Inference(parameters, fileobj=file).infer(input=SAMPLES, field="id")
    assert found.tolist() == expected.tolist()


def test_a_merged_file_is_exported(net, tmp_path, capsys):
    y, pool = net
    tar, file, out = (str(tmp_path / name) for name in ("p.tar", "model", "y.onnx"))
    pool.to_tar(tar)
    merge_v2_model(y, tar, file)
    capsys.readouterr()
    assert main(["export", "--topology", file, "--parameters", tar, out]) == 0
    assert capsys.readouterr().out == f"{out}: x -> y\n"


def test_data_that_nothing_needs_as_ids_or_sequences_is_rows():
    x = L.data(name="x", type=T.dense_vector(2))
    stored = merged_model.read_merged(merged(Topology(L.fc(x, size=3)).proto()))
    assert stored.data_types == [("x", T.dense_vector(2))] and stored.program is None


@pytest.mark.parametrize("data", [b"", b"\1" * 8, struct.pack("<q", 9) + b"12345678", b"\0" * 9])
def test_what_begins_with_no_length(data):
    assert merged_model.read_merged(data) is None


def test_a_length_before_something_else():
    with pytest.raises(TopologyFileError, match="begins like a merged model, but: "):
        merged_model.read_merged(struct.pack("<q", 3) + b"\xff\xff\xff")


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
