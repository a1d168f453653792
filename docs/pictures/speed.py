"""Speed beside PyTorch and JAX, from the first table of docs/performance.md."""

import re
from math import exp, log
from pathlib import Path

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator
from style import BLUE, GREEN, GREY, LINE, ORANGE, PURPLE, figure, write

FILES = ("speed.svg", "performance.svg")
PAGE = Path(__file__).resolve().parent.parent / "performance.md"
PEERS = {"PyTorch": BLUE, "PyTorch compiled": PURPLE, "JAX": ORANGE}


def table():
    """Return [(network, ms, [time of each peer / time of pd])]; the middle of a range counts."""
    text = PAGE.read_text(encoding="utf-8")
    body = text[text.index("| training step, or inference |") :].partition("\n\n")[0]
    rows = []
    for line in body.splitlines()[2:]:
        name, milliseconds, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        ratios = [middle(map(float, re.findall(r"\d+\.\d+|\d+", c))) for c in cells[: len(PEERS)]]
        rows.append((name, float(milliseconds), ratios))
    return rows


def middle(numbers):
    """The geometric mean."""
    numbers = list(numbers)
    return exp(sum(map(log, numbers)) / len(numbers))


def draw(folder):
    """Draw the means for the README, and every row."""
    rows = table()
    write(means(rows), folder, "speed.svg")
    write(dots(rows), folder, "performance.svg")


def means(rows):
    """Geometric means over the training steps and over inference, as bars."""
    groups = {
        "training": [r for name, _, r in rows if not runs_forward(name)],
        "inference": [r for name, _, r in rows if runs_forward(name)],
    }
    drawn = figure(7.2, 2.5)
    axes = drawn.subplots()
    place = 0
    for group, ratios in groups.items():
        axes.text(0.012, place - 0.85, f"{group}: {len(ratios)} networks", weight="bold")
        columns = zip(*ratios, strict=True)
        for (peer, color), column in zip(PEERS.items(), columns, strict=True):
            mean = middle(column)
            axes.barh(place, mean, 0.7, color=color)
            axes.text(mean + 0.02, place, f"{mean:.2f}", va="center", color=GREY)
            axes.text(0.03, place, peer, va="center", color="white")
            place += 1
        place += 1.2
    one(axes, -1.3, place - 1.4)
    axes.set(
        xlim=(0, 2), ylim=(place - 1.4, -1.4), yticks=[], xlabel="time of the other / time of pd"
    )
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    return drawn


def runs_forward(name):
    """Whether a row is about inference."""
    return "inference" in name or "generation" in name


def one(axes, low, high):
    """A line where both take the same time."""
    axes.plot([1, 1], [low, high], color="#1f2328", linewidth=1)
    axes.annotate("pd is faster →", (1.03, low + 0.35), color=GREEN, fontsize=8.5)


def dots(rows):
    """Each row with a dot for each peer, on a logarithmic axis."""
    drawn = figure(7.6, 0.24 * len(rows) + 1.1)
    axes = drawn.subplots()
    heights = np.arange(len(rows))
    ratios = np.array([r for _, _, r in rows])
    axes.hlines(heights, ratios.min(1), ratios.max(1), color=LINE, linewidth=2)
    for k, (peer, color) in enumerate(PEERS.items()):
        axes.plot(ratios[:, k], heights, "o", color=color, markersize=6, label=peer)
    one(axes, -1, len(rows))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([0.33, 0.5, 0.7, 1, 1.5, 2, 3]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(heights, [shortened(name) for name, _, _ in rows], fontsize=8.5)
    axes.set(ylim=(len(rows) - 0.3, -1.2), xlabel="time of the other / time of pd, logarithmic")
    axes.tick_params(axis="y", length=0)
    drawn.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3)
    return drawn


def shortened(name):
    """The name of a row without sizes that the table has, where it is long."""
    parts = name.split(", ")
    text = parts[0]
    for part in parts[1:]:
        if len(text) + len(part) < 44:
            text += f", {part}"
    return text
