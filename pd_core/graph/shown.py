"""Texts of objects: `repr` from the signature of a class, and tables of HTML for notebooks."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

from .method import provide, provided
from .other_words import VARIABLE, place, place_rare
from .site import site_text
from .tensor_words import METHODS
from .variable import Variable, describe

_CELL = "text-align:{}; vertical-align:top; padding:0.15em 0.8em 0.15em 0"
_MISSING = object()


def with_settings(x: Any, always: Sequence[str] = ()) -> str:
    """Return `AdamOptimizer(learning_rate=0.001)`: arguments of the class as the object has them.

    Those that have their defaults are left out, unless they are `always` shown.
    """
    shown = []
    for name, default in _defaults(x.__class__).items():
        value = getattr(x, name, _MISSING)
        if value is not _MISSING and (name in always or _differs(value, default)):
            shown.append(f"{name}={_text(value)}")
    return f"{type(x).__name__}({', '.join(shown)})"


@cache
def _defaults(cls: type) -> dict[str, Any]:
    """{argument: default} of a class, with those that it hands on to its bases."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        own = vars(base).get("__init__")
        if inspect.isfunction(own):
            parameters = list(inspect.signature(own).parameters.values())[1:]
            for p in parameters:
                if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                    found.setdefault(p.name, p.default)
            if not any(p.kind == p.VAR_KEYWORD for p in parameters):
                break
    return found


def _differs(value: Any, default: Any) -> bool:
    return type(value) is not type(default) or bool(value != default)


def _text(value: Any) -> str:
    if isinstance(value, Variable):
        return value.name
    return getattr(value, "__qualname__", None) or repr(value)


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = (), numbers: int = 0
) -> str:
    """Return a table of texts, the last `numbers` columns to the right, and lines below it.

    It has no colours of its own, so that it is read on any background.
    """
    first = len(head) - numbers
    lines = []
    for tag, cells in (("th", head), *(("td", row) for row in rows)):
        styled = [
            f'<{tag} style="{_CELL.format("right" if k >= first else "left")}">{escape(c)}</{tag}>'
            for k, c in enumerate(cells)
        ]
        lines.append(f"<tr>{''.join(styled)}</tr>")
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<table>{''.join(lines)}</table>{below}"


def rich_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = (), numbers: int = 0
) -> Any:
    """Return the same as `html_table` for the package rich, which asks for it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table, first = Table(), len(head) - numbers
    for k, title in enumerate(head):
        table.add_column(Text(title), justify="right" if k >= first else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # no markup: a cell may have brackets
    return Group(table, *map(Text, notes))


def html_entries(title: str, entries: Mapping[str, str], text: str = "") -> str:
    """Return a title, a line for each entry, and a text with its line breaks."""
    lines = "".join(
        f'<tr><td style="{_CELL.format("left")}">{escape(name)}</td>'
        f'<td style="{_CELL.format("left")}">{escape(value)}</td></tr>'
        for name, value in entries.items()
    )
    after = f"<pre>{escape(text)}</pre>" if text else ""
    return f"<div><b>{escape(title)}</b></div><table>{lines}</table>{after}"


def _variable_html(v: Variable) -> str:
    """A Variable in a notebook: what it is, the line that built it, its value if it is known."""
    if v.value is not None:
        kind = "constant"
    elif v.is_persistent:
        kind = "parameter" if v.trainable else "persistent"
    else:
        kind = "feed slot" if v.is_feed else f"output of {getattr(v.node, 'op_type', 'a record')}"
    entries = {"is": f"{describe(v)}, {kind}"}
    site = v.site or getattr(v.node, "site", None)
    if site:
        entries["built at"] = site_text(site)
    at_hand = v.eager_value is not None or v.is_recorded
    value = provided["shown" if at_hand else "known"](v)
    return html_entries(v.name, entries, "" if value is None else str(value))


provide(html=_variable_html)
place(Variable, VARIABLE, settings=("requires_grad",))
place_rare(Variable, METHODS)
