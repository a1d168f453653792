"""Snappy decompression in Python, for RecordIO files of 2017.

Snappy's checksums are not verified: RecordIO has its own over the payload.
"""

_CRC_BYTES = 4
_VARINT_BYTES = 5
_COMPRESSED, _UNCOMPRESSED, _FIRST_SKIPPABLE = 0x00, 0x01, 0x80


def unpack_stream(stream):
    """Decompress a Snappy stream in the framing format."""
    content, start = bytearray(), 0
    while start < len(stream):
        kind, size = stream[start], int.from_bytes(stream[start + 1 : start + 4], "little")
        body = stream[start + 4 : start + 4 + size]
        if len(body) < size:
            raise ValueError("the Snappy stream ends inside a frame")
        content += _frame(kind, body)
        start += 4 + size
    return bytes(content)


def _frame(kind, body):
    if kind == _COMPRESSED:
        return unpack_block(body[_CRC_BYTES:])
    if kind == _UNCOMPRESSED:
        return body[_CRC_BYTES:]
    if kind >= _FIRST_SKIPPABLE:  # the stream identifier, padding, and reserved types
        return b""
    raise ValueError(f"Snappy frame type {kind:#04x} is unknown")


def unpack_block(block):
    """Decompress a Snappy block: a size, then literals and copies of earlier output."""
    try:
        size, start = _varint(block)
        content = bytearray()
        while start < len(block) and len(content) <= size:
            start = _element(block, start, content)
    except IndexError:
        raise ValueError("the Snappy block ends inside an element") from None
    if len(content) != size:
        raise ValueError(f"the Snappy block has {len(content)} bytes, announced {size}")
    return bytes(content)


def _varint(block):
    """Decode a varint, little-endian with 7 bits per byte; return it and its end."""
    number = 0
    for position in range(_VARINT_BYTES):
        byte = block[position]
        number |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return number, position + 1
    raise ValueError(f"the size of a Snappy block has more than {_VARINT_BYTES} bytes")


def _element(block, start, content):
    """Append one literal or copy to the content; return the start of the next element."""
    tag = block[start]
    kind, upper = tag & 3, tag >> 2
    if kind == 0:
        return _literal(block, start + 1, upper, content)
    if kind == 1:
        _copy(content, (tag >> 5) << 8 | block[start + 1], (upper & 7) + 4)
        return start + 2
    width = 2 if kind == 2 else 4
    _copy(content, _number(block, start + 1, width), upper + 1)
    return start + 1 + width


def _literal(block, start, upper, content):
    """Append a literal; a length over 60 is encoded in 1 to 4 further bytes."""
    width = max(0, upper - 59)
    length = 1 + (_number(block, start, width) if width else upper)
    start += width
    if start + length > len(block):
        raise IndexError
    content += block[start : start + length]
    return start + length


def _copy(content, offset, length):
    """Append `length` bytes from `offset` back; the source may overlap the destination."""
    if not 0 < offset <= len(content):
        raise ValueError(f"a Snappy copy goes {offset} bytes back after {len(content)}")
    start = len(content) - offset
    pattern = bytes(content[start : start + length])
    content += (pattern * (length // offset + 1))[:length]


def _number(block, start, width):
    if start + width > len(block):
        raise IndexError
    return int.from_bytes(block[start : start + width], "little")
