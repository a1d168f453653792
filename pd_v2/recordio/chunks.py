"""RecordIO files: chunks of records, compressed and with a checksum.

A chunk is five little-endian uint32 (magic, crc32 of the payload, compressor, payload bytes, number
of records) and the payload. Decompressed, that is a uint32 length and the bytes of each record.
"""

import contextlib
import gzip
import itertools
import struct
import zlib

from pd_core import DamagedFile
from pd_v2.files.unpacking import gunzip
from pd_v2.recordio.snappy import unpack_stream
from pd_v2.recordio.storage import opened, written

_HEADER = struct.Struct("<5I")
_LENGTH = struct.Struct("<I")
_MAGIC = 0x01020304
_GZIP = 2
_UNPACK = {0: bytes, 1: unpack_stream, _GZIP: gunzip}
_RECORDS_PER_CHUNK = 1000


def read_records(path):
    """Yield the records of a file as bytes; DamagedFile if the file is damaged."""
    for offset in chunk_offsets(path):
        yield from read_chunk(path, offset)


def chunk_offsets(path):
    """Yield the offset of each chunk of a file."""
    start = 0
    with opened(path) as file:
        while start < file.size:
            yield start
            with _naming_chunk(path, start):
                _, _, payload_bytes, _ = _header(file, start)
            start += _HEADER.size + payload_bytes


def read_chunk(path, offset):
    """Return an iterator over the records of the chunk at an offset."""
    with opened(path) as file, _naming_chunk(path, offset):
        return _records(*_payload(file, offset))


def write_records(path, records):
    """Write bytes records to a file, in chunks compressed with gzip."""
    records = iter(records)
    with written(path) as file:
        while chunk := list(itertools.islice(records, _RECORDS_PER_CHUNK)):
            plain = b"".join(_LENGTH.pack(len(record)) + record for record in chunk)
            payload = gzip.compress(plain, mtime=0)
            crc = zlib.crc32(payload)
            file.write(_HEADER.pack(_MAGIC, crc, _GZIP, len(payload), len(chunk)))
            file.write(payload)


@contextlib.contextmanager
def _naming_chunk(path, offset):
    """Convert errors to DamagedFile, with the file and the chunk."""
    try:
        yield
    except (ValueError, OSError, EOFError, struct.error, zlib.error) as error:
        if getattr(error, "errno", None):  # the file cannot be read at all
            raise
        raise DamagedFile(f"recordio: {path}, chunk at byte {offset}: {error}") from error


def _header(file, offset):
    """Read the header of a chunk: checksum, compressor, payload bytes, number of records."""
    magic, *rest = _HEADER.unpack(file.read(offset, _HEADER.size))
    if magic != _MAGIC:
        raise ValueError(f"no RecordIO chunk: it starts with {magic:#010x}, not {_MAGIC:#010x}")
    return rest


def _payload(file, offset):
    """Read and decompress the payload of a chunk; return it and the number of records."""
    crc, compressor, size, count = _header(file, offset)
    if compressor not in _UNPACK:
        raise ValueError(f"compressor {compressor} is unknown")
    start = offset + _HEADER.size
    if file.size - start < size:
        raise ValueError(f"the file ends after {file.size - start} of {size} bytes")
    payload = file.read(start, size)
    if zlib.crc32(payload) != crc:
        raise ValueError(f"the checksum is {zlib.crc32(payload):#010x}, announced {crc:#010x}")
    return _UNPACK[compressor](payload), count


def _records(plain, count):
    """Check the lengths of the records in a decompressed payload; return an iterator over them."""
    number, end = 0, 0
    for number, (_, end) in enumerate(_spans(plain), 1):  # noqa: B007
        pass
    if end > len(plain) or number != count:
        raise ValueError(f"{number} records in {len(plain)} bytes, announced {count}")
    return (plain[start:end] for start, end in _spans(plain))


def _spans(plain):
    """Yield (start, end) of each record; the last end may be beyond the payload."""
    end = 0
    while end < len(plain):
        (length,) = _LENGTH.unpack_from(plain, end)
        start = end + _LENGTH.size
        end = start + length
        yield start, end
