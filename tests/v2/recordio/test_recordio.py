"""RecordIO files, and the Snappy streams inside those of 2017."""

import gzip
import importlib
import pickle
import struct
import sys
import zlib

import numpy as np
import pytest

import pd_core as pd
import pd_v2.as_paddle  # noqa: F401  which finds recordio
from pd_v2.files import unpacking
from pd_v2.reader import creator
from pd_v2.recordio.chunks import read_records, write_records
from pd_v2.recordio.snappy import unpack_block, unpack_stream

# A file that Paddle wrote: two pickled tuples in one uncompressed Snappy frame.
FILE_OF_2017 = bytes.fromhex(
    "04030201 9362159b 01000000 38000000 02000000 ff060000 734e61507059 01 2a0000 585d4c3c"
    + "0f000000"
    + b"(I1\nI2\nI3\ntp1\n.".hex()
    + "0f000000"
    + b"(I4\nI5\nI6\ntp1\n.".hex()
)
# Both made with the original Snappy library.
BLOCK = bytes.fromhex(
    "ab01307061636b206d7920626f782c201d0d0c3b206162fe0200360200f040" + bytes(range(65)).hex()
)
BLOCK_CONTENT = b"pack my box, pack my box; " + b"ab" * 40 + bytes(range(65))
STREAM = bytes.fromhex(
    "ff060000734e61507059003100008e1cb064c601483e0000002849300a286c70300a46312e350a61a606001074"
    "70310a2e09420031ee420005420032ea4200"
)
MAGIC = 0x01020304


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples-00000"


def chunk(payload, compressor=0, count=1, crc=None, size=None, magic=MAGIC):
    crc = zlib.crc32(payload) if crc is None else crc
    size = len(payload) if size is None else size
    return struct.pack("<5I", magic, crc, compressor, size, count) + payload


def record(content):
    return struct.pack("<I", len(content)) + content


def test_a_file_of_2017(path):
    path.write_bytes(FILE_OF_2017)
    for paths in (str(path), [str(path)], f"{path},{path.parent}/samples-*"):
        samples = list(creator.recordio(paths)())
        assert samples[:2] == [(1, 2, 3), (4, 5, 6)]
        assert len(samples) == (4 if "," in paths else 2)


def test_text_of_python_2_becomes_str(path):
    pickled = b"(S'caf\\xe9'\nI1\ntp1\n."
    path.write_bytes(chunk(record(pickled)))
    assert list(creator.recordio(str(path))()) == [("caf\u00e9", 1)]


def test_a_compressed_snappy_stream(path):
    path.write_bytes(chunk(STREAM, compressor=1, count=3))
    assert [pickle.loads(item) for item in read_records(path)] == [(i, [1.5] * 8) for i in range(3)]


@pytest.mark.parametrize(
    ("compressor", "compress"), [(0, bytes), (2, gzip.compress)], ids=["none", "gzip"]
)
def test_other_compressors_and_chunks(path, compressor, compress):
    content = compress(record(b"one") + record(b""))
    path.write_bytes(chunk(content, compressor, 2) + chunk(content, compressor, 2))
    assert list(read_records(path)) == [b"one", b"", b"one", b""]


@pytest.mark.parametrize("count", [0, 1, 1000, 2001])
def test_write_and_read_again(path, count):
    records = [str(i).encode() * (i % 7) for i in range(count)]
    write_records(path, iter(records))
    assert list(read_records(path)) == records


def test_written_chunks_are_gzip_of_1000_records(path):
    write_records(path, [b"x"] * 1001)
    content = path.read_bytes()
    magic, crc, compressor, size, count = struct.unpack("<5I", content[:20])
    assert (magic, compressor, count) == (MAGIC, 2, 1000)
    assert zlib.crc32(content[20 : 20 + size]) == crc
    assert gzip.decompress(content[20 : 20 + size]) == record(b"x") * 1000
    assert struct.unpack("<5I", content[20 + size :][:20])[4] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no RecordIO file at all", "starts with 0x52206f6e, not 0x01020304"),
        (chunk(b"")[:11], "buffer of 20 bytes"),
        (chunk(record(b"ab"), size=99), "the file ends after 6 of 99 bytes"),
        (chunk(record(b"ab"), crc=5), "the checksum is 0x[0-9a-f]{8}, announced 0x00000005"),
        (chunk(record(b"ab"), compressor=7), "compressor 7 is unknown"),
        (chunk(record(b"ab"), compressor=2), "Not a gzipped file"),
        (chunk(record(b"ab"), count=2), "1 records in 6 bytes, announced 2"),
        (chunk(record(b"abc")[:-1]), "1 records in 6 bytes, announced 1"),
        (chunk(STREAM[:-1], compressor=1), "the Snappy stream ends inside a frame"),
        (chunk(b"", size=2**32 - 1), "the file ends after 0 of 4294967295 bytes"),
    ],
)
def test_damage_names_file_and_chunk(path, content, message):
    path.write_bytes(chunk(record(b"good")) + content)
    records = read_records(path)
    assert next(records) == b"good"
    where = "recordio: .*samples-00000, chunk at byte 28: "
    with pytest.raises(pd.DamagedFile, match=f"{where}.*{message}"):
        next(records)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"recordio: no file matches '.*/none'"):
        list(creator.recordio(str(tmp_path / "none"))())


def test_snappy_literals_and_copies():
    assert unpack_block(BLOCK) == BLOCK_CONTENT


def test_snappy_four_byte_offsets():
    content = np.random.default_rng(0).bytes(70000)
    size = bytes([70004 & 127 | 128, 70004 >> 7 & 127 | 128, 70004 >> 14])
    literal = bytes([62 << 2]) + (70000 - 1).to_bytes(3, "little")
    copy = bytes([(4 - 1) << 2 | 3]) + (69999).to_bytes(4, "little")
    assert unpack_block(size + literal + content + copy) == content + content[1:5]


def test_snappy_frames():
    identifier = b"\xff\x06\x00\x00sNaPpY"
    plain = b"\x01\x07\x00\x00" + b"crc!" + b"abc"
    skippable = b"\x80\x02\x00\x00??" + b"\xfe\x01\x00\x00\x00"
    assert unpack_stream(identifier + plain + skippable + plain) == b"abcabc"
    assert unpack_stream(b"") == b""


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"", "ends inside an element"),
        (b"\x80", "ends inside an element"),
        (b"\x05\x10abc", "ends inside an element"),
        (b"\x05\xf4\x01", "ends inside an element"),
        (b"\x05\x00a\x01", "ends inside an element"),
        (b"\x05\x00a", "has 1 bytes, announced 5"),
        (b"\x05\x00a\x01\x02", "a Snappy copy goes 2 bytes back after 1"),
        (b"\x05\x00a\x01\x00", "a Snappy copy goes 0 bytes back after 1"),
        (b"\xff" * 6, "the size of a Snappy block has more than 5 bytes"),
        (b"\x05\x00a" + b"\xfe\x01\x00" * 9, "has 65 bytes, announced 5"),
    ],
)
def test_bad_snappy_blocks(block, message):
    with pytest.raises(ValueError, match=message):
        unpack_block(block)


def test_an_unknown_snappy_frame():
    with pytest.raises(ValueError, match="Snappy frame type 0x02 is unknown"):
        unpack_stream(b"\x02\x00\x00\x00")


def test_records_that_fail_leave_the_file_as_it_was(path):
    write_records(path, [b"old"])

    def records():
        yield from [b"new"] * 2000
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(path, records())
    assert list(read_records(path)) == [b"old"] and list(path.parent.iterdir()) == [path]


def test_a_chunk_that_unpacks_to_a_thousand_times_its_size(path, monkeypatch):
    monkeypatch.setattr(unpacking, "SMALL", 0)
    path.write_bytes(chunk(gzip.compress(bytes(1 << 20)), compressor=2, count=1 << 18))
    with pytest.raises(pd.DamagedFile, match=r"chunk at byte 0: it unpacks to more than"):
        list(read_records(path))


def test_the_package_of_2017(tmp_path, monkeypatch):
    """Records themselves, in files of which some are there when the reader is made."""
    import recordio

    for name, records in {"b": [b"3"], "a": [b"1", "\xe9"]}.items():
        with_records = recordio.writer(str(tmp_path / name))
        for record in records:
            with_records.write(record)
        with_records.close()
    monkeypatch.chdir(tmp_path)
    reader, found = recordio.reader("a,b"), []
    while (record := reader.read()) is not None:
        found.append(record)
    assert found == [b"1", "\xe9".encode(), b"3"]
    reader.close()
    assert reader.read() is None and list(recordio.reader(["b"])) == [b"3"]
    with pytest.raises(FileNotFoundError, match="no file matches 'c\\*'"):
        recordio.reader("c*")


def test_an_installed_recordio_comes_first(tmp_path, monkeypatch):
    (tmp_path / "recordio.py").write_text("who = 'installed'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "recordio", raising=False)
    assert importlib.import_module("recordio").who == "installed"
    monkeypatch.delitem(sys.modules, "recordio")
