"""Comparison of two protobuf messages, field by field."""

from google.protobuf.message import Message


def differences(a, b):
    """Return the paths of the fields in which two messages differ: `inputs[0].conv_conf.stride`.

    A field that is set to its default is equal to one that is not set.
    """
    return list(_differences(_as_dict(a), _as_dict(b)))


def _differences(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from _differences(a.get(key), b.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _differences(x, y, f"{path}[{k}]")
    elif a != b:
        yield path


def _as_dict(message):
    """{field: value} of a message, without the fields that have their default."""
    fields = {}
    for field, value in message.ListFields():
        if isinstance(value, Message):
            fields[field.name] = _as_dict(value)
        elif not isinstance(value, (bool, int, float, str, bytes)):
            fields[field.name] = [_as_dict(v) if isinstance(v, Message) else v for v in value]
        elif value != field.default_value:
            # rounded, because some are recomputed: scale / size of a norm from scale and size
            fields[field.name] = f"{value:.12g}" if isinstance(value, float) else value
    return fields
