"""Names of parameters: every legal one survives a tar, the others are refused before a training."""

import io
import os

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import build
from pd_v2.formats.parameter_file import ParameterFileError, write_tar
from pd_v2.formats.proto import ParameterConfig
from pd_v2.recordio.chunks import read_records, write_records
from tests.core.run.test_odd_names import NAMES

REFUSED = [*(name for name in NAMES if "\0" in name), "a.protobuf", ".protobuf"]
HELD = [*(n for n in NAMES if n not in REFUSED), "a" * 99, "a" * 100, "a" * 101, "protobuf"]

MESSAGES = "a name with a NUL|names of configurations|no Unicode text"


def network(names):
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(3))
    return paddle.layer.fc(
        [x] * len(names), size=1, bias_attr=False, param_attr=[named(name) for name in names]
    )


def named(name):
    return paddle.attr.Param(name=name)


def test_every_name_survives_a_tar(tmp_path):
    with build.fresh():
        parameters = paddle.parameters.create(network(HELD))
        parameters.to_tar(str(tmp_path / "tar"))
        read = paddle.parameters.Parameters.from_tar(str(tmp_path / "tar"))
        assert list(read.keys()) == list(parameters.keys()) == HELD
        for name in HELD:
            np.testing.assert_array_equal(read[name], parameters[name], err_msg=ascii(name))


@pytest.mark.parametrize("name", [*REFUSED, "\ud800", "a\udfffb"], ids=ascii)
def test_a_name_that_no_file_holds_is_refused_where_it_is_given(name):
    with build.fresh(), pytest.raises(ValueError, match=MESSAGES):
        network([name])


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"], ids=ascii)
def test_a_layer_of_a_name_that_is_no_text(name):
    dense = paddle.data_type.dense_vector(3)
    with build.fresh(), pytest.raises(ValueError, match="no Unicode text"):
        paddle.layer.data(name=name, type=dense)
    with build.fresh(), pytest.raises(ValueError, match="no Unicode text"):
        paddle.layer.fc(paddle.layer.data(name="x", type=dense), size=1, name=name)


@pytest.mark.parametrize("name", REFUSED)
def test_a_tar_is_not_begun(name):
    f = io.BytesIO()
    items = [(ParameterConfig(name=n, size=1), np.ones(1)) for n in ("a", name)]
    with pytest.raises(ParameterFileError, match=r"a name with a NUL|names of configurations"):
        write_tar(f, items)
    assert not f.getvalue()


def test_the_longest_names_of_files(tmp_path):
    path = str(tmp_path / ("t" * 255))
    with build.fresh():
        parameters = paddle.parameters.create(network(["w"]))
        parameters.to_tar(path)
        assert list(paddle.parameters.Parameters.from_tar(path).keys()) == ["w"]
    write_records(path, [b"a", b"b"])
    assert list(read_records(path)) == [b"a", b"b"]
    assert os.listdir(tmp_path) == ["t" * 255]
