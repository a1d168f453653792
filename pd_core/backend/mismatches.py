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


# What else the runtime says, of an operator and while it reads a model.
_STATUS = re.compile(r".*running (\w+) node\. Name:.*?Status Message: ?(.*)", re.DOTALL)
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : (.*)", re.DOTALL)
# Where in its source, and what it has checked there.
_SOURCE = re.compile(
    r"\S+\.(?:cc|h|hpp|cpp):\d+ (?:.* was false\. ?|\w+ |.*?\) (?=[A-Z]))?", re.DOTALL
)


def in_words(text: str) -> str:
    """Return what the runtime's message means, without its own files and functions."""
    for pattern, words in _WORDS:
        if match := re.match(pattern, text, re.DOTALL):
            return words(match)
    if match := _STATUS.match(text):
        reason = _without_source(match[2]) or "it takes no arrays of these sizes"
        return f"{match[1]}: {reason.removeprefix(match[1]).lstrip(': ')}"
    match = _CODE.match(text)
    return _without_source(match[1]) if match else text


def _without_source(text):
    return " ".join(_SOURCE.sub("", text, count=1).split())
