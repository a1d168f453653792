"""Decompression with a size limit, as a file of a megabyte may unpack to a terabyte.

Data that unpack to more than 256 MB and to more than 100 times their size are refused;
PD_UNPACK_LIMIT sets another limit, in bytes.
"""

import gzip
import io
import os
import zlib

from pd_v2.files.limits import limit, raise_hint

SMALL = 256 << 20
RATIO = 100
_PIECE = 1 << 20
_PACKED_PIECE = 1 << 16


class TooLarge(ValueError):
    """Raised for data that unpack to more than the limit."""


def most_unpacked(packed):
    """Return the largest allowed size, in bytes, of `packed` bytes after decompression."""
    return limit("PD_UNPACK_LIMIT", max(SMALL, RATIO * packed))


def require_unpacked(size, packed):
    """Raise TooLarge if `size` bytes are more than may come out of `packed` bytes."""
    if size > (most := most_unpacked(packed)):
        raise TooLarge(f"it unpacks to more than {most} bytes{raise_hint('PD_UNPACK_LIMIT')}")


class Bounded:
    """A stream that reads no more than `packed` bytes may unpack to.

    It is read in pieces, so that a forged length in a file allocates nothing. Without `packed` the
    stream is an uncompressed file, and there is no limit.
    """

    def __init__(self, stream, packed=None):
        self._stream = stream
        self._packed = packed
        self.plain = stream if packed is None else None
        self.name = getattr(stream, "name", None)
        self.tell = stream.tell
        self.close = stream.close

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def read(self, size=-1):
        """Read up to `size` bytes, or all if it is negative."""
        pieces, left = [], float("inf") if size < 0 else size
        while left and (piece := self._stream.read(min(left, _PIECE))):
            pieces.append(piece)
            left -= len(piece)
            self._check(self.tell())
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, position, whence=os.SEEK_SET):
        """Go to a position, relative to the start unless `whence` says otherwise."""
        if whence == os.SEEK_SET:
            self._check(position)
        return self._stream.seek(position, whence)

    def _check(self, position):
        if self._packed is not None:
            require_unpacked(position, self._packed)


def open_plain(path):
    """Open a file for reading, gzipped or not."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    if is_gzip:
        return Bounded(gzip.open(path), os.path.getsize(path))
    return Bounded(open(path, "rb"))


def bounded(stream):
    """Return the stream, with a size limit if it is a GzipFile over a seekable file."""
    if not isinstance(stream, gzip.GzipFile) or not stream.fileobj.seekable():
        return stream
    position = stream.fileobj.tell()
    packed = stream.fileobj.seek(0, os.SEEK_END)
    stream.fileobj.seek(position)
    return Bounded(stream, packed)


def gunzip(content):
    """Decompress the bytes of a gzip file."""
    with Bounded(gzip.GzipFile(fileobj=io.BytesIO(content)), len(content)) as stream:
        return stream.read()


def inflate(content):
    """Decompress a zlib stream."""
    stream, pieces, size = zlib.decompressobj(), [], 0
    for start in range(0, len(content), _PACKED_PIECE):
        packed = content[start : start + _PACKED_PIECE]
        while packed and not stream.eof:
            pieces.append(stream.decompress(packed, _PIECE))
            packed = stream.unconsumed_tail
            size += len(pieces[-1])
            require_unpacked(size, len(content))
    if not stream.eof:
        raise EOFError("the compressed data end too early")
    return b"".join(pieces)
