"""Three views of the same two trainings on digits: a bar, logged curves, and the report."""

import io
import os
import re
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.patches import Rectangle
from screens import ROOT, browser, served, shoot
from style import canvas, figure, write

import pd_core as pd
from pd_core import training

os.environ.setdefault("PD_DATASET_HOME", str(ROOT / "demos" / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

from pd_v2.dataset import mnist

FILES = ("bar.svg", "curves.svg", "report.png")
RATES, EPOCHS, BATCH = (0.1, 0.01), 4, 50


def draw(folder):
    """Train twice, and draw the three views."""
    data = [arrays(reader()) for reader in (mnist.train(), mnist.test())]
    with tempfile.TemporaryDirectory() as work:
        printed = [train(work, rate, *data) for rate in RATES]
        runs = training.write_report(Path(work) / "report.html", [Path(work) / "runs"])
        write(terminal(printed[0]), folder, "bar.svg")
        write(logged(runs), folder, "curves.svg")
        with served(work) as address, browser() as page:
            page.open(f"{address}/report.html")
            page.wait_for("document.readyState == 'complete'")
            shoot(page, Path(folder) / "report.png", 1000, 590)


def arrays(samples):
    """Pixels [n, 784] and labels [n]."""
    pixels, labels = zip(*samples, strict=True)
    return np.stack(pixels), np.array(labels)


class Network(pd.nn.Module):
    """A perceptron."""

    def __init__(self):
        super().__init__("digits")
        self.layers = pd.nn.Sequential(pd.nn.FC(64, act="relu"), pd.nn.FC(10))

    def forward(self, pixels):
        return self.layers(pixels)


def train(work, rate, data, test):
    """Train with a bar and a log; return what the bar printed."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # with its blocks
    settings = {"rate": rate, "optimizer": "SGD"}
    with pd.fresh(seed=1):
        Network().fit(
            *data,
            validation_data=test,
            optimizer=pd.SGDOptimizer(rate),
            loss=pd.nn.SoftmaxCrossEntropy(),
            metrics=["accuracy"],
            epochs=EPOCHS,
            batch_size=BATCH,
            verbose=False,
            callbacks=[
                training.Log(f"{work}/runs/rate {rate}", every=2, settings=settings),
                training.Progress(every=20, file=out, disable=False),
            ],
        )
    out.flush()
    return out.buffer.getvalue().decode("utf-8")


def terminal(printed):
    """The lines that stay, and one in the middle of the last pass, as a terminal shows them."""
    drawings = [line.strip() for line in re.split(r"[\r\n]", printed) if line.strip()]
    by_pass = {}
    for line in drawings:
        by_pass.setdefault(line[: len("pass 1/4")], []).append(line)
    *done, last = by_pass.values()
    lines = [d[-1] for d in done] + [last[len(last) // 2]]
    drawn, axes = canvas(10, 0.22 * len(lines) + 0.2)
    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, color="#0d1117"))
    for k, line in enumerate(lines):
        place = {"transform": axes.transAxes, "va": "center", "family": "monospace"}
        height = 1 - (k + 0.95) / (len(lines) + 0.9)
        axes.text(0.015, height, line, color="#e6edf3", fontsize=8, **place)
    return drawn


def logged(runs):
    """Draw the logged curves of a tag with its tests, as TensorBoard does."""
    drawn = figure(7.6, 2.8)
    panels = drawn.subplots(1, 2)
    tags = {"cost": "cross-entropy, nats", "accuracy": "share of right digits"}
    for axes, (tag, unit) in zip(panels, tags.items(), strict=True):
        for run, color in zip(runs, ("C0", "C1"), strict=True):
            for kind, style in (("train", {"alpha": 0.35, "linewidth": 0.8}), ("test", {})):
                points = run.curves[f"{kind}/{tag}"].points()
                marker = "o" if kind == "test" else ""
                label = f"{run.name}: {kind}"
                axes.plot(
                    *zip(*points, strict=True), marker=marker, color=color, label=label, **style
                )
        axes.set(title=tag, xlabel="batch", ylabel=unit, ylim=(0, None))
    panels[0].legend(fontsize=8)
    return drawn
