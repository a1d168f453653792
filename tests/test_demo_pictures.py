"""Pictures that the demos draw: with matplotlib, and as text without it."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

PICTURE = Path(__file__).resolve().parents[1] / "demos" / "picture.py"


def drawing():
    """The demos' module of pictures, executed anew."""
    spec = importlib.util.spec_from_file_location("demo_picture", PICTURE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_picture_is_text_without_matplotlib(tmp_path, monkeypatch, capsys):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    drawing().curves(tmp_path / "a.png", "loss", {"train": [3, 2, 1, 0]}, "step", "loss")
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.endswith("a.png: matplotlib is not installed, this is the picture as text")
    assert lines[0] == "loss (train), from 0 to 3"
    assert lines[1].startswith("|t ")
    assert lines[-2].endswith(" t")
    assert sum(line.count("t") for line in lines[1:]) == 4
    assert not list(tmp_path.iterdir())


def test_points_that_are_joined_and_equal_axes(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path: drawn.append(self))
    cloud = np.arange(6.0).reshape(3, 2)
    panels = {"title": {"a": cloud, "b": cloud}}
    drawing().points(tmp_path / "a.png", panels, "x", "y", lines=["b"], equal=True)
    (axes,) = drawn[0].axes
    assert [(line.get_linestyle(), line.get_marker()) for line in axes.lines] == [
        *(("None", "."), ("-", "None"))
    ]
    assert axes.get_aspect() == 1.0 and axes.get_title() == "title"


def test_a_table_shows_its_numbers(tmp_path, monkeypatch, capsys):
    figure = pytest.importorskip("matplotlib.figure")
    picture, drawn = drawing(), []
    arguments = (tmp_path / "a.png", "pairs", [[5, 0], [1, 7]], "found", "digit", "ab", "cd")
    with monkeypatch.context() as patch:
        patch.setattr(figure.Figure, "savefig", lambda self, path: drawn.append(self))
        picture.table(*arguments)
    (axes,) = drawn[0].axes
    assert [text.get_text() for text in axes.texts] == ["5", "1", "7"]  # no zeros
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("found", "digit")
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    capsys.readouterr()
    picture.table(*arguments)
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["c", "5", "0"], ["d", "1", "7"]]
