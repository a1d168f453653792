"""Mutants of files: bytes changed anywhere, and changes that know the format."""

import gzip
import io
import json
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable

import numpy as np

Rng = np.random.Generator
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_DEEPEST = 12  # messages in messages of a protobuf file
_RECORDIO = b"\4\3\2\1"


def mutated(rng: Rng, data: bytes) -> tuple[bytes, bool]:
    """Return a mutant, and whether sums of a container were made to fit it."""
    for begins, change in _CONTAINERS:
        if data[: len(begins)] == begins and rng.random() < 0.7:
            try:
                return change(rng, data), True
            except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError, struct.error):
                break
            except zipfile.BadZipFile:
                break
    return _of_content(rng, data), False


def _of_content(rng, data):
    """A mutant that knows JSON, tars and protobuf, or one of any bytes."""
    if rng.random() < 0.5:
        for change in (_json, _tar, _protobuf):
            changed = change(rng, data)
            if changed is not None:
                return changed
    return _bytes(rng, data)


# ---- any bytes


def _bytes(rng, data):
    """One to three places changed."""
    for _ in range(1 + int(rng.integers(3)) * int(rng.random() < 0.3)):
        data = _CHANGES[rng.integers(len(_CHANGES))](rng, data)
    return data


def _place(rng, data):
    """A place: often among the first bytes, where headers are, or the last."""
    if not data:
        return 0
    kind = rng.random()
    if kind < 0.3:
        return int(rng.integers(min(len(data), 64)))
    if kind < 0.4:
        return len(data) - 1 - int(rng.integers(min(len(data), 64)))
    return int(rng.integers(len(data)))


def _flip(rng, data):
    at = _place(rng, data)
    return (
        data[:at]
        + bytes(b ^ (1 << int(rng.integers(8))) for b in data[at : at + 1])
        + data[at + 1 :]
    )


def _set(rng, data):
    at = _place(rng, data)
    return data[:at] + bytes([rng.choice([0, 10, 32, 45, 127, 128, 255])]) + data[at + 1 :]


def _integer(rng, data):
    at, width = _place(rng, data), int(rng.choice([1, 2, 4, 8]))
    value = int(rng.choice(_INTERESTING)) & ((1 << 8 * width) - 1)
    return data[:at] + value.to_bytes(width, rng.choice(["little", "big"])) + data[at + width :]


def _truncate(rng, data):
    return data[: _place(rng, data)]


def _insert(rng, data):
    at = _place(rng, data)
    return data[:at] + rng.bytes(1 + int(rng.integers(8))) + data[at:]


def _repeat(rng, data):
    at = _place(rng, data)
    return (
        data[:at]
        + data[at : at + 1 + int(rng.integers(40))] * int(rng.choice([2, 100]))
        + data[at:]
    )


def _remove(rng, data):
    at = _place(rng, data)
    return data[:at] + data[at + 1 + int(rng.integers(40)) :]


def _splice(rng, data):
    """A piece of the file, written over another place."""
    at, start = _place(rng, data), _place(rng, data)
    piece = data[start : start + 1 + int(rng.integers(200))]
    return data[:at] + piece + data[at + len(piece) :]


_CHANGES: list[Callable[[Rng, bytes], bytes]] = [
    _flip, _set, _integer, _truncate, _insert, _repeat, _remove, _splice,
]  # fmt: skip


# ---- containers, whose content is changed and packed again


def _gzip(rng, data):
    return gzip.compress(_of_content(rng, gzip.decompress(data)), 1, mtime=0)


def _zip(rng, data):
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
        members = old.infolist()
        chosen = int(rng.integers(len(members)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of two members with one name
            for number, member in enumerate(members):
                content = old.read(member)
                if number == chosen:
                    if rng.random() < 0.2:
                        member = zipfile.ZipInfo(
                            rng.choice(["../x", "/x", "", members[0].filename])
                        )
                    content = _of_content(rng, content)
                new.writestr(member, content)
    return packed.getvalue()


def _recordio(rng, data):
    """A chunk with another payload under a right sum, or another count of records."""
    _, _, compressor, size, count = struct.unpack("<5I", data[:20])
    payload, rest = data[20 : 20 + size], data[20 + size :]
    payload, _ = mutated(rng, payload)
    if rng.random() < 0.1:
        count = int(rng.choice(_INTERESTING))
    head = struct.pack("<5I", 0x01020304, zlib.crc32(payload), compressor, len(payload), count)
    return head + payload + rest


_CONTAINERS: list[tuple[bytes, Callable[[Rng, bytes], bytes]]] = [
    (b"\x1f\x8b", _gzip),
    (b"PK\3\4", _zip),
    (_RECORDIO, _recordio),
]


def _tar(rng, data):
    """A member changed and packed again, with right sums of headers; None for no tar."""
    if data[257:262] != b"ustar":
        return None
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as old:
            members = old.getmembers()
            chosen = int(rng.integers(len(members)))
            with tarfile.open(fileobj=packed, mode="w") as new:
                for number, member in enumerate(members):
                    file = old.extractfile(member)
                    content = b"" if file is None else file.read()
                    if number == chosen:
                        content = _of_content(rng, content)
                        member.size = len(content)
                        if rng.random() < 0.2:
                            member.name = str(
                                rng.choice(["../x", "/x", "x" * 120, members[0].name])
                            )
                        if rng.random() < 0.1:
                            member.type = bytes([rng.choice(list(b"0123456gLKx"))])
                            member.linkname = str(rng.choice(["/etc/hosts", "..", members[0].name]))
                    new.addfile(member, io.BytesIO(content))
    except (tarfile.TarError, OSError, EOFError, ValueError, KeyError):
        return None
    return packed.getvalue()


# ---- JSON


def _json(rng, data):
    """A value, key or length of JSON changed; None for no JSON."""
    if data[:1] not in b"{[" or not data:
        return None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places = list(_places(content))
    if not places:
        return None
    holder, key = places[rng.integers(len(places))]
    kind = rng.random()
    if kind < 0.2:
        del holder[key]
    elif kind < 0.3:
        other, k = places[rng.integers(len(places))]
        holder[key] = json.loads(json.dumps(other[k]))
    elif kind < 0.4 and isinstance(holder, dict):
        holder[str(rng.choice(["", "dtype", "0", "é", key + "x"]))] = holder.pop(key)
    else:
        odd = [None, True, -1, 0, 2**63, 1e308, "", "x" * 99, [], {}, [[]], {"a": {}}, "NaN", 0.5]
        holder[key] = odd[rng.integers(len(odd))]
    text = json.dumps(content)
    if rng.random() < 0.05:
        text = "[" * 100_000 + text
    return text.encode()


def _places(value):
    """Yield (container, key) of everything in a JSON value."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


# ---- protobuf


def _protobuf(rng, data):
    """A field of a message, in depth, changed with its lengths made to fit; None for no message."""
    fields = _fields(data)
    if not fields or len(fields) > 5000:
        return None
    return _message(rng, fields, 0)


def _message(rng, fields, depth):
    at = int(rng.integers(len(fields)))
    number, wire, value = fields[at]
    inner = _fields(value) if wire == 2 and depth < _DEEPEST else None
    if inner and rng.random() < 0.8:
        fields[at] = (number, wire, _message(rng, inner, depth + 1))
    else:
        _FIELD[rng.integers(len(_FIELD))](rng, fields, at)
    return b"".join(map(_packed, fields))


def _drop(rng, fields, at):
    del fields[at]


def _double(rng, fields, at):
    fields.insert(int(rng.integers(len(fields) + 1)), fields[at])


def _renumber(rng, fields, at):
    number, wire, value = fields[at]
    fields[at] = (max(1, number + int(rng.integers(-3, 4))), wire, value)


def _exchange(rng, fields, at):
    other = int(rng.integers(len(fields)))
    fields[at], fields[other] = fields[other], fields[at]


def _value(rng, fields, at):
    number, wire, value = fields[at]
    if wire == 0:
        value = _varint(int(rng.choice([0, 1, 2, 7, 127, 2**31 - 1, 2**32, 2**63 - 1, 2**64 - 1])))
    else:
        value = _bytes(rng, value)
        if wire != 2:
            value = value.ljust(8, b"\xff")[: 8 if wire == 1 else 4]
    fields[at] = (number, wire, value)


_FIELD = [_drop, _double, _renumber, _exchange, _value, _value, _value]


def _fields(data):
    """The fields (number, wire type, bytes) of a protobuf message; None if it is none."""
    fields, at = [], 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key is None or key >> 3 == 0:
            return None
        wire, start = key & 7, at
        if wire == 0:
            value, at = _read_varint(data, at)
            if value is None:
                return None
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            size, start = _read_varint(data, at)
            if size is None:
                return None
            at = start + size
        else:
            return None
        if at > len(data):
            return None
        fields.append((key >> 3, wire, data[start:at]))
    return fields


def _packed(field):
    number, wire, value = field
    head = _varint(number << 3 | wire)
    return head + (_varint(len(value)) if wire == 2 else b"") + value


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data, at):
    """A varint and the place behind it; None where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    return None, at
