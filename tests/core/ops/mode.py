"""Rows of what differs between training and inference."""

import numpy as np

from pd_core import ops

from .case import case, normal


def _switch(x, y):
    return ops.mode_switch(ops.tanh(x) * y, ops.exp(x))


CASES = [
    case(
        "ModeSwitch",
        _switch,
        lambda x, y: np.tanh(x) * y,
        [normal(3, 4), normal(3, 4)],
        batch=(0, 1),
        training=True,
    ),
    case("ModeSwitch", _switch, lambda x, y: np.exp(x), [normal(3, 4), normal(3, 4)], batch=(0, 1)),
    case(
        "stop_gradient",
        lambda x: ops.stop_gradient(x) * 1.0,
        lambda x: x,
        [normal(3, 4)],
        smooth=False,
    ),
    case(
        "StraightThrough",
        lambda x: ops.straight_through(x * 1.0, x),
        lambda x: x,
        [normal(3, 4)],
    ),
    case(
        "ScaleGradient",
        lambda x: ops.scale_gradient(x, 1.0),
        lambda x: x,
        [normal(3)],
        label="by one",
    ),
    case(
        "ClipGradient",
        lambda x: ops.clip_gradient(x, 100.0),
        lambda x: x,
        [normal(3)],
        label="wide",
    ),
    case("ModeSwitch", lambda x: ops.mode_switch(x, x), lambda x: x, [normal(3)], label="same"),
]
