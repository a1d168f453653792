"""Sizes that turn out not to fit when a program runs, in words instead of the runtime's."""

import re
from collections.abc import Callable


def _list(sizes: str) -> str:
    """`{3,-1}` as `[3, ?]`; the runtime writes a scalar as `{}`."""
    return f"[{', '.join('?' if s == '-1' else s for s in sizes.split(',') if s)}]"


# What the kernels of Reshape, Concat and of elementwise operators say, and what to say instead.
_WORDS: tuple[tuple[str, Callable[[re.Match], str]], ...] = (
    (
        r".*running (\w+) node.*?Input shape:\{([-\d,]*)\}, requested shape:\{([-\d,]*)\}",
        lambda m: f"{m[1]}: the elements of {_list(m[2])} do not fit {_list(m[3])}",
    ),
    (
        r".*running (\w+) node.*?Axis (\d+) has mismatched dimensions of (\d+) and (\d+)",
        lambda m: f"{m[1]}: sizes {m[3]} and {m[4]} of axis {m[2]} must be equal",
    ),
    (
        r".*running (\w+) node.*?broadcast an axis by a dimension other than 1\. (\d+) by (\d+)",
        lambda m: f"{m[1]}: sizes {m[2]} and {m[3]} must be equal, or one of them 1",
    ),
)


def in_words(text: str) -> str:
    """Return the runtime's message, or what it means if it is about sizes that do not fit."""
    for pattern, words in _WORDS:
        if match := re.match(pattern, text, re.DOTALL):
            return words(match)
    return text
