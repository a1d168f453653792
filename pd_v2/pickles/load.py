"""From the bytes of a pickle to its object, within bounds."""

import pickle
import pickletools
import struct
from collections import OrderedDict
from contextlib import suppress

from pd_core import DamagedFile
from pd_v2.limits import limit, raise_hint
from pd_v2.pickles.errors import Refused, require
from pd_v2.pickles.names import KNOWN, Name, Unbuilt, class_name
from pd_v2.pickles.opcodes import HANDLERS, Machine
from pd_v2.pickles.plain import is_plain, load_plain

DEEPEST = 100
MEMORY = 400 << 20  # bytes of objects, unless PD_PICKLE_LIMIT is another number of them
_EXPANSION = 1000
_HINT = "\n  hint: with trusted=True, samples of any class are read, and run what the file names"

_STOP = b"."[0]
_STEPS = [HANDLERS.get(bytes([code])) for code in range(256)]
_CONTAINERS = {list, tuple, dict, OrderedDict, set, frozenset}
_INSPECTED = _CONTAINERS | {Unbuilt, Name}
_FAILURES = (
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
    """About how many bytes of memory an opcode takes beyond the bytes that it has in the file."""
    costs = [48] * 256
    for codes, cost in ((b"}]l", 128), (b"\x8fd\x91", 256), (b"q\x94pr(", 100), (b"sue\x90a", 64)):
        for code in codes:
            costs[code] = cost
    return costs


_COSTS = _costs()


def load(where, content, classes=None, hint=""):
    """The object in a pickle of numbers, text, containers and arrays; DamagedFile of another.

    Strings of Python 2 become str, a character for each byte. `classes` are objects to be made
    besides: {(module, name): function of the {field: value} of one}. `where` and `hint` are for
    the message.
    """
    content, memory = bytes(content), limit("PD_PICKLE_LIMIT", MEMORY)
    names = {key: class_name(*key, make) for key, make in (classes or {}).items()}
    machine = Machine(content, KNOWN | names)
    try:
        value = _object(machine, memory)
        machine.at = len(content)
        _require_bounded(value, len(content))
    except _FAILURES as error:
        problem = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        raise DamagedFile(
            f"{where} is damaged: byte {machine.at} of the pickle: {problem}{hint}"
        ) from error
    return value


def load_samples(where, content, trusted):
    """The object in a pickle of samples; a trusted one may hold any class, and run anything.

    Python 2 pickled arrays and strings as text, a character for each byte.
    """
    return pickle.loads(content, encoding="latin1") if trusted else load(where, content, hint=_HINT)


def _object(machine, memory):
    if is_plain(machine.data, memory):
        with suppress(*_FAILURES):
            return load_plain(machine.data)
    return _run(machine, memory)  # which also says where a plain one is wrong


def _run(machine, memory):
    data, steps, costs = machine.data, _STEPS, _COSTS
    left, size = memory, len(data)
    while machine.at < size:
        code = data[machine.at]
        if code == _STOP:
            return machine.stack.pop()
        step = steps[code]
        if step is None:
            raise Refused(f"the opcode {_opcode(code)} is not carried out")
        machine.at += 1
        step(machine)
        left -= costs[code]
        if left < 0:
            more = f"its objects take more than {memory} bytes"
            raise Refused(more + raise_hint("PD_PICKLE_LIMIT"))
    raise Refused("it ends before the opcode STOP")


def _opcode(code):
    known = pickletools.code2op.get(chr(code))
    return known.name if known else f"{code:#04x}"


def _require_bounded(value, size):
    """Refuse what is too deep, holds itself, or is so often the same that a walk never ends."""
    level, expanded = {id(value): (value, 1)}, 0
    for _ in range(DEEPEST):
        below = {}
        for item, times in level.values():
            require(type(item) not in (Unbuilt, Name), "it holds a name, or half an object")
            if type(item) in _CONTAINERS:
                expanded += times * len(item)
                _count_below(below, item, times)
        require(expanded <= _EXPANSION * size, f"it holds {expanded} values in {size} bytes")
        level = below
        if not level:
            return
    raise Refused(f"it is more than {DEEPEST} levels deep, or holds itself")


def _count_below(below, container, times):
    """Add the containers inside of one to {id: (container, how often it occurs)}."""
    children = container.values() if isinstance(container, dict) else container
    for child in children:
        if type(child) in _INSPECTED:
            _, before = below.get(id(child), (None, 0))
            below[id(child)] = child, before + times
