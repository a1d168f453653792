"""The files that a training writes and who reads them; sizes are of files written here."""

import os
import tempfile
from pathlib import Path

from style import BLUE, GREEN, GREY, ORANGE, PURPLE, arrow, box, canvas, write

import pd_core as pd
from pd_core import tuning

FILES = ("export.svg", "on_device.svg")


def draw(folder):
    """Export a small network, and draw the flow of its files."""
    with tempfile.TemporaryDirectory() as work, pd.fresh(seed=1):
        sizes = written(Path(work))
    write(exported(sizes), folder, "export.svg")
    write(on_device(sizes), folder, "on_device.svg")


def written(folder):
    """Write the files; return {name: its size as text}."""
    image = pd.Variable("image", shape=[None, 784])
    label = pd.Variable("label", shape=[None], dtype="int64")
    logits = pd.fc(pd.fc(image, 64, act="relu"), 10)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(logits, label))
    step = pd.AdamOptimizer(0.001).minimize(cost)
    pd.export_onnx(folder / "model.onnx", pd.softmax(logits), inputs=[image])
    pd.export_step(folder / "step.onnx", step, fetches=[cost], initial=folder / "initial.onnx")
    pd.save(folder / "values.safetensors", [cost])
    with pd.fresh():
        task = tuning.objective(pd.import_onnx(folder / "model.onnx", training=True), "mse")
        tuning.generate_artifacts(folder / "artifacts", task, pd.AdamWOptimizer(0.001))
    files = [*folder.glob("*.*"), *folder.glob("artifacts/*")]
    return {p.name: f"{os.path.getsize(p) / 1000:.0f} kB" for p in files}


def named(sizes, name):
    """The text of a file."""
    return f"{name}, {sizes[name]}"


def exported(sizes):
    """A graph, its files, and what runs them."""
    drawn, axes = canvas(7.6, 3.3)
    small = {"fontsize": 8.5}
    box(axes, 1.5, 8.5, 15, 16, "your program:\na graph,\nits parameters\nin a session", BLUE)
    rows = (
        (
            24.5,
            "model.onnx",
            "pd.export_onnx",
            "inference, in any ONNX tool:\nC, C#, Java, web, phones",
        ),
        (
            13.5,
            "step.onnx initial.onnx",
            "pd.export_step",
            "training, in ONNX Runtime:\nPython, Node, browsers",
        ),
        (2.5, "values.safetensors", "pd.save, pd.load", "pd, and what reads safetensors"),
    )
    for (y, name, function, reader), color in zip(rows, (GREEN, ORANGE, PURPLE), strict=True):
        arrow(axes, (16.8, 16.5 + (y - 13.5) * 0.5), (31, y + 3), color=color)
        axes.text(24, y + (5 if y > 5 else 1), function, ha="center", color=color, **small)
        text = "\n".join(named(sizes, each) for each in name.split())
        box(axes, 31, y, 19, 6, text, color, **small)
        arrow(axes, (50.3, y + 3), (54, y + 3), color=color)
        box(axes, 54, y, 20.5, 6, reader, GREY, **small)
    return drawn


def on_device(sizes):
    """A model of any framework, its artifacts, and the loop on a device."""
    drawn, axes = canvas(7.6, 3.3)
    small = {"fontsize": 8.5}
    box(axes, 1.5, 13, 13, 7, "model.onnx\nof any framework", BLUE, **small)
    arrow(axes, (14.8, 16.5), (27, 16.5))
    axes.text(20.8, 17.2, "python -m pd_core\nartifacts", ha="center", va="bottom", **small)
    names = ("checkpoint.onnx", "training_model.onnx", "eval_model.onnx")
    for y, name, color in zip((24.5, 13.5, 2.5), names, (PURPLE, ORANGE, GREEN), strict=True):
        box(axes, 27, y, 19.5, 6, named(sizes, name), color, **small)
    arrow(axes, (46.8, 27.5), (57.5, 27.5), "first state", PURPLE)
    arrow(axes, (46.8, 16.5), (57.5, 16.5), "a run is a step", ORANGE)
    arrow(axes, (46.8, 5.5), (57.5, 5.5), "the same state", GREEN)
    box(axes, 57.5, 24.5, 16.5, 6, "state:\na dict of arrays", PURPLE, **small)
    box(axes, 57.5, 13.5, 16.5, 6, "batch and state in,\nloss and next state out", ORANGE, **small)
    box(axes, 57.5, 2.5, 16.5, 6, "evaluation:\nloss and output", GREEN, **small)
    arrow(axes, (63, 24.3), (63, 19.8))
    arrow(axes, (69, 19.8), (69, 24.3))
    arrow(axes, (66, 13.3), (66, 8.8))
    return drawn
