"""The pictures of the documentation: scripts draw them, pages show them, and they are small."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
LARGEST, ALL = 150_000, 2_000_000  # bytes
# What they show is the same on every machine.
SAME = {
    "packing": ["packing.svg"],
    "ranks": ["ranks.svg"],
    "schedules": ["schedules.svg"],
    "speed": ["speed.svg", "performance.svg"],
}


QUICK = ("files", "layer_times", *(["graph"] if shutil.which("dot") else []))
# `python docs/pictures` with some arguments, and then with others
TWICE = """
import runpy, sys
folder, *arguments = sys.argv[1:]
for sys.argv in [folder, "--list"], [folder, *arguments]:
    runpy.run_path(folder, run_name="__main__")
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """What is printed, and the folder of pictures; in a process that sets up matplotlib."""
    folder = tmp_path_factory.mktemp("pictures")
    arguments = [ROOT / "docs" / "pictures", *SAME, *QUICK, "--out", folder]
    command = [sys.executable, "-c", TWICE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


def texts(path):
    """The texts of an SVG."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"<text[^>]*>([^<]+)</text>", text)


def test_each_picture_has_a_script_and_a_page(drawn):
    listed = [line.split()[1] for line in drawn[0].splitlines() if not line.endswith(" kB")]
    there = sorted(path.name for path in IMAGES.iterdir())
    assert sorted(listed) == there
    shown = {
        Path(target).name
        for page in PAGES
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        if (page.parent / target).resolve().parent == IMAGES
    }
    assert sorted(shown) == there


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in IMAGES.iterdir()}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}
    assert sum(sizes.values()) < ALL


def test_they_show_what_their_scripts_draw(drawn):
    _, folder = drawn
    same = {file for names in SAME.values() for file in names}
    files = {path.name for path in folder.iterdir()}
    assert same | {"export.svg", "on_device.svg", "profile.svg"} <= files
    for file in files:
        new, old = texts(folder / file), texts(IMAGES / file)
        if file not in same:  # times and sizes are those of this machine
            new, old = ({re.sub(r"\d+", "#", t) for t in found} for found in (new, old))
        assert new == old and len(new) > 5, f"python docs/pictures, for {file}"
