"""Which content of a dataset's file is taken: what was published, and what the user names.

The user names md5 sums in $PD_DATASET_MD5, or in a file NAME.md5 beside the file, which may be one
that `md5sum` wrote.
"""

import os
import re

_DIGEST = re.compile(r"[0-9a-f]{32}", re.IGNORECASE)
# `DIGEST`, `DIGEST  NAME` and `DIGEST *NAME` of md5sum, `MD5 (NAME) = DIGEST` of BSD's md5
_LINES = (
    re.compile(r"(?P<digest>[0-9a-f]{32})(?:\s+\*?(?P<name>.+))?", re.IGNORECASE),
    re.compile(r"MD5 ?\((?P<name>.+)\) ?= ?(?P<digest>[0-9a-f]{32})", re.IGNORECASE),
)


def trusted(path, published):
    """The md5 sums of what may be used as the file at `path`, the published one first.

    None published means that anything may, and gives none.
    """
    if published is None:
        return ()
    return tuple(dict.fromkeys((published.lower(), *_in_environment(), *_beside(path))))


def _in_environment():
    for word in re.split(r"[,\s]+", os.environ.get("PD_DATASET_MD5", "").strip(", \t\n")):
        if word and not _DIGEST.fullmatch(word):
            raise ValueError(
                f"PD_DATASET_MD5 is a list of md5 sums, 32 hexadecimal digits each: not {word!r}"
            )
        if word:
            yield word.lower()


def _beside(path):
    listing = f"{path}.md5"
    if not os.path.exists(listing):
        return
    with open(listing, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(map(str.strip, file), 1):
            if line and not line.startswith("#"):
                yield from _of_line(f"{listing}:{number}", line, os.path.basename(path))


def _of_line(place, line, name):
    """The sum that a line has for the file `name`, if it is of that file."""
    match = next(filter(None, (form.fullmatch(line) for form in _LINES)), None)
    if match is None:
        raise ValueError(f"{place}: expected an md5 sum, or a line of md5sum, got {line[:60]!r}")
    if match["name"] is None or os.path.basename(match["name"]) == name:
        yield match["digest"].lower()
