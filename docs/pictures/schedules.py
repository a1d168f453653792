"""Learning rates over the steps of a training, computed by the schedules themselves."""

import numpy as np
from style import figure, write

import pd_core as pd

FILES = ("schedules.svg",)
STEPS = 100
decay, cosine = pd.schedules.ExponentialDecay, pd.schedules.CosineDecay
SCHEDULES = {
    "ExponentialDecay(0.1, decay=0.5, every=20)": decay(0.1, decay=0.5, every=20),
    "InverseTimeDecay(0.1, decay=0.05)": pd.schedules.InverseTimeDecay(0.1, decay=0.05),
    "PolynomialDecay(0.1, 100)": pd.schedules.PolynomialDecay(0.1, STEPS),
    "CosineDecay(0.1, 100)": cosine(0.1, STEPS),
    "Piecewise([40, 80], [0.1, 0.05, 0.01])": pd.schedules.Piecewise([40, 80], [0.1, 0.05, 0.01]),
    "Warmup(CosineDecay(0.1, 80), 20)": pd.schedules.Warmup(cosine(0.1, 80), 20),
    "CosineRestarts(0.1, 15, factor=2)": pd.schedules.CosineRestarts(0.1, 15, factor=2),
    "OneCycle(0.1, steps=100)": pd.schedules.OneCycle(0.1, steps=STEPS),
}


def draw(folder):
    """Draw each in a panel of its own."""
    steps = np.arange(STEPS + 1, dtype=np.float32)
    drawn = figure(7.8, 4.6)
    panels = drawn.subplots(4, 2, sharex=True, sharey=True)
    with pd.fresh():
        rates = pd.eval([schedule(pd.constant(steps)) for schedule in SCHEDULES.values()])
    for axes, name, rate in zip(panels.flat, SCHEDULES, rates, strict=True):
        axes.step(steps, rate, where="post")
        axes.set_title(name, fontsize=8.5)
        axes.set(ylim=(0, 0.11), yticks=[0, 0.05, 0.1], xlim=(0, STEPS))
    drawn.supxlabel("step", fontsize=9.5)
    drawn.supylabel("learning rate", fontsize=9.5)
    write(drawn, folder, "schedules.svg")
