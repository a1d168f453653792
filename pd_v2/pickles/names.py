"""The names that a pickle may import, with safe replacements: arrays, sets, a few builtins."""

import math
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pd_v2.pickles.errors import require

_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f(2|4|8|16)|c(8|16|32)|[SU][1-9]\d{0,8})")
_SCALARS = {str, bytes, int, float, bool, type(None)}
_LARGEST_KEY = 1 << 64


@dataclass(frozen=True)
class Name:
    """A name in a module, and the function that replaces calls of it."""

    module: str
    name: str
    call: Callable

    def __str__(self):
        return f"{self.module}.{self.name}"


@dataclass
class Unbuilt:
    """An object whose state has not been read, with its indices in the memo."""

    build: Callable
    memo_indices: list = field(default_factory=list)


def require_keys(values):
    """Refuse keys with slow hashes: containers, and numbers that may be chosen to collide."""
    for value in values:
        kind = type(value)
        require(kind in _SCALARS, f"a {kind.__name__} is a key or in a set")
        if kind is int:
            require(-_LARGEST_KEY < value < _LARGEST_KEY, "a key of more than 64 bits")


# ---- arrays


def _dtype(kind, align, copy):
    """Create a dtype from its type string; the state only adds the byte order."""
    text = _text(kind)
    require(_TYPE.fullmatch(text), f"arrays of the type {text!r} are not read")

    def build(state):
        _, order, *fields = state
        require(fields[:3] == [None] * 3 and fields[6:] in ([], [None]), "a structured array")
        require(_text(order) in ("<", ">", "|", "="), "bytes in an unknown order")
        return np.dtype(text).newbyteorder(_text(order))

    return Unbuilt(build)


def _empty_array(kind, shape, code):
    require(isinstance(kind, Name) and str(kind) == "numpy.ndarray", f"an array of type {kind}")
    return Unbuilt(lambda state: _array_of_state(*state))


def _array_of_state(version, shape, dtype, is_fortran, raw):
    values = _array(raw, dtype, shape, "F" if is_fortran else "C")
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _array(raw, dtype, shape, order):
    """Create an array, whose size has to match the number of its bytes in the file."""
    require(isinstance(dtype, np.dtype), "an array without a type")
    require(isinstance(raw, (bytes, bytearray, str)), "an array whose data are no bytes")
    require(type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape), "no shape")
    raw = _as_bytes(raw)
    size = math.prod(shape) * dtype.itemsize
    require(size == len(raw), f"an array of {size} bytes has data of {len(raw)}")
    values = np.frombuffer(raw, dtype)
    if dtype.kind == "b":
        require(not (values.view(np.uint8) > 1).any(), "a truth value that is neither 0 nor 1")
    return values.reshape(shape, order=_text(order)).copy(order="K")


def _scalar(dtype, raw):
    return _array(raw, dtype, (1,), "C")[0]


# ---- builtin types


def _encoded(text, encoding):
    """Encode text to the bytes that Python 3 pickles as text for Python 2, always in latin1."""
    encoding = _text(encoding)
    require(encoding in ("latin1", "latin-1"), f"bytes are encoded as {encoding!r}, not latin1")
    return text.encode("latin1")


def _bytearray(content=b"", encoding="latin1"):
    require(isinstance(content, (bytes, str)), "a bytearray of what is no bytes")
    return bytearray(_encoded(content, encoding) if isinstance(content, str) else content)


def _set_of(kind):
    def make(values=()):
        require(type(values) in (list, tuple), "a set of what is no list")
        require_keys(values)
        return kind(values)

    return make


def _ordered(pairs=()):
    require(type(pairs) in (list, tuple), "a dict of what is no list")
    require(all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs), "no pairs")
    require_keys(key for key, _ in pairs)
    return OrderedDict(pairs)


def _complex(real, imaginary):
    require(type(real) is type(imaginary) is float, "a complex number of what is no float")
    return complex(real, imaginary)


def _empty_bytes(*args):
    require(not args, "bytes of something else")
    return b""


def _not_called(*args):
    require(False, "a type is called that has no values of its own")


def _reconstructed(kind, base, state):
    """Create an object of an allowed class, as protocols 0 and 1 do."""
    require(isinstance(kind, Name) and isinstance(base, Name), "an object of no class")
    require(base.name == "object" and state is None, f"an object that is a {base}")
    return kind.call()


def _text(value):
    """Return a name as str; it may be bytes in Python 3."""
    require(isinstance(value, (str, bytes)), f"a {type(value).__name__} in the place of a name")
    return value.decode("latin1") if isinstance(value, bytes) else value


def _as_bytes(raw):
    return raw.encode("latin1") if isinstance(raw, str) else bytes(raw)


def _allowed_names():
    names = {
        ("numpy", "ndarray"): _not_called,
        ("numpy", "dtype"): _dtype,
        ("_codecs", "encode"): _encoded,
        ("collections", "OrderedDict"): _ordered,
    }
    for core in ("numpy.core", "numpy._core"):
        names[f"{core}.multiarray", "_reconstruct"] = _empty_array
        names[f"{core}.multiarray", "scalar"] = _scalar
        names[f"{core}.numeric", "_frombuffer"] = _array
    for builtins in ("__builtin__", "builtins"):
        names[builtins, "bytes"] = _empty_bytes
        names[builtins, "bytearray"] = _bytearray
        names[builtins, "set"] = _set_of(set)
        names[builtins, "frozenset"] = _set_of(frozenset)
        names[builtins, "complex"] = _complex
        names[builtins, "object"] = _not_called
    for copyreg in ("copy_reg", "copyreg"):
        names[copyreg, "_reconstructor"] = _reconstructed
    return {key: Name(*key, call) for key, call in names.items()}


ALLOWED = _allowed_names()


def class_name(module, name, make):
    """Return the Name of a class, where make({field: value}) creates an object."""

    def call(*args):
        require(not args, f"{module}.{name} is made of arguments")
        return Unbuilt(lambda state: make(_fields(state)))

    return Name(module, name, call)


def _fields(state):
    """Return {field: value} of the state of an object, with slots or a __dict__."""
    parts = state if type(state) is tuple else (state,)
    require(all(part is None or type(part) is dict for part in parts), "a state of no fields")
    return {_text(key): value for part in parts if part for key, value in part.items()}
