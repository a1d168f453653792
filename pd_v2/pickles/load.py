"""Unpickling with limits on depth and memory."""

import pickle
import pickletools
import struct
from collections import OrderedDict
from contextlib import suppress

from pd_core import DamagedFile
from pd_v2.files.limits import limit, raise_hint
from pd_v2.pickles.errors import Refused, require
from pd_v2.pickles.names import ALLOWED, Name, Unbuilt, class_name
from pd_v2.pickles.opcodes import HANDLERS, Machine
from pd_v2.pickles.plain import is_plain, load_plain

MAX_DEPTH = 100
MAX_MEMORY = 400 << 20  # bytes of objects; PD_PICKLE_LIMIT sets another limit
_MAX_EXPANSION = 1000  # values per byte of the file, counting shared ones repeatedly
_HINT = "\n  hint: with trusted=True, samples of any class are read, and run what the file names"

_STOP = b"."[0]
_HANDLERS = [HANDLERS.get(bytes([code])) for code in range(256)]
_CONTAINERS = {list, tuple, dict, OrderedDict, set, frozenset}
_INSPECTED = _CONTAINERS | {Unbuilt, Name}
_DAMAGE_ERRORS = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    OverflowError,
    struct.error,
)


def _costs():
    """Estimate the bytes of memory of each opcode's object, beyond its bytes in the file."""
    costs = [48] * 256
    for codes, cost in ((b"}]l", 128), (b"\x8fd\x91", 256), (b"q\x94pr(", 100), (b"sue\x90a", 64)):
        for code in codes:
            costs[code] = cost
    return costs


_COSTS = _costs()


def load(where, content, classes=None, hint=""):
    """Load a pickle of numbers, text, containers and arrays; DamagedFile for anything else.

    Strings of Python 2 become str, one character per byte. `classes` are further classes that are
    allowed: {(module, name): function that creates an object from its {field: value}}. `where` and
    `hint` are for the message.
    """
    content, memory = bytes(content), limit("PD_PICKLE_LIMIT", MAX_MEMORY)
    names = {key: class_name(*key, make) for key, make in (classes or {}).items()}
    machine = Machine(content, ALLOWED | names)
    try:
        value = _load(machine, memory)
        machine.position = len(content)
        _require_bounded(value, len(content))
    except _DAMAGE_ERRORS as error:
        problem = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        raise DamagedFile(
            f"{where} is damaged: byte {machine.position} of the pickle: {problem}{hint}"
        ) from error
    return value


def load_samples(where, content, trusted):
    """Load a pickle of samples; a trusted one may hold any class, and run any code.

    Python 2 pickled arrays and strings as text, one character per byte.
    """
    if trusted:
        return pickle.loads(content, encoding="latin1")  # noqa: S301  the caller vouches for it
    return load(where, content, hint=_HINT)


def _load(machine, memory):
    if is_plain(machine.data, memory):
        with suppress(*_DAMAGE_ERRORS):
            return load_plain(machine.data)
    return _run(machine, memory)  # also to locate the error in a plain pickle


def _run(machine, memory):
    data, handlers, costs = machine.data, _HANDLERS, _COSTS
    remaining, size = memory, len(data)
    while machine.position < size:
        code = data[machine.position]
        if code == _STOP:
            return machine.stack.pop()
        handler = handlers[code]
        if handler is None:
            raise Refused(f"the opcode {_opcode(code)} is not carried out")
        machine.position += 1
        handler(machine)
        remaining -= costs[code]
        if remaining < 0:
            problem = f"its objects take more than {memory} bytes"
            raise Refused(problem + raise_hint("PD_PICKLE_LIMIT"))
    raise Refused("it ends before the opcode STOP")


def _opcode(code):
    """Return the name of an opcode, or its number if it is unknown."""
    info = pickletools.code2op.get(chr(code))
    return info.name if info else f"{code:#04x}"


def _require_bounded(value, size):
    """Refuse a value that is too deep, holds itself, or expands too much by shared containers."""
    level, expanded = {id(value): (value, 1)}, 0
    for _ in range(MAX_DEPTH):
        next_level = {}
        for item, times in level.values():
            require(type(item) not in (Unbuilt, Name), "it holds a name, or half an object")
            if type(item) in _CONTAINERS:
                expanded += times * len(item)
                _count_children(next_level, item, times)
        require(expanded <= _MAX_EXPANSION * size, f"it holds {expanded} values in {size} bytes")
        level = next_level
        if not level:
            return
    raise Refused(f"it is more than {MAX_DEPTH} levels deep, or holds itself")


def _count_children(level, container, times):
    """Add the containers in a container to {id: (container, number of occurrences)}."""
    children = container.values() if isinstance(container, dict) else container
    for child in children:
        if type(child) in _INSPECTED:
            _, count = level.get(id(child), (None, 0))
            level[id(child)] = child, count + times
