"""Python 2's one string type, told apart again: text is str, a block of bytes is Binary.

A str of a translated program is text in UTF-8; bytes that are no UTF-8 stay in it as lone
surrogates (PEP 383), so that no byte is lost on the way from one file into another. What a program
reads as a block (`read()` of a binary file, `struct.pack`, a pickle) is a Binary: bytes for whoever
wants bytes, and equal to, hashed like and used like the text for a program that takes it for text.
"""

import codecs

_LOSSLESS = ("utf-8", "surrogateescape")
_FROM_BYTES_TO_BYTES = {"hex", "base64", "zlib", "bz2", "uu", "quopri"}


def as_bytes(value):
    """The bytes of a string of either type; anything else as it is."""
    return value.encode(*_LOSSLESS) if isinstance(value, str) else value


def as_text(value):
    """The text of a string of either type; anything else as it is."""
    return bytes(value).decode(*_LOSSLESS) if isinstance(value, bytes | bytearray) else value


def as_binary(value):
    """A Binary in place of bytes; anything else as it is."""
    return Binary(value) if type(value) is bytes else value


def printed(value):
    """`str(value)`: 12 digits of a float, and bytes as text."""
    if type(value) is float:
        return _rounded(value)
    return as_text(value) if isinstance(value, bytes | bytearray) else str(value)


def _rounded(value):
    digits = f"{value:.12g}"
    if any(sign in digits for sign in ".enai"):
        return digits
    if len(digits.lstrip("-")) < 12:
        return digits + ".0"
    mantissa, exponent = f"{value:.11e}".split("e")
    return mantissa.rstrip("0").rstrip(".") + "e" + exponent


def chr_of_byte(code):
    """`chr(code)`: a string of one byte."""
    return Binary([code]) if code > 127 else chr(code)


def ord_of_byte(character):
    """`ord(character)`, of a byte too that is no text."""
    is_byte = isinstance(character, str) and _has_bytes(character)
    return ord(as_bytes(character) if is_byte else character)


def _method_of_text(name):
    """A method that answers as the text would."""

    def method(self, *args, **keywords):
        return getattr(as_text(self), name)(*map(as_text, args), **keywords)

    method.__name__ = name
    return method


class Binary(bytes):
    """Bytes with Python 2's habits: an element is a string, and text may stand beside it."""

    __slots__ = ()

    def __eq__(self, other):
        return bytes.__eq__(self, as_bytes(other))

    def __ne__(self, other):
        return bytes.__ne__(self, as_bytes(other))

    def __lt__(self, other):
        return bytes.__lt__(self, as_bytes(other))

    def __le__(self, other):
        return bytes.__le__(self, as_bytes(other))

    def __gt__(self, other):
        return bytes.__gt__(self, as_bytes(other))

    def __ge__(self, other):
        return bytes.__ge__(self, as_bytes(other))

    def __hash__(self):
        return hash(as_text(self))

    def __str__(self):
        return as_text(self)

    def __repr__(self):
        return repr(as_text(self))

    def __format__(self, spec):
        return format(as_text(self), spec)

    def __mod__(self, values):
        return as_text(self) % values

    def __getitem__(self, index):
        if not isinstance(index, slice):
            index = slice(index, index + 1 or None) if -len(self) <= index < len(self) else index
        part = bytes.__getitem__(self, index)  # an index out of range raises here
        return Binary(part)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __contains__(self, part):
        return bytes.__contains__(self, as_bytes(part))

    def __add__(self, other):
        return Binary(bytes.__add__(self, as_bytes(other)))

    def __radd__(self, other):
        return Binary(as_bytes(other) + bytes(self))

    def __mul__(self, times):
        return Binary(bytes.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce_ex__(self, protocol):
        return bytes, (bytes(self),)

    def join(self, parts):
        return join(as_text(self), parts)


# fmt: off
for _name in (
    "capitalize", "center", "count", "endswith", "expandtabs", "find", "format", "index", "isalnum",
    "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper", "ljust", "lower", "lstrip",
    "partition", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill",
):
    setattr(Binary, _name, _method_of_text(_name))
# fmt: on


def join(separator, parts):
    """`separator.join(parts)`: bytes as soon as a part is."""
    parts = list(parts)
    if any(isinstance(part, bytes) for part in parts):
        return Binary(as_bytes(separator).join(map(as_bytes, parts)))
    return separator.join(parts)


def literal(data):
    """`b"..."`, which was a string like any other: text where it can be nothing else."""
    return data.decode("ascii") if data.isascii() else Binary(data)


def decode(string, encoding="utf-8", errors="strict"):
    """`string.decode(...)`: the characters that the bytes of a string stand for."""
    if _is_transformation(encoding):
        return Binary(codecs.decode(as_bytes(string), encoding))
    if _plain(encoding) == "stringescape":
        return as_text(codecs.escape_decode(as_bytes(string))[0])
    return bytes(as_bytes(string)).decode(encoding, errors)


def encode(string, encoding="utf-8", errors="strict"):
    """`string.encode(...)`: a string of the bytes, which in UTF-8 is the same text."""
    if _is_transformation(encoding):
        return as_text(codecs.encode(as_bytes(string), encoding))
    if _plain(encoding) == "stringescape":
        return as_text(codecs.escape_encode(as_bytes(string))[0])
    text = as_text(string)
    return text if _has_bytes(text) else as_text(codecs.encode(text, encoding, errors))


def _plain(encoding):
    return encoding.lower().replace("-", "").replace("_", "")


def _is_transformation(encoding):
    return _plain(encoding).removesuffix("codec") in _FROM_BYTES_TO_BYTES


def _has_bytes(text):
    """Whether it was encoded already, in something else than UTF-8."""
    return any("\udc80" <= character <= "\udcff" for character in text)
