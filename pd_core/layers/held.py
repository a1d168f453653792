"""Containers of layers: the layers and variables in lists, tuples and dicts, by name."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from ..graph.errors import NameConflict
from ..graph.holder import Holder
from ..graph.variable import Variable

_SEQUENCES, _UNORDERED = (list, tuple), (set, frozenset, deque)
_HOLDERS = (*_SEQUENCES, dict, *_UNORDERED, Holder)
_OWN = {  # attributes of every layer
    *("_layers", "_variables", "_buffers", "_held", "_loaded", "_lacking", "_names"),
    *("_pre_hooks", "_hooks", "_inputs", "_functions"),
}


class BufferName(str):
    """The name of a Variable that a `Holder` says is a buffer."""


class _OwnName(str):
    """A name that a `Holder` gives to a parameter, with any characters."""


class _OwnBufferName(_OwnName):
    """A name that a `Holder` gives to a buffer."""


class Part:
    """Base of what a layer may have below it."""


def may_hold(name: str, value: Any) -> bool:
    """Return whether there are layers or variables in an attribute, or may be later."""
    if type(value) is tuple:
        return any(isinstance(x, (Part, Variable)) or may_hold(name, x) for x in value)
    return isinstance(value, _HOLDERS) and name not in _OWN


def is_stored(x: Any) -> bool:
    """Return whether a part is a parameter or buffer, rather than a layer or a result."""
    return isinstance(x, Variable) and x.is_persistent


def held(name: str, value: Any) -> dict[str, Any]:
    """Return the layers and Variables in a value by their names, such as `name.0` and `name.key.1`.

    TypeError for a layer in a set, whose names would depend on chance, or under a key that is
    neither text nor a whole number; NameConflict for the keys 1 and "1".
    """
    named: dict[str, Any] = {}
    for keys, part in _held(name, value, ()):
        full = ".".join([name, *[_text(name, key, part) for key in keys]])
        full = BufferName(full) if isinstance(keys[-1], _OwnBufferName) else full
        if named.setdefault(full, part) is not part:
            raise NameConflict(f"{full!r} are two layers or variables: keys are equal as text")
    return named


def _held(name, value, inside) -> Iterator[tuple[tuple, Any]]:
    """Yield (keys, part) of all in a value; `inside` are the containers around it."""
    if any(value is outer for outer in inside):
        return
    if isinstance(value, Holder):
        for own, v, is_buffer in value.held_variables():
            yield (_OwnBufferName(own) if is_buffer else _OwnName(own),), v
        return
    is_unordered = isinstance(value, _UNORDERED)
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(list(value)))
    for key, x in [p for p in pairs if isinstance(p[1], (Part, Variable, *_HOLDERS))]:
        if not isinstance(x, (Part, Variable)):
            for keys, part in _held(name, x, (*inside, value)):
                yield (key, *keys), part
            continue
        if is_unordered and (isinstance(x, Part) or x.is_persistent):
            kind = type(value).__name__
            raise TypeError(
                f"{name}: {_what(x)} is in a {kind}, where it has no name\n"
                "  hint: keep layers and parameters in a list, a tuple or a dict"
            )
        yield (key,), x


def _text(name, key, part):
    if isinstance(key, _OwnName):
        return str(key)
    is_number = isinstance(key, int) and not isinstance(key, bool)
    if is_number or (isinstance(key, str) and key and "." not in key and "/" not in key):
        return str(key)
    if isinstance(part, Variable) and not part.is_persistent:
        return repr(key)  # it has no name in a file
    raise TypeError(
        f"{name}: {_what(part)} is under the key {key!r}\n"
        "  hint: keys of layers are whole numbers, or text without dots and slashes"
    )


def _what(part):
    return f"a {type(part).__name__}" if isinstance(part, Part) else repr(part)
