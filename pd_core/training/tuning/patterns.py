"""Names of tensors by pattern."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from ...graph.errors import ModelError


def select(who: str, what: str, names: Iterable[str], patterns: str | Sequence[str]) -> list[str]:
    """Return the names that match a pattern such as `"encoder.*"`, in their order.

    ModelError, which `who` begins, for a pattern that matches none; `what` the names are of.
    """
    known = list(names)
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in wanted:
        if not any(_matches(name, pattern) for name in known):
            listed = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            there = f"there are {listed}" if known else "there is none"
            raise ModelError(f"{who}: no {what} matches {pattern!r}; {there}")
    return [name for name in known if any(_matches(name, p) for p in wanted)]


def _matches(name, pattern):
    return name == pattern or fnmatchcase(name, pattern)
