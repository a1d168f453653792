"""TensorBoard event files, read record by record.

A file is a sequence of TFRecords: the length of the data as uint64, the masked CRC-32C of these
eight bytes, the data, their masked CRC-32C, all little-endian. The data are an `Event` message
(`tensorboardX.proto.event_pb2`).
"""

import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

_HEADER, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
_LONGEST_RECORD = 1 << 28  # bytes; a curve or histogram is far below, images may be larger
_MARK = ".tfevents."


def find_event_files(folder: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Return {folder: paths of its event files} for a folder and all below.

    Files are in the order in which they were written, which their names begin with. Links to
    folders are followed once: one that leads to a folder above it adds nothing.
    """
    files: dict[str, list[str]] = {}
    seen: set[str] = set()
    for inner, folders, names in os.walk(os.fspath(folder), followlinks=True, onerror=_raise):
        real = os.path.realpath(inner)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        found = sorted(name for name in names if _MARK in name)
        if found:
            files[inner] = [os.path.join(inner, name) for name in found]
    return files


def _raise(error):
    raise error


def read_events(path: str | os.PathLike, damaged: Callable[[str], Any]) -> Iterator[Any]:
    """Yield the Event messages of a file; call `damaged(message)` for what cannot be read.

    A record that ends early is that of a training which was killed, or still runs: it is ignored.
    After a length whose checksum is wrong, the rest of the file is left out.
    """
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.event_pb2 import Event

    with open(path, "rb") as file:
        for offset, data in _records(file, lambda text: damaged(f"{os.fspath(path)}: {text}")):
            try:
                yield Event.FromString(data)
            except DecodeError:
                damaged(f"{os.fspath(path)}: the record at byte {offset} is no event")


def _records(file: BinaryIO, damaged: Callable[[str], Any]) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, data) of records with right checksums."""
    from tensorboardX.record_writer import masked_crc32c

    size = os.fstat(file.fileno()).st_size
    offset = 0
    while len(header := file.read(_HEADER.size)) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        if masked_crc32c(header[:8]) != checksum:
            left = size - offset
            damaged(f"the length at byte {offset} is damaged, {left} bytes from there are left out")
            return
        end = offset + _HEADER.size + length + _CHECKSUM.size
        if end > size:
            return
        if length > _LONGEST_RECORD:
            damaged(f"the record at byte {offset} is left out, it has {length} bytes")
            file.seek(end)
        else:
            data, trailer = file.read(length), file.read(_CHECKSUM.size)
            if len(trailer) < _CHECKSUM.size:
                return
            if masked_crc32c(data) == _CHECKSUM.unpack(trailer)[0]:
                yield offset, data
            else:
                damaged(f"the checksum of the record at byte {offset} is wrong")
        offset = end
