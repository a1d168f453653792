"""Python 2's str as two types: text is str, binary data is Binary.

A str of a translated program is text in UTF-8; bytes that are not UTF-8 become lone surrogates
(PEP 383), so that no byte is lost on the way from one file to another. Binary data (`read()` of a
binary file, `struct.pack`, a pickle) are a Binary: bytes that compare, hash and behave like text.
Text of a file that is not plain ASCII is a ByteText until it is decoded: a str for whose methods
white space, letters and digits are those of ASCII.
"""

import codecs
import collections
import re

_LOSSLESS = ("utf-8", "surrogateescape")
_BYTES_TO_BYTES = {"hex", "base64", "zlib", "bz2", "uu", "quopri"}

# ASCII that ends words or lines of a str, but not of bytes.
_SEPARATORS = re.compile("[\x0b\x0c\x1c-\x1f]")


def as_bytes(value):
    """Return a string of either type as bytes; anything else unchanged."""
    return value.encode(*_LOSSLESS) if isinstance(value, str) else value


def as_text(value):
    """Return a string of either type as text; anything else unchanged."""
    return bytes(value).decode(*_LOSSLESS) if isinstance(value, bytes | bytearray) else value


def as_file_text(data):
    """Return bytes of a file as text: a ByteText unless its methods would give the same."""
    return undecoded(as_text(data))


def undecoded(text):
    """Return text of bytes as a ByteText unless its methods would give the same."""
    return text if text.isascii() and not _SEPARATORS.search(text) else ByteText(text)


def as_binary(value):
    """Return bytes as a Binary; anything else unchanged."""
    return Binary(value) if type(value) is bytes else value


def printed(value):
    """`str(value)`: floats have 12 digits, bytes are text."""
    if type(value) is float:
        return _rounded(value)
    if isinstance(value, bytes | bytearray):
        return as_text(value)
    return shown(value) if type(value) in _SHOWN or isinstance(value, type) else str(value)


def shown(value):
    """`repr(value)`: of sets `set([1])`, of built-in types `<type 'int'>`, in containers too.

    Of an error with one argument it is `KeyError('k',)`.
    """
    text = repr(value)
    if isinstance(value, BaseException) and type(value).__repr__ is BaseException.__repr__:
        return text[:-1] + ",)" if len(value.args) == 1 else text
    is_plain = not any(mark in text for mark in ("{", "<class ", "set("))
    return text if is_plain else _shown(value, frozenset(), text)


def _shown(value, around, text=None):
    """Return `shown` of a value in containers with the ids `around`."""
    kind = type(value)
    if isinstance(value, type) and kind.__repr__ is type.__repr__:
        return _type_shown(value)
    if kind not in _SHOWN:
        return text or repr(value)
    if id(value) in around:
        return {list: "[...]", dict: "{...}"}.get(kind, "(...)")
    around |= {id(value)}
    if kind in (dict, collections.defaultdict):
        pairs = ((_shown(k, around), _shown(v, around)) for k, v in value.items())
        shown_dict = "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
        if kind is dict:
            return shown_dict
        return f"defaultdict({_shown(value.default_factory, around)}, {shown_dict})"
    if kind is collections.OrderedDict:
        return f"OrderedDict({_shown(list(value.items()), around) if value else ''})"
    if kind is collections.deque:
        limit = "" if value.maxlen is None else f", maxlen={value.maxlen}"
        return f"deque({_shown(list(value), around)}{limit})"
    elements = ", ".join(_shown(element, around) for element in value)
    if kind is tuple:
        return f"({elements},)" if len(value) == 1 else f"({elements})"
    return f"[{elements}]" if kind is list else f"{kind.__name__}([{elements}])"


_SHOWN = (
    *(dict, frozenset, list, set, tuple),
    *(collections.OrderedDict, collections.defaultdict, collections.deque),
)
_DEFINED = 1 << 9  # Py_TPFLAGS_HEAPTYPE: by a class statement


def _type_shown(kind):
    if kind.__flags__ & _DEFINED:
        return repr(kind)
    is_error = issubclass(kind, BaseException)
    module = {"builtins": "exceptions." if is_error else ""}.get(kind.__module__)
    return f"<type '{kind.__module__ + '.' if module is None else module}{kind.__name__}'>"


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
    """`ord(character)`, also for a byte that is not UTF-8."""
    is_byte = isinstance(character, str) and _has_bytes(character)
    return ord(as_bytes(character) if is_byte else character)


def _parts_as_text(parts):
    """Return what a method of bytes gives with text in place of bytes."""
    if isinstance(parts, list | tuple):
        return type(parts)(map(as_file_text, parts))
    return as_file_text(parts) if isinstance(parts, bytes) else parts


def _method_of_bytes(name):
    """Return a method of ByteText that calls the method of its bytes."""

    def method(self, *args):
        return _parts_as_text(getattr(as_bytes(self), name)(*map(as_bytes, args)))

    method.__name__ = name
    return method


class ByteText(str):
    """Text that was not decoded: `split` does not split at a no-break space, for example.

    It is counted in characters all the same. Parts of it that are plain ASCII are a str.
    """

    __slots__ = ()

    def __add__(self, other):
        return undecoded(str.__add__(self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other):
        return undecoded(str.__add__(other, self))

    def __mul__(self, times):
        return undecoded(str.__mul__(self, times))

    __rmul__ = __mul__

    def __getitem__(self, index):
        return undecoded(str.__getitem__(self, index))

    def __iter__(self):
        return map(undecoded, str.__iter__(self))

    def __format__(self, spec):
        return undecoded(str.__format__(self, spec))

    def __repr__(self):
        return repr(as_bytes(self))[1:]

    def __copy__(self):
        return self

    def __deepcopy__(self, known):
        return self

    def __reduce_ex__(self, protocol):
        return str, (str(self),)


# fmt: off
for _name in (
    "capitalize", "isalnum", "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper",
    "lower", "lstrip", "partition", "replace", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "strip", "swapcase", "title", "upper",
):
    setattr(ByteText, _name, _method_of_bytes(_name))
# fmt: on


def _undecoded_method(name):
    """Return a method of ByteText that gives what the one of str gives."""
    of_str = getattr(str, name)

    def method(self, *args):
        return undecoded(of_str(self, *map(as_text, args)))

    method.__name__ = name
    return method


for _name in ("center", "expandtabs", "ljust", "rjust", "zfill"):
    setattr(ByteText, _name, _undecoded_method(_name))


def _method_of_text(name):
    """Return a method of Binary that calls the method of the text."""

    def method(self, *args, **keywords):
        return getattr(as_file_text(self), name)(*map(as_text, args), **keywords)

    method.__name__ = name
    return method


class Binary(bytes):
    """Bytes that behave like Python 2's str: elements are strings, and operands may be text."""

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
        return bytes.__repr__(self)[1:]

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


def like(text, *sources):
    """Return text made of strings: a ByteText if one of them is."""
    return undecoded(text) if any(type(source) is ByteText for source in sources) else text


def join(separator, parts):
    """`separator.join(parts)`: a Binary if any part is bytes."""
    parts = list(parts)
    if any(isinstance(part, bytes) for part in parts):
        return Binary(as_bytes(separator).join(map(as_bytes, parts)))
    return like(separator.join(parts), separator, *parts)


def literal(data):
    """`b"..."`, which was a str: text if it is ASCII, else a Binary."""
    return data.decode("ascii") if data.isascii() else Binary(data)


def decode(string, encoding="utf-8", errors="strict"):
    """`string.decode(...)`: decodes the bytes of a string."""
    if _is_transformation(encoding):
        return Binary(codecs.decode(as_bytes(string), encoding))
    if _normalized(encoding) == "stringescape":
        return as_text(codecs.escape_decode(as_bytes(string))[0])
    return bytes(as_bytes(string)).decode(encoding, errors)


def encode(string, encoding="utf-8", errors="strict"):
    """`string.encode(...)`: the encoded bytes as a str; for UTF-8 this is the same text."""
    if _is_transformation(encoding):
        return as_text(codecs.encode(as_bytes(string), encoding))
    if _normalized(encoding) == "stringescape":
        return as_text(codecs.escape_encode(as_bytes(string))[0])
    text = as_text(string)
    return text if _has_bytes(text) else as_text(codecs.encode(text, encoding, errors))


def _normalized(encoding):
    return encoding.lower().replace("-", "").replace("_", "")


def _is_transformation(encoding):
    return _normalized(encoding).removesuffix("codec") in _BYTES_TO_BYTES


def _has_bytes(text):
    """Return whether text has bytes that are not UTF-8, so that it was encoded already."""
    return any("\udc80" <= character <= "\udcff" for character in text)
