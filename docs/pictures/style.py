"""The look of the pictures: dark on a white card, so that light and dark pages show the same."""

import os
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

IMAGES = Path(__file__).resolve().parent.parent / "images"
BLUE, ORANGE, GREEN, PURPLE = "#0969da", "#bc4c00", "#1a7f37", "#8250df"
TEXT, GREY, LINE, PALE = "#1f2328", "#57606a", "#d0d7de", "#f6f8fa"
FILLS = {BLUE: "#ddf4ff", ORANGE: "#fff1e5", GREEN: "#dafbe1", PURPLE: "#fbefff", GREY: PALE}
SETTINGS = {
    "svg.fonttype": "none",  # text stays text: small files, and words that can be found
    "svg.hashsalt": "pd",  # the same bytes for the same picture
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": 9.5,
    "text.color": TEXT,
    "axes.labelcolor": GREY,
    "axes.edgecolor": LINE,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": matplotlib.cycler(color=[BLUE, ORANGE, GREEN, PURPLE, GREY]),
    "grid.color": "#eaeef2",
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": GREY,
    "ytick.labelcolor": GREY,
    "legend.frameon": False,
    "figure.facecolor": "white",
}
matplotlib.rcParams.update(SETTINGS)


def figure(width=7.2, height=3.0):
    """Return an empty figure, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def write(figure, folder, name):
    """Write a figure as SVG, or PNG by its suffix, without a date."""
    os.makedirs(folder, exist_ok=True)
    path = Path(folder) / name
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    if path.suffix == ".svg":  # lines without blanks at their ends
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


def canvas(width, height):
    """Return a figure and axes in tenths of an inch without ticks, for boxes and arrows."""
    drawn = Figure(figsize=(width, height))
    axes = drawn.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10 * width), ylim=(0, 10 * height))
    axes.axis("off")
    return drawn, axes


def box(axes, x, y, width, height, text, color=GREY, **font):
    """Draw a box with its lower left corner at (x, y) and text in its middle."""
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.6",
            facecolor=FILLS[color],
            edgecolor=color,
        )
    )
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", **font)


def arrow(axes, start, end, text="", color=GREY, **place):
    """Draw an arrow from one point to another, with text beside its middle."""
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color=color, shrinkA=0)
    )
    if text:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        place = {"ha": "center", "va": "bottom", **place}
        axes.text(x, y + 0.5, text, color=color, fontsize=8.5, **place)
