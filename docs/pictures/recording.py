"""Steps of a loop inside `pd.guard()`: their times, and which of them compile a program."""

from time import perf_counter

import numpy as np
from style import BLUE, GREY, ORANGE, TEXT, figure, write

import pd_core as pd

FILES = ("recording.svg",)
STEPS, ODD, BRANCH = 24, 10, 17  # a batch of another size; from there on another branch


def draw(folder):
    """Run the loop and draw its times."""
    runs = [run() for _ in range(5)]
    milliseconds = np.min([times for times, _ in runs], 0)  # other programs run here, too
    compiled = runs[0][1]
    drawn = figure(7.2, 2.7)
    axes = drawn.subplots()
    colors = [ORANGE if count else BLUE for count in compiled]
    axes.bar(range(1, STEPS + 1), milliseconds, 0.8, color=colors)
    axes.set_yscale("log")
    top = max(milliseconds)
    notes = {
        1: "the first step\ncompiles its programs",
        ODD: "a batch of another size\nruns the same programs",
        BRANCH: "another branch of an if\nin Python: one more program",
    }
    for step, text in notes.items():
        axes.annotate(
            text,
            (step, milliseconds[step - 1]),
            (step + 0.9, top * (1.0 if step == 1 else 0.8)),
            va="top",
            color=TEXT,
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": GREY, "shrinkB": 2},
        )
    for color, label in ((ORANGE, "compiles"), (BLUE, "runs programs that are there")):
        axes.bar(0, 0, color=color, label=label)
    drawn.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    axes.set(xlabel="step", ylabel="ms, logarithmic", ylim=(min(milliseconds) / 2, top * 1.4))
    axes.set_xlim(0.2, STEPS + 0.8)
    axes.grid(axis="x", visible=False)
    write(drawn, folder, "recording.svg")


def run():
    """Return the time of each step, and how many programs it compiled."""
    rng = np.random.default_rng(0)
    milliseconds, compiled = [], []
    pd.clear_programs()
    with pd.fresh(seed=1):
        net = pd.nn.Sequential(pd.nn.FC(64, act="tanh"), pd.nn.FC(64, act="tanh"), pd.nn.FC(1))
        optimizer = pd.AdamOptimizer(0.01)
        with pd.guard():
            for step in range(1, STEPS + 1):
                x = rng.normal(size=(48 if step == ODD else 32, 8)).astype(np.float32)
                before, start = pd.stats()["compiled"], perf_counter()
                error = net(x) - x.sum(1, keepdims=True)
                loss = pd.reduce_mean(pd.abs(error) if step >= BRANCH else pd.square(error))
                loss.backward()
                optimizer.minimize(loss)
                net.clear_gradients()
                float(loss)
                milliseconds.append(1000 * (perf_counter() - start))
                compiled.append(pd.stats()["compiled"] - before)
    return milliseconds, compiled
