"""The page of 2017's details: each of its lines names a test that exists."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "legacy_details.md"
HEADER = ("| | in 2017 | here | test |", "|---|---|---|---|")


def lines():
    """The rows of all tables of the page."""
    text = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in text if line.startswith("|") and line not in HEADER]


@cache
def all_tests():
    """The names `module.function` of all tests."""
    return {
        f"{path.stem}.{name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }


@pytest.mark.parametrize("line", lines())
def test_a_line_names_tests_that_exist(line):
    cells = line.strip("|").split(" | ")
    assert len(cells) == 4, "a line has four cells: what, in 2017, here, tests"
    named = re.findall(r"`(.*?)`", cells[-1])
    assert named, "no test is named"
    assert set(named) <= all_tests()
