"""Messages of clients and their answers: one JSON object a line."""

import json
import math
import re
from dataclasses import dataclass

COMMANDS = ("save", "pause", "resume", "stop", "status", "metrics")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIELDS = {
    "sample": {"sample", "id"},
    "samples": {"samples", "id"},
    "command": {"command", "name", "id"},
    "token": {"token", "id"},
}
_LONGEST_ID = 256  # characters; answers repeat it


class MessageError(ValueError):
    """A message that is refused; `id` is that of the message, if it has a valid one."""

    def __init__(self, text, id=None):
        super().__init__(text)
        self.id = id


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a client; `kind` is one of samples, token and the names of the commands."""

    kind: str
    value: object = None  # samples: a list of them; token: the text; save: the name
    id: str | int | float | None = None
    is_single: bool = False  # samples: whether it was a single one


def parse(line):
    """Return the Message of a line, bytes without the newline; MessageError if it is none."""
    try:
        text = line.decode("utf-8")
        content = json.loads(text, parse_int=_integer, parse_constant=_refuse_constant)
    except MessageError:
        raise
    except RecursionError:
        raise MessageError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise MessageError(f"no JSON in UTF-8: {error}"[:200]) from None
    if not isinstance(content, dict):
        raise MessageError(f"a message is a JSON object, not {_shown(content)}")
    id = _id_of(content)
    try:
        return _message(content, id)
    except MessageError as error:
        error.id = id
        raise


def _integer(text):
    """An int of 64 bits, or a float: arrays of larger ints hold objects, or numbers by chance."""
    number = int(text)
    return number if -(2**63) <= number < 2**63 else float(text)


def _refuse_constant(name):
    raise MessageError(f"{name} is no JSON number")


def _id_of(content):
    id = content.get("id")
    if isinstance(id, bool | list | dict):
        raise MessageError("an id is a string or a number")
    if isinstance(id, float) and not math.isfinite(id):
        raise MessageError("an id is a finite number")
    if isinstance(id, str | int) and len(json.dumps(id)) > _LONGEST_ID:
        raise MessageError(f"an id has at most {_LONGEST_ID} characters")
    return id


def _message(content, id):
    kinds = [kind for kind in _FIELDS if kind in content]
    if len(kinds) != 1:
        raise MessageError("a message has one of sample, samples, command and token")
    unknown = content.keys() - _FIELDS[kinds[0]]
    if unknown:
        raise MessageError(f"a message with {kinds[0]} has no field {_shown(min(unknown))}")
    value = content[kinds[0]]
    if kinds[0] == "sample":
        return Message("samples", [value], id, is_single=True)
    if kinds[0] == "samples":
        if not isinstance(value, list):
            raise MessageError(f"samples is a list of samples, not {_shown(value)}")
        return Message("samples", value, id)
    if not isinstance(value, str):
        raise MessageError(f"{kinds[0]} is a string, not {_shown(value)}")
    if kinds[0] == "token":
        return Message("token", value, id)
    if value not in COMMANDS:
        raise MessageError(f"no command {_shown(value)}; there are {', '.join(COMMANDS)}")
    if value != "save":
        if "name" in content:
            raise MessageError(f"the command {value} takes no name")
        return Message(value, None, id)
    name = content.get("name")
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise MessageError(
            f"save: the name {_shown(name)} is not 1 to 64 letters, digits, '.', '_' and '-', "
            "the first one a letter or a digit"
        )
    return Message("save", name, id)


def _shown(value):
    """A JSON value as text for an error: a few characters, or only its type."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value if not isinstance(value, str) else value[:60])
    return text if len(text) <= 60 else f"{text[:57]}..."


class Answer:
    """The answer to a message; `line` is None until `succeed` or `fail` is called."""

    __slots__ = ("_fields", "line")

    def __init__(self, id=None, **fields):
        self._fields = fields if id is None else {"id": id, **fields}
        self.line = None

    def succeed(self, **fields):
        """Answer that what was asked for is done."""
        self._write({"ok": True, **self._fields, **fields})
        return self

    def fail(self, error):
        """Answer that it is not, with the reason."""
        self._write({"error": str(error), **self._fields})
        return self

    def _write(self, content):
        self.line = json.dumps(content, allow_nan=False).encode() + b"\n"


def finite(number):
    """Return a number for JSON, which has no NaN and no infinities: None for those."""
    return number if number is not None and math.isfinite(number) else None
