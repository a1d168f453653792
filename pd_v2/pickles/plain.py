"""Fast path for pickles of numbers, text, lists and tuples, which Python's own unpickler reads.

That is many times as fast as the handlers of this package. Such a pickle imports no names and
hashes no keys; a scan has checked every length and every memo index.
"""

import io
import pickle
import re

_SHORT = 32


def _strings(opcode, zeros):
    """Return a pattern of the strings under _SHORT bytes that follow an opcode and their length."""
    by_length = b"|".join(b"\\x%02x%b.{%d}" % (n, zeros, n) for n in range(_SHORT))
    return b"%b(?:%b)" % (opcode, by_length)


# Opcodes of a fixed size, lines, and short strings. The memo indices are limited so that Python's
# unpickler allocates 16 MB at most for the memo.
_RUN = re.compile(
    rb"""(?: [N\x88\x89\]()aetl\x85\x86\x87\x94] | K. | M.. | J.{4} | G.{8} | \x80[\x00-\x05]
    | [qh]. | [rj]..[\x00-\x0f]\x00 | [pg]\d{1,5}\n | I-?\d{1,19}\n | L-?\d{1,19}L?\n
    | F[-+.\deinfa]{1,30}\n | S'(?: [^'\\\n] | \\[\\'nrt] | \\x[\da-f]{2} )*+'\n | """
    + b" | ".join([_strings(b"[UC\\x8c]", b""), _strings(b"[TXB]", rb"\x00\x00\x00")])
    + b" )*+",
    re.DOTALL | re.VERBOSE,
)
_FRAME = b"\x95"  # the number of bytes that follow
_LENGTH_BYTES = {b"U": 1, b"C": 1, b"\x8c": 1, b"T": 4, b"X": 4, b"B": 4, _FRAME: 8}
_CONTAINERS = b"](tl)\x85\x86\x87"
_CONTAINER_BYTES, _OTHER_BYTES = 128, 24  # the latter for each byte of the file


def is_plain(data, memory):
    """Return whether a pickle can take the fast path, within `memory` bytes."""
    if len(data) * _CONTAINER_BYTES > memory and _bytes_of_objects(data) > memory:
        return False
    position = 0
    while position < len(data):
        position = _RUN.match(data, position).end()
        code = data[position : position + 1]
        if code not in _LENGTH_BYTES:
            return code == b"."
        start = position + 1 + _LENGTH_BYTES[code]
        end = start + int.from_bytes(data[position + 1 : start], "little")
        if end > len(data):
            return False
        position = start if code == _FRAME else end
    return False


def _bytes_of_objects(data):
    """Return an upper bound of the memory of the objects; bytes in text count like opcodes."""
    containers = sum(data.count(bytes([code])) for code in _CONTAINERS)
    return containers * _CONTAINER_BYTES + len(data) * _OTHER_BYTES


def load_plain(data):
    """Load a pickle for which is_plain is true."""
    return _Unpickler(io.BufferedReader(io.BytesIO(data)), encoding="latin1").load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} in a plain pickle")
