"""Values that differ between training and inference, in one graph."""

from ..errors import ShapeError
from ..node import Assignment, composite
from ..variable import constant


def mode_switch(training, inference, effects=()):
    """`training` in a training step, `inference` elsewhere; the other side does not run.

    `effects` are (persistent variable, new value) pairs that a training step through here
    stores, such as moving statistics.
    """
    a, b = constant(training), constant(inference)
    if a.rank != b.rank or a.dtype != b.dtype:
        raise ShapeError(f"mode_switch: {a!r} in training, but {b!r} in inference")
    y = composite("ModeSwitch", a, b, types=[(a.dims, a.dtype)])
    y.node.effects = tuple(Assignment(v, value) for v, value in effects)
    return y


def stop_gradient(x):
    """x, through which no gradient flows back."""
    return composite("StopGradient", x, types=[(constant(x).dims, constant(x).dtype)])
