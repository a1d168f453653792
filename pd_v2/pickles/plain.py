"""Pickles of numbers, text, lists and tuples alone: found by a scan, then left to Python's reader.

That is many times as fast as carrying out each opcode here. Such a pickle names nothing and hashes
nothing; the scan has checked every length and every number of the memo.
"""

import io
import pickle
import re

_SHORT = 32


def _strings(opcode, zeros):
    """A pattern of the strings under _SHORT bytes that follow an opcode and their length."""
    by_length = b"|".join(b"\\x%02x%b.{%d}" % (n, zeros, n) for n in range(_SHORT))
    return b"%b(?:%b)" % (opcode, by_length)


# Opcodes of a fixed size, lines, and strings that are short. What a number of the memo can make
# Python's reader allocate is 16 MB.
_RUN = re.compile(
    rb"""(?: [N\x88\x89\]()aetl\x85\x86\x87\x94] | K. | M.. | J.{4} | G.{8} | \x80[\x00-\x05]
    | [qh]. | [rj]..[\x00-\x0f]\x00 | [pg]\d{1,5}\n | I-?\d{1,19}\n | L-?\d{1,19}L?\n
    | F[-+.\deinfa]{1,30}\n | S'(?: [^'\\\n] | \\[\\'nrt] | \\x[\da-f]{2} )*+'\n | """
    + b" | ".join([_strings(b"[UC\\x8c]", b""), _strings(b"[TXB]", rb"\x00\x00\x00")])
    + b" )*+",
    re.DOTALL | re.VERBOSE,
)
_FRAME = b"\x95"  # it only says how many bytes follow
_LENGTH_BYTES = {b"U": 1, b"C": 1, b"\x8c": 1, b"T": 4, b"X": 4, b"B": 4, _FRAME: 8}
_CONTAINERS = b"](tl)\x85\x86\x87"
_BYTES_OF_CONTAINER, _BYTES_OF_OTHERS = 128, 24  # the latter for each byte of the file


def is_plain(data, memory):
    """Whether a pickle is one of these, and takes less than `memory` bytes."""
    if len(data) * _BYTES_OF_CONTAINER > memory and _bytes_of_objects(data) > memory:
        return False
    at = 0
    while at < len(data):
        at = _RUN.match(data, at).end()
        code = data[at : at + 1]
        if code not in _LENGTH_BYTES:
            return code == b"."
        start = at + 1 + _LENGTH_BYTES[code]
        end = start + int.from_bytes(data[at + 1 : start], "little")
        if end > len(data):
            return False
        at = start if code == _FRAME else end
    return False


def _bytes_of_objects(data):
    """At most how much memory they take; bytes inside of text count like opcodes."""
    containers = sum(data.count(bytes([code])) for code in _CONTAINERS)
    return containers * _BYTES_OF_CONTAINER + len(data) * _BYTES_OF_OTHERS


def load_plain(data):
    """The object of a pickle that is_plain."""
    return _Nameless(io.BufferedReader(io.BytesIO(data)), encoding="latin1").load()


class _Nameless(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} in a plain pickle")
