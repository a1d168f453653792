"""Values that differ between training and inference, or between forward and backward."""

from ..graph.checks import differ
from ..graph.errors import ShapeError
from ..graph.node import composite
from ..graph.update import Assignment
from ..graph.variable import constant


def mode_switch(training, inference, effects=()):
    """`training` in a training step, `inference` elsewhere; the other side does not run.

    `effects` are (persistent variable, new value) pairs that a training step through here
    stores, such as moving statistics.
    """
    a, b = constant(training), constant(inference)
    if differ(a, b) or a.dtype != b.dtype:
        raise ShapeError(f"mode_switch: {a!r} in training, but {b!r} in inference")
    assignments = tuple([Assignment(v, value) for v, value in effects])
    return composite("ModeSwitch", a, b, types=[(a.dims, a.dtype)], effects=assignments)


def stop_gradient(x):
    """x, through which no gradient flows back."""
    return composite("StopGradient", x, types=[(constant(x).dims, constant(x).dtype)])


def straight_through(value, x):
    """`value`, whose whole gradient goes to x, of the same shape (Bengio et al. 2013)."""
    value, x = constant(value), constant(x)
    if differ(value, x) or value.dtype != x.dtype:
        raise ShapeError(f"straight_through: the value is {value!r}, the gradient goes to {x!r}")
    return composite("StraightThrough", value, x, types=[(value.dims, value.dtype)])


def clip_gradient(x, limit):
    """x, whose incoming gradient is held within [-limit, limit] elementwise."""
    x = constant(x)
    return composite("ClipGradient", x, types=[(x.dims, x.dtype)], limit=float(limit))


def scale_gradient(x, factor):
    """x, whose incoming gradient is multiplied by a number."""
    x = constant(x)
    return composite("ScaleGradient", x, types=[(x.dims, x.dtype)], factor=float(factor))
