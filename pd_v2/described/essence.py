"""When two messages say the same."""

from google.protobuf.message import Message


def differences(made, described):
    """The fields in which two messages differ, as `inputs[0].conv_conf.stride`.

    A field that says what the schema says anyway is like one that is not there.
    """
    return list(_differences(_essence(made), _essence(described)))


def _differences(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from _differences(a.get(key), b.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _differences(x, y, f"{path}[{k}]")
    elif a != b:
        yield path


def _essence(message):
    """{field: value} of a message, without what is as the schema says anyway."""
    found = {}
    for field, value in message.ListFields():
        if isinstance(value, Message):
            found[field.name] = _essence(value)
        elif not isinstance(value, (bool, int, float, str, bytes)):
            found[field.name] = [_essence(v) if isinstance(v, Message) else v for v in value]
        elif value != field.default_value:
            found[field.name] = f"{value:.12g}" if isinstance(value, float) else value
    return found
