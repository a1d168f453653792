"""The md5 sums that are accepted for a file of a dataset: the published one and the user's.

The user lists md5 sums in $PD_DATASET_MD5, or in a file NAME.md5 beside the file, e.g. one that
`md5sum` wrote.
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
    """Return the md5 sums that are accepted for the file at `path`, the published one first.

    An empty tuple, if none was published, means that any content is accepted.
    """
    if published is None:
        return ()
    return tuple(dict.fromkeys((published.lower(), *_from_environment(), *_from_file(path))))


def _from_environment():
    for word in re.split(r"[,\s]+", os.environ.get("PD_DATASET_MD5", "").strip(", \t\n")):
        if word and not _DIGEST.fullmatch(word):
            raise ValueError(
                f"PD_DATASET_MD5 is a list of md5 sums, 32 hexadecimal digits each: not {word!r}"
            )
        if word:
            yield word.lower()


def _from_file(path):
    listing = f"{path}.md5"
    if not os.path.exists(listing):
        return
    with open(listing, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(map(str.strip, file), 1):
            if line and not line.startswith("#"):
                yield from _from_line(f"{listing}:{number}", line, os.path.basename(path))


def _from_line(place, line, name):
    """Yield the sum in a line, if it is for the file `name`."""
    match = next(filter(None, (form.fullmatch(line) for form in _LINES)), None)
    if match is None:
        raise ValueError(f"{place}: expected an md5 sum, or a line of md5sum, got {line[:60]!r}")
    if match["name"] is None or os.path.basename(match["name"]) == name:
        yield match["digest"].lower()
