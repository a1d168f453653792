"""The parameter files of 2017, compared byte by byte and broken in every way."""

import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np
import pytest

from pd_v2.formats.parameter_file import (
    ParameterFileError,
    _header_block,
    read_tar,
    read_value,
    write_tar,
    write_value,
)
from pd_v2.formats.proto import ParameterConfig

HEADER = struct.Struct("<IIQ")


def header_of_2017(name, size, kind=b"0", mode=b"0000644"):
    """A block as the tarfile of Python 2.7 wrote it, field by field."""
    fields = [
        name.ljust(100, b"\0"),
        mode + b"\0",
        b"0000000\0",  # uid
        b"0000000\0",  # gid
        b"%011o\0" % size,
        b"00000000000\0",  # mtime
        b"        ",  # checksum, blank while it is computed
        kind,
        bytes(100),  # link name
        b"ustar  \0",
        bytes(32),  # user
        bytes(32),  # group
        b"0000000\0",  # device, major
        b"0000000\0",  # device, minor
        bytes(155),
        bytes(12),
    ]
    block = b"".join(fields)
    assert len(block) == 512
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(data):
    return data + bytes(-len(data) % 512)


def member(name, data, kind=b"0"):
    return header_of_2017(name, len(data), kind) + padded(data)


def value_bytes(values, layout=0, element_bytes=4, count=None):
    data = np.asarray(values, "<f4").tobytes()
    return HEADER.pack(layout, element_bytes, len(data) // 4 if count is None else count) + data


def config_bytes(name, size, dims=()):
    return ParameterConfig(name=name, size=size, dims=dims).SerializeToString()


def written(*items):
    file = io.BytesIO()
    write_tar(file, items)
    return file.getvalue()


def read(data):
    return read_tar(io.BytesIO(data))


def parameter(name, values, dims=None):
    values = np.asarray(values, np.float32)
    dims = values.shape if dims is None else dims
    return ParameterConfig(name=name, size=values.size, dims=dims), values


W = parameter("_fc.w0", [[1, 2, 3], [4, 5, 6]])
B = parameter("_fc.wbias", [[7, 8, 9]])
W_MEMBERS = (
    member(b"_fc.w0", value_bytes(W[1])),
    member(b"_fc.w0.protobuf", W[0].SerializeToString()),
)


def assert_same(found, *items):
    assert [config for config, _ in found] == [config for config, _ in items]
    for (_, value), (_, expected) in zip(found, items, strict=True):
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, expected)


# ---- one value


def test_value_bytes():
    file = io.BytesIO()
    write_value(file, np.array([[1.0, -2.0]]))
    assert file.getvalue() == bytes.fromhex("00000000 04000000 0200000000000000 0000803f 000000c0")


def test_value_in_c_order_whatever_the_memory():
    file = io.BytesIO()
    write_value(file, np.asfortranarray([[1, 2], [3, 4]]))
    assert file.getvalue() == value_bytes([1, 2, 3, 4])


def test_every_second_value():
    file = io.BytesIO()
    write_value(file, np.float32([1, 2, 3, 4])[::2])
    assert file.getvalue() == value_bytes([1, 3])


def test_values_one_after_the_other():
    file = io.BytesIO(value_bytes([1, 2]) + value_bytes([]) + value_bytes([3]) + b"rest")
    assert [read_value(file).tolist() for _ in range(3)] == [[1, 2], [], [3]]
    assert file.read() == b"rest"


def test_a_value_that_was_read_can_be_changed():
    value = read_value(io.BytesIO(value_bytes([1, 2])))
    value[0] = 5
    assert value.tolist() == [5, 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "parameter value: 0 bytes, the header alone has 16"),
        (bytes(15), "parameter value: 15 bytes, the header alone has 16"),
        (value_bytes([1, 2])[:-1], "the header says 2 elements, 8 bytes; 7 bytes follow"),
        (value_bytes([1], count=2**63), "says 9223372036854775808 elements.* 4 bytes follow"),
        (value_bytes([1], layout=1), r"format 1 in the header, only 0 \(row-major\) is read"),
        (value_bytes([1], element_bytes=8), "8 bytes an element, float32 has 4"),
    ],
)
def test_damaged_value(data, message):
    with pytest.raises(ParameterFileError, match=message):
        read_value(io.BytesIO(data))


# ---- the tar


def test_tar_bytes_are_those_of_2017():
    bias_members = (
        member(b"_fc.wbias", value_bytes(B[1])),
        member(b"_fc.wbias.protobuf", B[0].SerializeToString()),
    )
    assert written(W, B) == b"".join(W_MEMBERS + bias_members)


@pytest.mark.parametrize("length", [91, 92, 100])
def test_names_up_to_100_bytes_stand_in_the_header(length):
    name = "n" * length
    item = parameter(name, [[1]])
    data = written(item)
    assert data[:512] == header_of_2017(name.encode(), 20)
    assert_same(read(data), item)


@pytest.mark.parametrize("length", [101, 511, 512])
def test_longer_names_get_a_block_before_the_header(length):
    name = "n" * length
    item = parameter(name, [[1]])
    data = written(item)
    link = header_of_2017(b"././@LongLink", length + 1, kind=b"L", mode=b"0000000")
    start = link + padded(name.encode() + b"\0") + header_of_2017(b"n" * 100, 20)
    assert data[: len(start)] == start
    assert_same(read(data), item)


def test_a_whole_tar_as_python_2_wrote_it():
    """The digest is of a file by the tarfile of Python 2.7.18."""
    names = ["___fc_layer_0__.w0", "a/b.wbias", "n" * 91, "n" * 100, "n" * 101, "n" * 512]
    values = [np.arange(1, 125 * k + 2)[None] for k in range(len(names) + 1)]
    data = written(*map(parameter, [*names, "вес" * 40], values))
    assert len(data) == 31232
    digest = "05be05bb22a06bca25db2d3254f44a78532b4acd93263c0e4bafdaa9fc43937c"
    assert hashlib.sha256(data).hexdigest() == digest


def test_the_largest_size_in_octal():
    assert _header_block(b"w", 8**11 - 1)[124:136] == b"77777777777\0"


@pytest.mark.parametrize("size", [8**11, 2**36])
def test_a_size_beyond_octal(size):
    block = _header_block(b"w", size)
    assert block[124:136] == b"\x80" + size.to_bytes(11, "big")
    assert tarfile.TarInfo.frombuf(block, "utf-8", "strict").size == size


def test_tar_programs_read_what_is_written():
    with tarfile.open(fileobj=io.BytesIO(written(W))) as tar:
        assert tar.getnames() == ["_fc.w0", "_fc.w0.protobuf"]
        assert tar.extractfile("_fc.w0").read() == value_bytes(W[1])


@pytest.mark.parametrize("tail", [b"", bytes(512), bytes(1024), bytes(10240)])
def test_with_and_without_the_end_of_the_archive(tail):
    assert_same(read(written(W, B) + tail), W, B)


@pytest.mark.parametrize(
    "tar_format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]
)
def test_archives_of_other_programs(tar_format):
    long = "group/" + "n" * 90 if tar_format == tarfile.USTAR_FORMAT else "n" * 300
    item = parameter(long, [[1, 2]])
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tar_format) as tar:
        for name, data in [
            (f"{long}.protobuf", item[0].SerializeToString()),
            ("notes.txt", b"not a parameter"),
            (long, value_bytes(item[1])),
        ]:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1.5
            tar.addfile(info, io.BytesIO(data))
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    assert_same(read(file.getvalue()), item)


@pytest.mark.parametrize("field", [{"mtime": 1500000000}, {"uname": "somebody"}])
def test_an_archive_of_a_tar_program_has_an_end(field):
    """Only 2017's own, and those that a script of today writes like it, were never closed."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in [("w", value_bytes([1.0])), ("w.protobuf", config_bytes("w", 1, [1, 1]))]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in field.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    whole = file.getvalue()
    for end in (whole, whole[: 4 * 512 + 512]):
        assert_same(read(end), parameter("w", [[1.0]]))
    with pytest.warns(UserWarning, match="ends at byte 2048 .* may have been cut between two"):
        assert_same(read(whole[: 4 * 512]), parameter("w", [[1.0]]))


def test_values_that_are_no_numbers():
    item = parameter("w", [[np.nan, np.inf, -np.inf, -0.0]])
    assert written(read(written(item))[0]) == written(item)


def test_any_order_of_members_keeps_that_of_the_configurations():
    w_value, w_config = W_MEMBERS
    b_value = member(b"_fc.wbias", value_bytes(B[1]))
    b_config = member(b"_fc.wbias.protobuf", B[0].SerializeToString())
    assert_same(read(b_config + w_value + w_config + b_value), B, W)


def test_the_last_of_two_members_counts():
    changed = W[1] * 2
    again = member(b"_fc.w0", value_bytes(changed))
    assert_same(read(b"".join(W_MEMBERS) + again), (W[0], changed))


def test_a_parameter_without_dims_is_a_row():
    (found,) = read(written(parameter("conv", [1, 2, 3], dims=())))
    assert found[1].shape == (1, 3)


def test_names_beyond_ascii():
    item = parameter("вес" * 30, [[1]])
    assert_same(read(written(item)), item)


def test_text_handles_and_gzip(tmp_path):
    plain, packed = tmp_path / "p.tar", tmp_path / "p.tar.gz"
    with open(plain, "w") as f:
        write_tar(f, [W])
    with open(plain) as f:
        assert_same(read_tar(f), W)
    with gzip.open(packed, "wt") as f:
        write_tar(f, [W])
    with gzip.open(packed) as f:
        assert_same(read_tar(f), W)


def test_text_written_before_stays_before(tmp_path):
    path = tmp_path / "value"
    with open(path, "w") as f:
        f.write("text")
        write_value(f, [1.0])
    assert path.read_bytes() == b"text" + value_bytes([1.0])


class Pipe(io.RawIOBase):
    """A stream that cannot seek and gives little at a time."""

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._data.readinto(memoryview(buffer)[:100])


def test_a_pipe():
    assert_same(read_tar(Pipe(written(W, B))), W, B)


# ---- errors


def test_every_truncation_is_an_error():
    """But for one: after a complete pair nothing tells that another one should follow."""
    data = written(W, B)
    pair = 2048
    assert len(b"".join(W_MEMBERS)) == pair
    for end in range(len(data)):
        if end == pair:
            assert_same(read(data[:end]), W)
        else:
            with pytest.raises(ParameterFileError):
                read(data[:end])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a tar: the file is empty"),
        (bytes(1024), "no parameters: none of the 0 members ends in '.protobuf'"),
        (
            b"".join(W_MEMBERS) + bytes(1024) + W_MEMBERS[0],
            "damaged: the block at byte 2048 is empty, but data follow it",
        ),
        (b"\x80\x02cpickle", "not a tar"),
        (b"x" * 2000, "not a tar"),
        (gzip.compress(written(W)), "compressed\nhint: open it with gzip.open"),
        (written(W)[:700], "truncated: member '_fc.w0' takes 512 bytes, 188 are left"),
        (written(W)[:1100], "truncated: 76 bytes of a 512-byte header are left"),
        (written(W)[:1024] + b"x" * 512, "damaged: no header of a member at byte 1024"),
        (member(b"readme", b"text"), "no parameters: none of the 1 members ends in '.protobuf'"),
        (W_MEMBERS[1], "parameter '_fc.w0': its configuration is there, the member with its value"),
        (
            member(b"w", b"\0\0\0") + member(b"w.protobuf", config_bytes("w", 1)),
            "parameter 'w': 3 bytes, the header alone has 16",
        ),
        (
            member(b"w", value_bytes([1, 2], count=3))
            + member(b"w.protobuf", config_bytes("w", 3)),
            "parameter 'w': the header says 3 elements, 12 bytes; 8 bytes follow",
        ),
        (
            member(b"w", value_bytes([1], count=2**62))
            + member(b"w.protobuf", config_bytes("w", 1)),
            "parameter 'w': the header says 4611686018427387904 elements.* 4 bytes follow",
        ),
        (
            member(b"w", value_bytes([1, 2])) + member(b"w.protobuf", config_bytes("w", 6)),
            "parameter 'w': 2 elements in the file, the configuration says 6",
        ),
        (
            member(b"w", value_bytes([1, 2])) + member(b"w.protobuf", config_bytes("w", 2, [2, 2])),
            r"parameter 'w': dims \[2, 2\] make 4 elements, size is 2",
        ),
        (
            member(b"w", value_bytes([1])) + member(b"w.protobuf", config_bytes("w", 1, [1] * 65)),
            r"parameter 'w': dims \[1, 1.*\]: ",
        ),
        (
            member(b"w", value_bytes([]))
            + member(b"w.protobuf", config_bytes("w", 0, [0, 2**63 - 1])),
            r"parameter 'w': dims \[0, 9223372036854775807\]: ",
        ),
        (
            member(b"w", value_bytes([1], layout=1)) + member(b"w.protobuf", config_bytes("w", 1)),
            "parameter 'w': format 1 in the header",
        ),
        (member(b"w.protobuf", b"\x0a\xff"), "member 'w.protobuf' is not a ParameterConfig"),
        (member(b"w.protobuf", b"\x0a\x01w"), "member 'w.protobuf': the configuration lacks size"),
        (
            b"".join(W_MEMBERS) + member(b"copy.protobuf", W[0].SerializeToString()),
            "parameter '_fc.w0' has two configurations",
        ),
    ],
)
def test_damaged_tar(data, message):
    with pytest.raises(ParameterFileError, match=message):
        read(data)


def forged_size(field):
    block = bytearray(header_of_2017(b"w", 0))
    block[124:136] = field
    block[148:156] = b" " * 8
    block[148:155] = b"%06o\0" % sum(block)
    return bytes(block)


def test_a_forged_member_size_takes_no_memory():
    block = forged_size(b"\x80" + (2**80).to_bytes(11, "big"))
    with pytest.raises(ParameterFileError, match=f"member 'w' takes {2**80} bytes, 100 are left"):
        read(block + bytes(100))


def test_a_negative_member_size():
    with pytest.raises(ParameterFileError, match="member 'w': a size of -1 bytes"):
        read(forged_size(b"\xff" * 12) + bytes(1024))


def test_a_damaged_gzip():
    packed = gzip.compress(written(W, B))
    for damaged in (packed[:-40], packed[:-8] + bytes(8)):
        with (
            gzip.open(io.BytesIO(damaged)) as f,
            pytest.raises(ParameterFileError, match="the compressed file is damaged: "),
        ):
            read_tar(f)


def test_a_value_of_another_size_is_not_written():
    file = io.BytesIO()
    config = ParameterConfig(name="w", size=6)
    with pytest.raises(ParameterFileError, match=r"'w': the value has 4 elements, the config.* 6"):
        write_tar(file, [(config, np.zeros((2, 2)))])
    assert file.getvalue() == b""
