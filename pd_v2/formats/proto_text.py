"""Messages as text, as `print` showed them in 2017: floats have 12 digits, and a point."""

import numpy as np
from google.protobuf import descriptor, text_encoding

_FLOAT, _DOUBLE = descriptor.FieldDescriptor.TYPE_FLOAT, descriptor.FieldDescriptor.TYPE_DOUBLE


def message_text(message, indent=""):
    """Return the fields of a message that are set, a line for each value, by their numbers."""
    lines = []
    for field, value in message.ListFields():
        for one in value if hasattr(value, "extend") else [value]:
            if field.message_type is None:
                lines.append(f"{indent}{field.name}: {_scalar_text(field, one)}\n")
            else:
                inner = message_text(one, indent + "  ")
                lines.append(f"{indent}{field.name} {{\n{inner}{indent}}}\n")
    return "".join(lines)


def _scalar_text(field, value):
    if isinstance(value, str):
        return f'"{text_encoding.CEscape(value, as_utf8=False)}"'
    if isinstance(value, bool):
        return str(value).lower()
    return _float_text(value, field.type) if field.type in (_FLOAT, _DOUBLE) else str(value)


def _float_text(value, kind):
    """Return a float as Python 2 printed it; one of single precision by its shortest digits."""
    number = float(str(np.float32(value))) if kind == _FLOAT else value
    digits = f"{number:.12g}"
    return digits if any(sign in digits for sign in ".enai") else digits + ".0"
