"""A plotter of named curves for notebooks and files."""

import io
import os
from dataclasses import dataclass, field


@dataclass
class PlotData:
    """The points of one curve."""

    step: list = field(default_factory=list)
    value: list = field(default_factory=list)

    def append(self, step, value):
        """Add a point."""
        self.step.append(step)
        self.value.append(value)

    def reset(self):
        """Remove all points."""
        self.step.clear()
        self.value.clear()


class Ploter:
    """Plotter of one curve per title, drawn by plot() into a notebook or a file.

    With the environment variable DISABLE_PLOT=True points are recorded, but nothing is drawn.
    No display is needed: a figure is rendered in memory.
    """

    def __init__(self, *args):
        for title in args:
            _require_str(title)
        self.__plot_data__ = {title: PlotData() for title in args}
        self.__disable_plot__ = os.environ.get("DISABLE_PLOT")
        if not self.__plot_is_disabled__():
            _require_matplotlib()

    def __plot_is_disabled__(self):
        return self.__disable_plot__ == "True"

    def append(self, title, step, value):
        """Add a point to a curve."""
        _require_str(title)
        if title not in self.__plot_data__:
            titles = ", ".join(map(repr, self.__plot_data__)) or "none"
            raise ValueError(f"Ploter: no curve {title!r}, the titles are {titles}")
        self.__plot_data__[title].append(step, value)

    def plot(self, path=None):
        """Draw into the file `path`, or replace the last drawing in a notebook.

        Without a path and outside of a notebook nothing is drawn.
        """
        if self.__plot_is_disabled__():
            return
        if path is not None:
            title = os.path.splitext(os.path.basename(path))[0]
            _figure(self.__plot_data__, title).savefig(path)
        elif _in_ipython():
            _display(_figure(self.__plot_data__))

    def reset(self):
        """Remove the points of all curves."""
        for data in self.__plot_data__.values():
            data.reset()


def _require_str(title):
    if not isinstance(title, str):
        raise TypeError(f"Ploter: a title is a string, got {title!r}")


def _require_matplotlib():
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Ploter draws with matplotlib, which cannot be imported: {error}\n"
            "  hint: install it, or switch plotting off with the environment variable "
            "DISABLE_PLOT=True"
        ) from error


def _figure(curves, title=""):
    """Return a figure made without pyplot, so that no interactive backend is involved."""
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    for label, data in curves.items():
        if data.step:
            axes.plot(data.step, data.value, label=label)
    axes.set_xlabel("step")
    axes.set_title(title)
    labels = [line.get_label() for line in axes.lines]
    if labels:
        axes.set_ylabel(_shared_end(labels))
    if len(labels) > 1:
        axes.legend(loc="best")
    return figure


def _shared_end(titles):
    """The words in which titles end: `cost` of `train cost` and `test cost`; "" for none."""
    shared = []
    for words in zip(*(reversed(title.split()) for title in titles), strict=False):
        if len(set(words)) > 1:
            break
        shared.insert(0, words[0])
    return " ".join(shared)


def _in_ipython():
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None


def _display(figure):
    from IPython.display import Image, clear_output, display

    png = io.BytesIO()
    figure.savefig(png, format="png")
    clear_output(wait=True)
    display(Image(data=png.getvalue()))
