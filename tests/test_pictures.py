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


def run(*arguments):
    """What `python docs/pictures` prints, in a process of its own: it sets up matplotlib."""
    command = [sys.executable, ROOT / "docs" / "pictures", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def texts(path):
    """The texts of an SVG."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"<text[^>]*>([^<]+)</text>", text)


def test_each_picture_has_a_script_and_a_page():
    drawn = [line.split()[1] for line in run("--list").splitlines()]
    there = sorted(path.name for path in IMAGES.iterdir())
    assert sorted(drawn) == there
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


def test_they_show_what_their_scripts_draw(tmp_path):
    run(*SAME, "--out", str(tmp_path))
    files = [file for names in SAME.values() for file in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    for file in files:
        assert texts(tmp_path / file) == texts(IMAGES / file), f"python docs/pictures, for {file}"


def test_scripts_of_quick_runs_work(tmp_path):
    quick = ["files", "layer_times", *(["graph"] if shutil.which("dot") else [])]
    run(*quick, "--out", str(tmp_path))
    assert {"export.svg", "on_device.svg", "profile.svg"} <= {p.name for p in tmp_path.iterdir()}
    for path in tmp_path.iterdir():  # times and sizes are those of this machine
        new, old = (
            {re.sub(r"\d+", "#", t) for t in texts(p / path.name)} for p in (tmp_path, IMAGES)
        )
        assert new == old and len(new) > 5
