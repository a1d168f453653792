"""Handlers of the pickle opcodes, protocols 0 to 5; Python's `pickletools` documents them."""

import re
import struct
from collections import OrderedDict

from pd_v2.pickles.errors import Refused, require
from pd_v2.pickles.names import Name, Unbuilt, require_keys

NEWEST_PROTOCOL = 5
_FLOAT = struct.Struct(">d")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\", b"'": b"'", b'"': b'"'}


class Machine:
    """The state of the unpickler: the stack, the memo and the position in the bytes."""

    def __init__(self, data, names):
        self.data = data
        self.names = names
        self.position = 0
        self.stack = []
        self.marks = []
        self.memo = {}

    def read(self, size):
        """Read the next bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise Refused(f"{size} bytes are announced, {len(self.data) - self.position} are left")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def number(self, width, signed=False):
        return int.from_bytes(self.read(width), "little", signed=signed)

    def line(self):
        end = self.data.find(b"\n", self.position)
        require(end >= 0, "a line does not end")
        line = self.data[self.position : end]
        self.position = end + 1
        return line

    def pop_mark(self):
        """Pop the items above the last mark."""
        require(self.marks, "there is no mark")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def top(self, *kinds):
        value = self.stack[-1]
        if type(value) not in kinds:
            raise Refused(f"a {type(value).__name__} takes no such values")
        return value

    def memo_put(self, number):
        if not 0 <= number <= len(self.data):
            raise Refused(f"the memo has no place {number}")
        value = self.memo[number] = self.stack[-1]
        if type(value) is Unbuilt:
            value.memo_indices.append(number)

    def memo_get(self, number):
        if number not in self.memo:
            raise Refused(f"the memo has nothing in place {number}")
        self.stack.append(self.memo[number])

    def name(self, module, name):
        allowed = self.names.get((module, name))
        require(allowed, f"{module}.{name} is not allowed, only numbers, text and arrays are")
        self.stack.append(allowed)

    def call(self, function, arguments):
        require(type(function) is Name and type(arguments) is tuple, "what is called is no name")
        self.stack.append(function.call(*arguments))

    def build(self):
        state, target = self.stack.pop(), self.stack[-1]
        require(type(target) is Unbuilt, f"a {type(target).__name__} has no state")
        self.stack[-1] = value = target.build(state)
        for number in target.memo_indices:
            self.memo[number] = value


# ---- numbers and text


def _decimal(line):
    truth = {b"00": False, b"01": True}.get(line)
    return int(line) if truth is None else truth


def _unescaped(line):
    """Parse a quoted string of Python 2, one character per byte."""
    line = line.strip()
    quoted = len(line) > 1 and line[:1] == line[-1:] and line[:1] in (b"'", b'"')
    require(quoted, "a string without its quotes")
    return _ESCAPE.sub(_character, line[1:-1]).decode("latin1")


def _character(match):
    code = match[1]
    if len(code) == 3:
        return bytes([int(code[1:], 16)])
    require(code in _ESCAPED, f"a string with the escape {code!r}")
    return _ESCAPED[code]


def _utf8(content):
    return str(content, "utf-8", "surrogatepass")


def _latin1(content):
    return str(content, "latin1")


def _little(content):
    return int.from_bytes(content, "little", signed=True)


def _value(value):
    return lambda m: m.stack.append(value)


def _new(make):
    return lambda m: m.stack.append(make())


def _integer(width, signed=False):
    return lambda m: m.stack.append(int.from_bytes(m.read(width), "little", signed=signed))


def _of_line(convert):
    return lambda m: m.stack.append(convert(m.line()))


def _counted(width, convert, signed=False):
    """Read bytes that are preceded by their length, a number of `width` bytes."""
    return lambda m: m.stack.append(convert(m.read(m.number(width, signed))))


# ---- containers


def _tuple_of(count):
    def make(m):
        require(len(m.stack) >= count, "too few values for a tuple")
        m.stack[-count:] = [tuple(m.stack[-count:])]

    return make


def _append(m):
    value = m.stack.pop()
    m.top(list).append(value)


def _appends(m):
    values = m.pop_mark()
    m.top(list).extend(values)


def _pairs(values):
    require(len(values) % 2 == 0, "a key without a value")
    keys = values[::2]
    require_keys(keys)
    return zip(keys, values[1::2], strict=True)


def _setitem(m):
    values = m.stack[-2:]
    del m.stack[-2:]
    m.top(dict, OrderedDict).update(_pairs(values))


def _setitems(m):
    values = m.pop_mark()
    m.top(dict, OrderedDict).update(_pairs(values))


def _additems(m):
    values = m.pop_mark()
    require_keys(values)
    m.top(set).update(values)


def _frozenset(m):
    values = m.pop_mark()
    require_keys(values)
    m.stack.append(frozenset(values))


# ---- the stack, the memo and names


def _pop(m):
    if m.marks and m.marks[-1] == len(m.stack):
        m.marks.pop()
    else:
        m.stack.pop()


def _protocol(m):
    number = m.number(1)
    require(number <= NEWEST_PROTOCOL, f"protocol {number} is unknown")


def _frame(m):
    size = m.number(8)
    left = len(m.data) - m.position
    require(size <= left, f"a frame of {size} bytes is announced, {left} are left")


def _global(m):
    m.name(_utf8(m.line()), _utf8(m.line()))


def _stack_global(m):
    module, name = m.stack[-2:]
    del m.stack[-2:]
    require(type(module) is type(name) is str, "a name that is no text")
    m.name(module, name)


def _reduce(m):
    arguments = m.stack.pop()
    m.call(m.stack.pop(), arguments)


HANDLERS = {
    # numbers
    b"N": _value(None),
    b"\x88": _value(True),
    b"\x89": _value(False),
    b"I": _of_line(_decimal),
    b"L": _of_line(lambda line: int(line.removesuffix(b"L"))),
    b"F": _of_line(float),
    b"J": _integer(4, signed=True),
    b"K": _integer(1),
    b"M": _integer(2),
    b"\x8a": _counted(1, _little),
    b"\x8b": _counted(4, _little, signed=True),
    b"G": lambda m: m.stack.append(_FLOAT.unpack(m.read(8))[0]),
    # text and bytes
    b"S": _of_line(_unescaped),
    b"T": _counted(4, _latin1, signed=True),
    b"U": _counted(1, _latin1),
    b"V": _of_line(lambda line: str(line, "raw-unicode-escape")),
    b"X": _counted(4, _utf8),
    b"\x8c": _counted(1, _utf8),
    b"\x8d": _counted(8, _utf8),
    b"B": _counted(4, bytes),
    b"C": _counted(1, bytes),
    b"\x8e": _counted(8, bytes),
    b"\x96": _counted(8, bytearray),
    # containers
    b"]": _new(list),
    b"l": lambda m: m.stack.append(m.pop_mark()),
    b"a": _append,
    b"e": _appends,
    b")": _value(()),
    b"t": lambda m: m.stack.append(tuple(m.pop_mark())),
    b"\x85": _tuple_of(1),
    b"\x86": _tuple_of(2),
    b"\x87": _tuple_of(3),
    b"}": _new(dict),
    b"d": lambda m: m.stack.append(dict(_pairs(m.pop_mark()))),
    b"s": _setitem,
    b"u": _setitems,
    b"\x8f": _new(set),
    b"\x90": _additems,
    b"\x91": _frozenset,
    # the stack and the memo
    b"(": lambda m: m.marks.append(len(m.stack)),
    b"0": _pop,
    b"1": lambda m: m.pop_mark(),
    b"2": lambda m: m.stack.append(m.stack[-1]),
    b"p": lambda m: m.memo_put(int(m.line())),
    b"q": lambda m: m.memo_put(m.number(1)),
    b"r": lambda m: m.memo_put(m.number(4)),
    b"\x94": lambda m: m.memo_put(len(m.memo)),
    b"g": lambda m: m.memo_get(int(m.line())),
    b"h": lambda m: m.memo_get(m.number(1)),
    b"j": lambda m: m.memo_get(m.number(4)),
    # names and objects
    b"\x80": _protocol,
    b"\x95": _frame,
    b"c": _global,
    b"\x93": _stack_global,
    b"R": _reduce,
    b"\x81": _reduce,
    b"b": Machine.build,
}
