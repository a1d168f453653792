"""2017's parameter files: a value with its header, and a tar of many.

A tar holds two members for each parameter, in the order of the pool: `name` with the value and
`name.protobuf` with its ParameterConfig. Files are written byte for byte as in 2017; those that are
read may come from any tar program.
"""

import gzip
import io
import math
import os
import re
import struct
import tarfile
import tempfile
import zlib
from contextlib import contextmanager

import numpy as np
from google.protobuf.message import DecodeError

from pd_core import DamagedFile
from pd_v2.files.unpacking import TooLarge, bounded
from pd_v2.formats.proto import ParameterConfig
from pd_v2.warning import warn

_BLOCK = 512
_READ_BYTES = 1 << 20
_HEADER = struct.Struct("<IIQ")  # format (0 = row-major), bytes of an element, elements
_CONFIG_SUFFIX = ".protobuf"

_WITHOUT_DATA = {
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
}


class ParameterFileError(DamagedFile):
    """Raised for a parameter file that is damaged or inconsistent."""


def write_value(f, array):
    """Write one value: the 16-byte header, then float32 little endian in C order.

    What is no array has its `size`, and yields arrays of its elements by `parts()`.
    """
    if hasattr(array, "parts"):
        _write_parts(_byte_writer(f), array)
        return
    values = np.ascontiguousarray(array, "<f4").reshape(-1)
    file = _byte_writer(f)
    file.write(_HEADER.pack(0, 4, values.size))
    file.write(values.view(np.uint8).data)


def _write_parts(file, value):
    """Write one value that has `parts`, arrays of its elements in their order."""
    file.write(_HEADER.pack(0, 4, value.size))
    for part in value.parts():
        file.write(np.ascontiguousarray(part, "<f4").reshape(-1).view(np.uint8).data)


def read_value(f):
    """Read one value as a 1-D float32 array; what follows it in the file stays unread."""
    with _naming_file(f):
        file = bounded(_byte_stream(f))
        header = _read(file, _HEADER.size)
        count = _element_count(header, "parameter value")
        return _elements(header + _read(file, 4 * count), "parameter value")


def write_tar(f, items):
    """Write (ParameterConfig, array) pairs as an uncompressed tar.

    What is no array is as in `write_value`. As in 2017 the two empty blocks at the end of a tar are
    missing: it never closed its archive. ParameterFileError, and nothing is written, for names that
    the members of a tar cannot have.
    """
    items = list(items)
    for config, _ in items:
        check_name(config.name)
    file = _byte_writer(f)
    for config, array in items:
        size = array.size if hasattr(array, "parts") else np.size(array)
        if size != config.size:
            raise ParameterFileError(
                f"parameter {config.name!r}: the value has {size} elements, "
                f"the configuration says {config.size}"
            )
        data = config.SerializeToString()
        value_bytes = _HEADER.size + 4 * size
        file.write(_member_header(config.name, value_bytes))
        write_value(file, array)
        file.write(bytes(-value_bytes % _BLOCK))
        file.write(_member_header(config.name + _CONFIG_SUFFIX, len(data)) + _padded(data))


def check_name(name):
    """Check that the members of a tar can have the name of a parameter: ParameterFileError."""
    if "\0" in name:
        raise ParameterFileError(f"parameter {name!r}: no member of a tar has a name with a NUL")
    if name.endswith(_CONFIG_SUFFIX):
        raise ParameterFileError(
            f"parameter {name!r}: in a tar {_CONFIG_SUFFIX!r} is the end of the names of "
            "configurations, and of no parameter"
        )


def read_tar(f, largest=None):
    """Read a tar as a list of (ParameterConfig, float32 array of its shape).

    A value of more than `largest` bytes stays in the file, as a FileValue. The order is that of the
    configurations. A parameter without dims has shape (1, size). Of two members with one name the
    last counts, as for every tar program; other members are ignored. ParameterFileError if a value
    or a configuration is missing or damaged.
    """
    with _naming_file(f):
        return _items(dict(_members(bounded(_byte_stream(f)), largest)))


@contextmanager
def _naming_file(f):
    """Prefix errors with the name of the file, if it has one."""
    try:
        yield
    except ParameterFileError as error:
        name = getattr(f, "name", None)
        if not isinstance(name, str) or not name:
            raise
        raise ParameterFileError(f"{name}: {error}") from error


def _items(members):
    configs = {}
    for member, data in members.items():
        if member.endswith(_CONFIG_SUFFIX):
            config = _parsed_config(member, data)
            if config.name in configs:
                raise ParameterFileError(f"parameter {config.name!r} has two configurations")
            configs[config.name] = config
    if not configs:
        raise ParameterFileError(
            f"no parameters: none of the {len(members)} members ends in {_CONFIG_SUFFIX!r}"
        )
    items = [(config, _shaped_value(config, members)) for config in configs.values()]
    for name, data in members.items():
        if name not in configs and _is_value(data):
            raise ParameterFileError(
                f"parameter {name!r}: its value is there, the member with its configuration is not"
            )
    return items


def _byte_stream(f):
    """Return the binary stream of a file: scripts of 2017 open binary files in text mode."""
    return getattr(f, "buffer", f)


def _byte_writer(f):
    if hasattr(f, "buffer"):
        f.flush()
    return _byte_stream(f)


def _read(file, size):
    """Read up to `size` bytes, in pieces: a forged size costs no more memory than the file has."""
    data = bytearray()
    try:
        while len(data) < size:
            piece = file.read(min(size - len(data), _READ_BYTES))
            if not piece:
                break
            data += piece
    except (EOFError, zlib.error, gzip.BadGzipFile, TooLarge) as error:
        raise ParameterFileError(f"the compressed file is damaged: {error}") from error
    return data


# ---- values


class FileValue:
    """The value of a parameter that stays in a file, of which parts are read.

    A plain file is opened once more; what comes from elsewhere, such as a compressed one, is kept
    in a temporary file.
    """

    def __init__(self, file, offset, size):
        self._file, self._offset, self._bytes = file, offset, size
        self._header = self._read_at(0, min(size, _HEADER.size))
        self.size = (size - _HEADER.size) // 4
        self.shape = (self.size,)

    @classmethod
    def taken(cls, stream, size, stored):
        """Return the value of the next `size` bytes of a stream, and how many bytes there were.

        The stream is read on for `stored` bytes.
        """
        plain = getattr(stream, "plain", None) or stream
        if isinstance(getattr(plain, "raw", None), io.FileIO):
            start = plain.tell()
            end = os.fstat(plain.fileno()).st_size
            plain.seek(min(start + stored, end))
            copy = os.fdopen(os.dup(plain.fileno()), "rb", buffering=0)
            return cls(copy, start, size), min(stored, end - start)
        kept, found = tempfile.TemporaryFile(buffering=0), 0  # noqa: SIM115  as long as the value
        while found < stored and (piece := _read(stream, min(stored - found, _READ_BYTES))):
            kept.write(piece)
            found += len(piece)
        return cls(kept, 0, size), found

    def is_value(self):
        """Return whether it begins as a value does."""
        return self._header == _HEADER.pack(0, 4, self.size) and not self._bytes % 4

    def checked(self, who):
        """Return the value itself, after the checks of its header."""
        count = _element_count(self._header, who)
        if self._bytes != _HEADER.size + 4 * count:
            raise ParameterFileError(
                f"{who}: the header says {count} elements, {4 * count} bytes; "
                f"{self._bytes - _HEADER.size} bytes follow"
            )
        return self

    def elements(self, start, stop):
        """Return the elements from `start` to `stop`, a float32 array."""
        data = self._read_at(_HEADER.size + 4 * start, 4 * (stop - start))
        return np.frombuffer(data, "<f4").astype(np.float32, copy=False)

    def parts(self):
        """Yield all elements in their order, some of them at a time."""
        for start in range(0, self.size, _READ_BYTES):
            yield self.elements(start, min(start + _READ_BYTES, self.size))

    def array(self):
        """Return all elements as an array of the shape."""
        found = np.empty(self.size, np.float32)
        for start, part in zip(range(0, self.size, _READ_BYTES), self.parts(), strict=True):
            found[start : start + len(part)] = part
        return found.reshape(self.shape)

    def _read_at(self, position, size):
        data = os.pread(self._file.fileno(), size, self._offset + position)
        while len(data) < size:
            piece = os.pread(
                self._file.fileno(), size - len(data), self._offset + position + len(data)
            )
            if not piece:
                raise ParameterFileError("the file of a parameter has become shorter")
            data += piece
        return data


def _element_count(data, who):
    if len(data) < _HEADER.size:
        raise ParameterFileError(f"{who}: {len(data)} bytes, the header alone has {_HEADER.size}")
    layout, element_bytes, count = _HEADER.unpack_from(data)
    if layout != 0:
        raise ParameterFileError(
            f"{who}: format {layout} in the header, only 0 (row-major) is read"
        )
    if element_bytes != 4:
        raise ParameterFileError(f"{who}: {element_bytes} bytes an element, float32 has 4")
    return count


def _elements(data, who):
    """Parse the float32 array in `data`, which begins with a header."""
    count = _element_count(data, who)
    data_bytes = len(data) - _HEADER.size
    if data_bytes != 4 * count:
        raise ParameterFileError(
            f"{who}: the header says {count} elements, {4 * count} bytes; {data_bytes} bytes follow"
        )
    return np.frombuffer(data, "<f4", offset=_HEADER.size).astype(np.float32, copy=False)


def _is_value(data):
    if isinstance(data, FileValue):
        return data.is_value()
    count = (len(data) - _HEADER.size) // 4
    return count >= 0 and len(data) % 4 == 0 and data.startswith(_HEADER.pack(0, 4, count))


def _parsed_config(member, data):
    config = ParameterConfig()
    try:
        config.ParseFromString(bytes(data))
    except DecodeError as error:
        raise ParameterFileError(f"member {member!r} is not a ParameterConfig: {error}") from error
    if not config.IsInitialized():
        missing = ", ".join(config.FindInitializationErrors())
        raise ParameterFileError(f"member {member!r}: the configuration lacks {missing}")
    return config


def _shaped_value(config, members):
    who = f"parameter {config.name!r}"
    if config.name not in members:
        raise ParameterFileError(
            f"{who}: its configuration is there, the member with its value is not"
        )
    data = members[config.name]
    values = data.checked(who) if isinstance(data, FileValue) else _elements(data, who)
    if values.size != config.size:
        raise ParameterFileError(
            f"{who}: {values.size} elements in the file, the configuration says {config.size}"
        )
    shape = tuple(config.dims) or (1, config.size)
    if math.prod(shape) != config.size:
        raise ParameterFileError(
            f"{who}: dims {list(shape)} make {math.prod(shape)} elements, size is {config.size}"
        )
    if isinstance(values, FileValue):
        values.shape = shape
        return values
    try:
        return values.reshape(shape)
    except ValueError as error:  # too many axes, or a huge one beside an empty one
        raise ParameterFileError(f"{who}: dims {list(shape)}: {error}") from error


# ---- tar members


def _padded(data):
    return data + bytes(-len(data) % _BLOCK)


def _number(value, width):
    """Encode a number as octal digits and a NUL, or in GNU's base 256 where it is too large."""
    if value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return b"\x80" + value.to_bytes(width - 1, "big")


def _header_block(name, size, kind=tarfile.REGTYPE, mode=0o644):
    # Not `tarfile`: since 3.8 it leaves both device numbers of a regular file blank, but the files
    # of 2017, which have to be equal byte for byte, have zeros from the tarfile of Python 2.
    numbers = [_number(mode, 8), _number(0, 8), _number(0, 8), _number(size, 12), _number(0, 12)]
    header = struct.pack(
        "100s8s8s8s12s12s8sc100s8s64x8s8s167x",
        *(name, *numbers, b" " * 8, kind, b"", tarfile.GNU_MAGIC, _number(0, 8), _number(0, 8)),
    )
    return header[:148] + b"%06o\0" % sum(header) + header[155:]


def _member_header(name, size):
    """Return the header of a member, preceded by a long name block if the name needs one."""
    encoded = name.encode("utf-8", "surrogateescape")
    header = _header_block(encoded, size)
    if len(encoded) <= tarfile.LENGTH_NAME:
        return header
    long_name = encoded + b"\0"
    link = _header_block(b"././@LongLink", len(long_name), tarfile.GNUTYPE_LONGNAME, mode=0)
    return link + _padded(long_name) + header


def _members(file, largest=None):
    """Yield (name, data) of each regular file; the empty blocks at the end may be missing.

    Of more than `largest` bytes data are a FileValue.
    """
    position, long_name, is_closed = 0, None, False
    while (block := _read(file, _BLOCK)) and any(block):
        info = _parsed_header(block, position)
        # tar programs write owner and time, and always close an archive; 2017 did neither
        is_closed = is_closed or bool(info.mtime or info.uname)
        size = 0 if info.type in _WITHOUT_DATA else info.size
        stored = size + -size % _BLOCK
        name = long_name or info.name
        if largest is not None and info.isreg() and size > largest:
            data, found = FileValue.taken(file, size, stored)
        else:
            data = _read(file, stored)
            found = len(data)
            del data[size:]
        if found < stored:
            raise ParameterFileError(
                f"truncated: member {name!r} takes {stored} bytes, {found} are left"
            )
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            long_name = _long_name(info.type, bytes(data)) or long_name
        else:
            long_name = None
            if info.isreg():
                yield name, data
        position += _BLOCK + stored
    if position == 0 and not block:
        raise ParameterFileError("not a tar: the file is empty")
    if is_closed and not block:
        warn(
            f"the tar ends at byte {position} without the empty blocks that close an archive: it "
            "may have been cut between two members, and parameters be missing"
        )
    while piece := _read(file, _READ_BYTES):
        if any(piece):
            raise ParameterFileError(
                f"damaged: the block at byte {position} is empty, but data follow it"
            )


def _long_name(kind, data):
    """Parse the name in a GNU or POSIX block that precedes a member; None if it has no name."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        name = data.rstrip(b"\0")
    else:
        match = re.search(rb"(?:\A|\n)\d+ path=(.*)\n", data)
        name = match[1] if match else b""
    return name.decode("utf-8", "surrogateescape") or None


def _parsed_header(block, position):
    if len(block) < _BLOCK and position:
        raise ParameterFileError(
            f"truncated: {len(block)} bytes of a {_BLOCK}-byte header are left"
        )
    if block.startswith(b"\x1f\x8b") and not position:
        raise ParameterFileError("not a tar: the file is compressed\nhint: open it with gzip.open")
    try:
        info = tarfile.TarInfo.frombuf(bytes(block), "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        what = f"damaged: no header of a member at byte {position}" if position else "not a tar"
        raise ParameterFileError(f"{what} ({error})") from error
    if info.size < 0:
        raise ParameterFileError(f"member {info.name!r}: a size of {info.size} bytes")
    return info
