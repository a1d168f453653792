"""Samples of the generator of docs/gans.md, before, during and after its training."""

import re
from pathlib import Path

import numpy as np
from style import BLUE, ORANGE, figure, write

import pd_core as pd

FILES = ("gan.png",)
PAGE = Path(__file__).resolve().parent.parent / "gans.md"
STEPS = (0, 100, 400, 2000)


def draw(folder):
    """Run the page up to its training, then train on and draw samples."""
    with pd.fresh(seed=1):
        names = {}
        for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
            code, loop, _ = block.partition("for _ in range(400):")
            exec(code, names)
            if loop:
                break
        panels = {}
        for step in range(max(STEPS) + 1):
            if step in STEPS:
                panels[f"{step:,} steps"] = pd.eval(names["fake"], feeds=names["batch"](300))
            pd.eval(names["d_step"], feeds=names["batch"]())
            pd.eval(names["g_step"], feeds=names["batch"]())
    circle = np.linspace(0, 2 * np.pi, 100)
    drawn = figure(7.6, 2.9)
    for axes, (title, points) in zip(drawn.subplots(1, len(STEPS)), panels.items(), strict=True):
        axes.plot(np.cos(circle), np.sin(circle), color=BLUE, linewidth=1.2, label="real")
        axes.plot(*points.T, ".", color=ORANGE, markersize=2.5, label="generated")
        axes.set(title=title, xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal", xlabel="x")
        axes.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    drawn.axes[0].set_ylabel("y")
    drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    write(drawn, folder, "gan.png")
