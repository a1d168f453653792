"""The graph of a small network and its cost, by `pd.draw`."""

from pathlib import Path

import pd_core as pd

FILES = ("graph.svg",)


def draw(folder):
    """Draw it."""
    with pd.fresh():
        image = pd.Variable("image", shape=[None, 784])
        target = pd.Variable("target", shape=[None, 10])
        with pd.namespace("encoder"):
            code = pd.fc(image, 64, act="relu")
        cost = pd.reduce_mean(pd.square(pd.fc(code, 10) - target))
        pd.draw(cost, Path(folder) / "graph.svg")
