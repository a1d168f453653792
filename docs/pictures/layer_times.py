"""Where the time of a training step goes, by layer and pass, as `pd.profile` measures it."""

import numpy as np
from style import BLUE, GREEN, ORANGE, figure, write

import pd_core as pd

FILES = ("profile.svg",)
PASSES = {"forward": BLUE, "backward": ORANGE, "update": GREEN}


def draw(folder):
    """Profile a LeNet and draw the times of its layers."""
    profile = profiled()
    times: dict[str, dict[str, float]] = {}
    for row in profile.rows(by="layer"):
        if row.phase in PASSES:
            times.setdefault(row.name, {})[row.phase] = 100 * row.share
    drawn = figure(7.2, 2.6)
    axes = drawn.subplots()
    left = np.zeros(len(times))
    for phase, color in PASSES.items():
        each = np.array([t.get(phase, 0.0) for t in times.values()])
        axes.barh(list(times), each, 0.65, left, color=color, label=phase)
        left += each
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="share of the time of a step, %")
    axes.legend(loc="lower right")
    write(drawn, folder, "profile.svg")


def profiled():
    """A profile of twenty steps."""
    rng = np.random.default_rng(0)
    with pd.fresh(seed=1):
        x = pd.Variable("x", shape=[None, 1, 28, 28])
        label = pd.Variable("label", shape=[None], dtype="int64")
        h = pd.layer.conv2d(x, 20, 5, act="relu")
        h = pd.layer.conv2d(pd.max_pool(h, 2, 2), 50, 5, act="relu")
        h = pd.fc(pd.flatten(pd.max_pool(h, 2, 2)), 500, act="relu")
        cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(h, 10), label))
        step = pd.AdamOptimizer(0.001).minimize(cost)
        feeds = {x: rng.random((64, 1, 28, 28)), label: rng.integers(0, 10, 64)}
        with pd.profile() as profile:
            for _ in range(21):
                pd.eval([cost, step], feeds)
    return profile
