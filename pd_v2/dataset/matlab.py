"""Numeric arrays in MATLAB files of level 5.

The format is MathWorks' "MAT-File Format": a header of 128 bytes, then elements of a type, a size
and data, padded to 8 bytes; up to 4 bytes of data may share the first 8 with type and size.
"""

import struct
import zlib

import numpy as np

from pd_core import DamagedFile
from pd_v2.files.unpacking import inflate

_HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMERIC_CLASSES = range(6, 16)
_COMPLEX_FLAG = 0x800
# fmt: off
_NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}
# fmt: on


def read_arrays(path):
    """Read {name: array} of the real numeric arrays in a file, with two axes or more."""
    with open(path, "rb") as file:
        content = file.read()
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER_BYTES])
    if order is None:
        raise DamagedFile(f"{path} is no MATLAB file of level 5")
    try:
        return dict(_arrays(content[_HEADER_BYTES:], order))
    except (EOFError, LookupError, ValueError, struct.error, zlib.error) as error:
        raise DamagedFile(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _arrays(content, order, unpack=inflate):
    for kind, data in _elements(content, order):
        if kind == _COMPRESSED:
            yield from _arrays(unpack(data), order, _refuse)
        elif kind == _MATRIX:
            yield from _array(data, order)


def _refuse(data):
    raise ValueError("a compressed element holds a compressed one")


def _elements(content, order):
    """Yield (type, data) of each element."""
    start = 0
    while start < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, start)
        if kind >> 16:
            kind, size, first, end = kind & 0xFFFF, kind >> 16, start + 4, start + 8
        else:
            first = start + 8
            padding = 0 if kind == _COMPRESSED else -size % 8
            end = first + size + padding
        if first + size > len(content):
            raise ValueError(f"an element of {size} bytes begins {len(content) - first} before end")
        yield kind, content[first : first + size]
        start = end


def _array(data, order):
    """Yield (name, value) of a matrix, or nothing if it is not real and numeric."""
    (_, flags), (_, dims), (_, name), *parts = _elements(data, order)
    (flags,) = struct.unpack_from(f"{order}I", flags)
    if flags & 0xFF not in _NUMERIC_CLASSES or flags & _COMPLEX_FLAG:
        return
    kind, numbers = parts[0]
    shape = np.frombuffer(dims, f"{order}i4")
    values = np.frombuffer(numbers, order + _NUMBERS[kind])
    yield name.decode("ascii"), values.reshape(shape, order="F")
