"""Python 2 programs and what they print, in the files of snippets/.

A program begins with `## name`; the lines it prints follow it, each after `#> `. Those lines are
what Python 2.7.18 printed, except in packages.txt: there was no numpy beside it.
"""

import re
from pathlib import Path

import pytest

# Nobody closed files in 2017.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def _snippets():
    for path in sorted((Path(__file__).parent / "snippets").glob("*.txt")):
        _, *parts = re.split(r"(?m)^## (\w+)\n", path.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            source, mark, printed = text.partition("#> ")
            expected = re.sub(r"(?m)^#> ?", "", (mark + printed).rstrip("\n") + "\n")
            yield pytest.param(source, expected, id=f"{path.stem}-{name}")


@pytest.mark.parametrize(("source", "expected"), list(_snippets()))
def test_snippet(source, expected, python2):
    assert python2(source) == expected
