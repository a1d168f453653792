"""Tars that fit no network, or were made to do harm: a precise error, and nothing has changed."""

import contextlib
import gzip
import io
import os
import re

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.files import unpacking
from pd_v2.formats.parameter_file import ParameterFileError
from pd_v2.parameters import Parameters
from tests.thinned import thinned

from .test_parameter_file import (
    config_bytes,
    forged_size,
    header_of_2017,
    member,
    value_bytes,
)

L, T = paddle.layer, paddle.data_type
VALUES = {"_y.w0": [[0, 1, 2], [3, 4, 5]], "_y.wbias": [[6, 7, 8]]}


@pytest.fixture
def network():
    """x [2] -> y [3]."""
    x = L.data(name="x", type=T.dense_vector(2))
    return L.fc(x, size=3, name="y", act=paddle.activation.Linear())


def checkpoint(replace=None):
    """A tar of 2017 built byte by byte, with some of its members replaced."""
    members = {}
    for name, value in VALUES.items():
        array = np.array(value)
        members[name] = value_bytes(value)
        members[f"{name}.protobuf"] = config_bytes(name, array.size, array.shape)
    members.update(replace or {})
    return b"".join(member(n.encode(), d) for n, d in members.items() if d is not None)


def test_a_checkpoint_of_2017_loads_trains_and_is_written_again(network):
    pool = Parameters.from_tar(io.BytesIO(checkpoint()))
    assert {name: pool[name].tolist() for name in pool} == VALUES
    assert paddle.infer(network, pool, [([1.0, 1.0],)]).tolist() == [[9, 12, 15]]
    cost = L.sum_cost(network)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    trainer.train(lambda: iter([[([1.0, 0.0],)]]))
    assert pool["_y.w0"].tolist() == [-1, 0, 1, 3, 4, 5]


def test_what_is_written_are_the_bytes_of_2017():
    written = io.BytesIO()
    Parameters.from_tar(io.BytesIO(checkpoint())).to_tar(written)
    assert written.getvalue() == checkpoint()


DAMAGED = {
    "truncated": (checkpoint()[:600], "truncated: member '_y.w0' takes 512 bytes, 88 are left"),
    "member renamed": (
        checkpoint({"_y.w0": None, "_z.w0": value_bytes(VALUES["_y.w0"])}),
        "'_y.w0': its configuration is there, the member with its value is not",
    ),
    "configuration renamed": (
        checkpoint({"_y.w0.protobuf": None, "_y.w0.protobuff": b""}),
        "'_y.w0': its value is there, the member with its configuration is not",
    ),
    "value too short": (
        checkpoint({"_y.w0": value_bytes([1, 2, 3])}),
        "parameter '_y.w0': 3 elements in the file, the configuration says 6",
    ),
    "dims and size disagree": (
        checkpoint({"_y.w0.protobuf": config_bytes("_y.w0", 6, [2, 2])}),
        r"parameter '_y.w0': dims \[2, 2\] make 4 elements, size is 6",
    ),
    "float64": (
        checkpoint({"_y.wbias": value_bytes([6, 7, 8], element_bytes=8)}),
        "parameter '_y.wbias': 8 bytes an element, float32 has 4",
    ),
    "another layout": (
        checkpoint({"_y.wbias": value_bytes([6, 7, 8], layout=1)}),
        r"parameter '_y.wbias': format 1 in the header, only 0 \(row-major\) is read",
    ),
    "huge count": (
        checkpoint({"_y.wbias": value_bytes([6], count=2**61)}),
        "'_y.wbias': the header says 2305843009213693952 elements.* 4 bytes follow",
    ),
    "huge member": (
        header_of_2017(b"_y.w0", 8**11 - 1) + bytes(1024),
        "truncated: member '_y.w0' takes 8589934592 bytes, 1024 are left",
    ),
    "huge dims": (
        checkpoint({"_y.w0.protobuf": config_bytes("_y.w0", 6, [2**40, 2**40])}),
        f"parameter '_y.w0': dims .* make {2**80} elements, size is 6",
    ),
    "no configuration": (
        checkpoint({"_y.w0.protobuf": b"\xff" * 8}),
        "member '_y.w0.protobuf' is not a ParameterConfig",
    ),
    "not a tar": (b"PK\3\4" + bytes(1000), "not a tar"),
    "zeros": (bytes(len(checkpoint())), "no parameters: none of the 0 members"),
    "a zeroed header": (
        checkpoint()[:2048] + bytes(512) + checkpoint()[2560:],
        "damaged: the block at byte 2048 is empty, but data follow it",
    ),
    "a link in the place of a value": (
        header_of_2017(b"_y.w0", 0, kind=b"2")
        + member(b"_y.w0.protobuf", config_bytes("_y.w0", 6, [2, 3])),
        "'_y.w0': its configuration is there, the member with its value is not",
    ),
    "a device in the place of a value": (
        header_of_2017(b"_y.w0", 8**9, kind=b"3")
        + member(b"_y.w0.protobuf", config_bytes("_y.w0", 6, [2, 3])),
        "'_y.w0': its configuration is there, the member with its value is not",
    ),
    "negative size": (
        forged_size(b"\xff" * 12) + checkpoint(),
        "member 'w': a size of -1 bytes",
    ),
    "compressed": (gzip.compress(checkpoint()), "compressed\nhint: open it with gzip.open"),
}


@pytest.mark.parametrize(("data", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damage_is_named_and_changes_nothing(network, data, message):
    pool = paddle.parameters.create(network)
    before = {name: pool[name] for name in pool}
    for read in (Parameters.from_tar, pool.init_from_tar):
        with pytest.raises(ValueError, match=message):
            read(io.BytesIO(data))
    assert pool.names() == list(before)
    for name, value in before.items():
        np.testing.assert_array_equal(pool[name], value)


OTHER_SHAPE = {
    "_y.wbias": value_bytes([1, 2]),
    "_y.wbias.protobuf": config_bytes("_y.wbias", 2, [1, 2]),
}


def test_values_of_another_shape_change_nothing(network):
    pool = paddle.parameters.create(network)
    before = pool["_y.w0"]
    data = checkpoint(OTHER_SHAPE)
    with pytest.raises(ValueError, match=r"parameter '_y.wbias' is \(1, 3\), the value \(1, 2\)"):
        pool.init_from_tar(io.BytesIO(data))
    np.testing.assert_array_equal(pool["_y.w0"], before)
    loaded = Parameters.from_tar(io.BytesIO(data))
    with pytest.raises(ValueError, match=r"parameter '_y.wbias' has 2 elements, 3 in the network"):
        paddle.infer(network, loaded, [([1.0, 1.0],)])
    optimizer = paddle.optimizer.Momentum()
    with pytest.raises(ValueError, match=r"parameter '_y.wbias' has 2 elements, 3 in the network"):
        paddle.trainer.SGD(L.sum_cost(network), loaded, optimizer)
    np.testing.assert_array_equal(pool["_y.w0"], before)


def test_as_many_values_in_another_shape_are_not_taken(network):
    """`init_from_tar` compares shapes exactly, as 2017's did."""
    pool = paddle.parameters.create(network)
    before = pool["_y.w0"]
    for dims in ([3, 2], [6]):
        data = checkpoint({"_y.w0.protobuf": config_bytes("_y.w0", 6, dims)})
        message = rf"parameter '_y.w0' is \(2, 3\), the value {re.escape(str(tuple(dims)))}"
        with pytest.raises(ValueError, match=message):
            pool.init_from_tar(io.BytesIO(data))
    np.testing.assert_array_equal(pool["_y.w0"], before)
    assert pool["_y.wbias"].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("byte", [0x00, 0x30, 0x80, 0xFF])
def test_a_changed_byte_is_an_error_or_another_value(byte):
    """Where the checksum of the member is mended as well, members may be missing."""
    data = checkpoint()
    for place in thinned(range(len(data)), 5):
        changed = data[:place] + bytes([byte]) + data[place + 1 :]
        with contextlib.suppress(ParameterFileError):
            assert len(Parameters.from_tar(io.BytesIO(changed)).names()) == 2
        with contextlib.suppress(ParameterFileError, UserWarning):
            Parameters.from_tar(io.BytesIO(with_checksums(changed)))


def with_checksums(data):
    """The same tar, with the checksum of each header computed anew."""
    blocks = [bytearray(data[k : k + 512]) for k in range(0, len(data), 512)]
    for block in blocks:
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            block[148:155] = b"%06o\0" % sum(block)
    return b"".join(blocks)


def test_nothing_is_ever_unpacked(network, tmp_path, monkeypatch):
    """Names that lead elsewhere are names of members, links lead nowhere."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    elsewhere = str(tmp_path / "absolute")
    hostile = b"".join(
        [
            member(b"../outside", b"evil"),
            member(elsewhere.encode(), b"evil"),
            header_of_2017(b"link", 0, kind=b"2"),
            header_of_2017(b"_y.w0", 0, kind=b"1"),
            header_of_2017(b"folder", 0, kind=b"5"),
        ]
    )
    pool = Parameters.from_tar(io.BytesIO(hostile + checkpoint() + hostile))
    assert {name: pool[name].tolist() for name in pool} == VALUES
    named = {"../up": value_bytes([1]), "../up.protobuf": config_bytes("../up", 1, [1, 1])}
    pool = Parameters.from_tar(io.BytesIO(checkpoint(named)))
    assert pool["../up"].tolist() == [[1]]
    assert sorted(os.listdir(tmp_path)) == ["inside"] and os.listdir(inside) == []


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_compressed_tar_of_a_thousand_times_its_size(network, tmp_path, monkeypatch, kind):
    """In a path, and in a file that the script has opened; real values are hard to compress."""
    monkeypatch.setattr(unpacking, "SMALL", 0)
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(checkpoint({"zeros": bytes(1 << 20)})))
    with gzip.open(path) as stream:
        given = path if kind == "file" else stream
        message = r"it unpacks to more than \d+ bytes\n  hint: .*PD_UNPACK_LIMIT"
        with pytest.raises(ParameterFileError, match=message):
            Parameters.from_tar(given)
    monkeypatch.setenv("PD_UNPACK_LIMIT", str(2 << 20))
    assert Parameters.from_tar(path).names() == [*VALUES]
