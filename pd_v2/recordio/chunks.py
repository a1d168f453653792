"""RecordIO files: chunks of records, each chunk compressed and behind a checksum.

A chunk is five little-endian uint32 (magic, crc32 of the payload, compressor, payload bytes,
number of records) and the payload, which unpacked is a uint32 length and the bytes per record.
"""

import contextlib
import glob
import gzip
import itertools
import os
import struct
import zlib

from pd_core import DamagedFile, atomic_write
from pd_v2.recordio.snappy import unpack_stream
from pd_v2.unpacking import gunzip

_HEADER = struct.Struct("<5I")
_LENGTH = struct.Struct("<I")
_MAGIC = 0x01020304
_GZIP = 2
_UNPACK = {0: bytes, 1: unpack_stream, _GZIP: gunzip}
_RECORDS_PER_CHUNK = 1000


def matching(who, pattern):
    """The files that match a pattern, in the order of their names; FileNotFoundError for none."""
    names = sorted(glob.glob(pattern))
    if not names:
        raise FileNotFoundError(f"{who}: no file matches {pattern!r}")
    return names


def read_records(path):
    """Yield the records of a file as bytes; DamagedFile where the file is damaged."""
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
    """An iterator over the records of the chunk that begins at an offset."""
    with open(path, "rb") as file, _naming(path, offset):
        file.seek(offset)
        return _cut(*_unpacked(file))


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
        if getattr(error, "errno", None):  # the file cannot be read at all
            raise
        raise DamagedFile(f"recordio: {path}, chunk at byte {offset}: {error}") from error


def _header(file):
    """Checksum, compressor, bytes and number of records of the chunk that begins here."""
    magic, *rest = _HEADER.unpack(file.read(_HEADER.size))
    if magic != _MAGIC:
        raise ValueError(f"no RecordIO chunk: it starts with {magic:#010x}, not {_MAGIC:#010x}")
    return rest


def _unpacked(file):
    """The records of the chunk that begins here, in one piece, and their number."""
    crc, compressor, size, count = _header(file)
    if compressor not in _UNPACK:
        raise ValueError(f"compressor {compressor} is unknown")
    left = os.fstat(file.fileno()).st_size - file.tell()
    if left < size:
        raise ValueError(f"the file ends after {left} of {size} bytes")
    payload = file.read(size)
    if zlib.crc32(payload) != crc:
        raise ValueError(f"the checksum is {zlib.crc32(payload):#010x}, announced {crc:#010x}")
    return _UNPACK[compressor](payload), count


def _cut(plain, count):
    """An iterator over the records in an unpacked payload, once their lengths fit."""
    found, end = 0, 0
    for found, (_, end) in enumerate(_places(plain), 1):  # noqa: B007
        pass
    if end > len(plain) or found != count:
        raise ValueError(f"{found} records in {len(plain)} bytes, announced {count}")
    return (plain[start:end] for start, end in _places(plain))


def _places(plain):
    """Yield where each record begins and ends, the last one perhaps behind the payload."""
    end = 0
    while end < len(plain):
        (length,) = _LENGTH.unpack_from(plain, end)
        start = end + _LENGTH.size
        end = start + length
        yield start, end
