"""What does not fit when values are loaded by name."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import NamedTuple

_SHOWN = 12  # names of a list


class Misfits(NamedTuple):
    """The names that have no value, and the names of values that nothing has."""

    missing: list[str]
    unexpected: list[str]

    @property
    def missing_keys(self) -> list[str]:
        """`missing`, by PyTorch's name."""
        return self.missing

    @property
    def unexpected_keys(self) -> list[str]:
        """`unexpected`, by PyTorch's name."""
        return self.unexpected

    def text(self, who: str, known: Iterable[str] = ()) -> str:
        """Return what an error says of them: each list, and names that may be misspelt.

        `known` are other names that there are.
        """
        parts = [("missing", self.missing), ("unexpected", self.unexpected)]
        lines = [f"  {what:<10} {listed(names)}" for what, names in parts if names]
        close = [(name, near(name, self.missing)) for name in self.unexpected[:_SHOWN]]
        close = [(name, match or near(name, known)) for name, match in close]
        hints = [f"  hint: {name!r} may be {match!r} here" for name, match in close if match]
        counts = " and ".join([f"{len(names)} {what}" for what, names in parts if names])
        return "\n".join([f"{who}: names do not fit, {counts}", *lines, *hints[:_SHOWN]])


def listed(names: Collection[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    first = ", ".join(list(names)[:_SHOWN])
    return first + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def near(name: str, candidates: Iterable[str]) -> str | None:
    """Return a candidate that a misspelt name, or one with another prefix, may stand for."""
    every = list(candidates)
    tails = [c for c in every if c.endswith(f".{name}") or name.endswith(f".{c}")]
    same = [c for c in every if c.casefold() == name.casefold()]
    matches = same or tails or get_close_matches(name, every, 1, 0.75)
    matches = matches or [c for c in every if _initials(c) == _initials(name)]
    return matches[0] if matches else None


def _initials(name: str) -> str:
    """`fc.w` of `fc.W` and of the `fc.weight` of other frameworks."""
    head, dot, last = name.rpartition(".")
    return f"{head}{dot}{last[:1].casefold()}"
