import sys
import types

import pytest

from pd_v2.plot import Ploter
from pd_v2.plot.plot import _figure


@pytest.fixture
def disabled(monkeypatch):
    monkeypatch.setenv("DISABLE_PLOT", "True")


@pytest.fixture
def enabled(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("DISABLE_PLOT", raising=False)


def test_points_are_kept_per_title(disabled):
    ploter = Ploter("train cost", "test cost")
    for step in range(3):
        ploter.append("train cost", step, step * 0.5)
    ploter.append("test cost", 0, 7)
    data = ploter.__plot_data__
    assert (data["train cost"].step, data["train cost"].value) == ([0, 1, 2], [0.0, 0.5, 1.0])
    assert (data["test cost"].step, data["test cost"].value) == ([0], [7])
    ploter.reset()
    assert [data[title].step + data[title].value for title in data] == [[], []]


def test_disabled_needs_no_matplotlib_and_writes_nothing(disabled, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ploter = Ploter("cost")
    ploter.append("cost", 0, 1)
    ploter.plot(str(tmp_path / "cost.png"))
    ploter.plot()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["1", "true", ""])
def test_only_true_disables(value, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setenv("DISABLE_PLOT", value)
    with pytest.raises(ImportError, match=r"(?s)draws with matplotlib.*hint: .*DISABLE_PLOT=True"):
        Ploter("cost")


def test_plot_writes_a_png_and_needs_no_display(enabled, tmp_path, monkeypatch):
    for name in ("matplotlib.pyplot", "tkinter"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delenv("DISPLAY", raising=False)
    ploter = Ploter("train", "test")
    ploter.plot(str(tmp_path / "empty.png"))
    ploter.append("train", 0, 1.0)
    ploter.append("train", 1, 0.5)
    ploter.plot(str(tmp_path / "cost.png"))
    for name in ("empty.png", "cost.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_curve_per_title_that_has_points(enabled):
    ploter = Ploter("train", "test", "unused")
    ploter.append("test", 3, 0.25)
    ploter.append("train", 5, 0.5)
    (axes,) = _figure(ploter.__plot_data__).axes
    assert [(line.get_label(), *line.get_xydata()[0]) for line in axes.lines] == [
        ("train", 5, 0.5),
        ("test", 3, 0.25),
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["train", "test"]


@pytest.mark.parametrize(
    ("titles", "label"),
    [(["train cost", "test cost"], "cost"), (["train cost"], "train cost"), (["a", "b"], "")],
)
def test_the_axis_has_what_titles_share(enabled, titles, label, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path: drawn.append(self))
    ploter = Ploter(*titles)
    for title in titles:
        ploter.append(title, 0, 1.0)
    ploter.plot(str(tmp_path / "lenet.png"))
    (axes,) = drawn[0].axes
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("lenet", "step", label)


def fake_ipython(monkeypatch, shell):
    """Modules in place of IPython, and the list of what they were asked to show."""
    shown = []
    root, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    root.get_ipython = lambda: shell
    root.display = display
    display.Image = lambda data: data[:4]
    display.clear_output = lambda wait: shown.append(("clear", wait))
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", root)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_notebook_shows_the_drawing_in_place_of_the_last(enabled, monkeypatch):
    shown = fake_ipython(monkeypatch, shell=object())
    Ploter("cost").plot()
    assert shown == [("clear", True), b"\x89PNG"]


def test_outside_a_notebook_nothing_is_shown(enabled, monkeypatch):
    shown = fake_ipython(monkeypatch, shell=None)
    Ploter("cost").plot()
    assert shown == []


def test_plot_without_ipython_does_not_fail(enabled, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert Ploter("cost").plot() is None


def test_wrong_titles(disabled):
    with pytest.raises(TypeError, match="Ploter: a title is a string, got 3"):
        Ploter("cost", 3)
    ploter = Ploter("train", "test")
    with pytest.raises(ValueError, match="no curve 'tset', the titles are 'train', 'test'"):
        ploter.append("tset", 0, 1)
    with pytest.raises(TypeError, match="a title is a string, got None"):
        ploter.append(None, 0, 1)
