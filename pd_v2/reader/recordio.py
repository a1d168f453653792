"""RecordIO files: chunks of records, each chunk compressed and behind a checksum.

A chunk is five little-endian uint32 (magic, crc32 of the payload, compressor, payload bytes,
number of records) and the payload, which unpacked is a uint32 length and the bytes per record.
"""

import contextlib
import gzip
import itertools
import os
import struct
import zlib

from pd_core import atomic_write
from pd_v2.reader.snappy import unpack_stream

_HEADER = struct.Struct("<5I")
_LENGTH = struct.Struct("<I")
_MAGIC = 0x01020304
_GZIP = 2
_UNPACK = {0: bytes, 1: unpack_stream, _GZIP: gzip.decompress}
_RECORDS_PER_CHUNK = 1000


def read_records(path):
    """Yield the records of a file as bytes; ValueError where the file is damaged."""
    for offset in chunk_offsets(path):
        yield from read_chunk(path, offset)


def chunk_offsets(path):
    """Yield where each chunk of a file begins."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        while (start := file.tell()) < size:
            yield start
            with _naming(path, start):
                _, _, payload_bytes, _ = _header(file)
            file.seek(payload_bytes, os.SEEK_CUR)


def read_chunk(path, offset):
    """The records of the chunk that begins at an offset, in a list."""
    with open(path, "rb") as file, _naming(path, offset):
        file.seek(offset)
        return _records(file)


def write_records(path, records):
    """Write bytes records to a file, in chunks compressed with gzip."""
    records = iter(records)
    with atomic_write(path) as file:
        while chunk := list(itertools.islice(records, _RECORDS_PER_CHUNK)):
            plain = b"".join(_LENGTH.pack(len(record)) + record for record in chunk)
            payload = gzip.compress(plain, mtime=0)
            crc = zlib.crc32(payload)
            file.write(_HEADER.pack(_MAGIC, crc, _GZIP, len(payload), len(chunk)))
            file.write(payload)


@contextlib.contextmanager
def _naming(path, offset):
    """Errors inside name the chunk."""
    try:
        yield
    except (ValueError, OSError, EOFError, struct.error, zlib.error) as error:
        raise ValueError(f"recordio: {path}, chunk at byte {offset}: {error}") from error


def _header(file):
    """Checksum, compressor, bytes and number of records of the chunk that begins here."""
    magic, *rest = _HEADER.unpack(file.read(_HEADER.size))
    if magic != _MAGIC:
        raise ValueError(f"no RecordIO chunk: it starts with {magic:#010x}, not {_MAGIC:#010x}")
    return rest


def _records(file):
    crc, compressor, size, count = _header(file)
    if compressor not in _UNPACK:
        raise ValueError(f"compressor {compressor} is unknown")
    payload = file.read(size)
    if len(payload) < size:
        raise ValueError(f"the file ends after {len(payload)} of {size} bytes")
    if zlib.crc32(payload) != crc:
        raise ValueError(f"the checksum is {zlib.crc32(payload):#010x}, announced {crc:#010x}")
    return _cut(_UNPACK[compressor](payload), count)


def _cut(plain, count):
    """The records in an unpacked payload."""
    records, start = [], 0
    while start < len(plain):
        (length,) = _LENGTH.unpack_from(plain, start)
        start += _LENGTH.size + length
        records.append(plain[start - length : start])
    if start > len(plain) or len(records) != count:
        raise ValueError(f"{len(records)} records in {len(plain)} bytes, announced {count}")
    return records
