"""How `repr` shows the arguments of a layer."""

from typing import Any


def arguments(*values: Any, **options: tuple[Any, Any]) -> str:
    """Return `4, kernel=3`: the values, then each option (value, default) that is not its default.

    Functions are shown by their names, empty texts left out.
    """
    changed = [f"{k}={_text(v)}" for k, (v, default) in options.items() if v != default]
    return ", ".join([text for text in (*map(_text, values), *changed) if text])


def _text(value):
    return getattr(value, "__name__", None) or str(value)
