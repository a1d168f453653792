"""Values that differ between training and inference, or between forward and backward pass."""

from collections.abc import Sequence
from contextvars import ContextVar

from ..graph.checks import differ
from ..graph.errors import ShapeError
from ..graph.node import composite
from ..graph.op import op
from ..graph.recording import recorder
from ..graph.update import Assignment
from ..graph.variable import Operand, Variable, constant

# Composites around a part of the graph, whose outputs they take first: marks for the backward pass,
# which programs leave out.
SEGMENTS = frozenset({"Recompute", "CustomGradient"})

_mode: ContextVar[bool | None] = ContextVar("pd_core.mode", default=None)


# What ops build their result for, see `in_mode`; None outside of it: for both.
mode = _mode.get


_in_body: ContextVar[bool] = ContextVar("pd_core.in_body", default=False)
in_body = _in_body.get  # whether the body of a loop or branch is built, which assigns with its node


class building_body:
    """Build the body of a loop or branch inside a `with`; or, not `inside`, what is around it."""

    __slots__ = ("inside", "token")

    def __init__(self, inside: bool = True) -> None:
        self.inside = inside

    def __enter__(self) -> None:
        self.token = _in_body.set(self.inside)

    def __exit__(self, *exc: object) -> None:
        _in_body.reset(self.token)


class in_mode:
    """Build what is inside a `with` for training, or for inference alone.

    For inference, ops have their inference side only, also in a training step. For training they
    have both, and the evaluation selects one.

    A class, since every call of a layer enters it: `contextmanager` takes a microsecond.
    """

    __slots__ = ("token", "training")

    def __init__(self, training: bool) -> None:
        self.training = training

    def __enter__(self) -> None:
        self.token = _mode.set(self.training)

    def __exit__(self, *exc: object) -> None:
        _mode.reset(self.token)


@op
def mode_switch(
    training: Operand, inference: Operand, effects: Sequence[tuple[Variable, Variable]] = ()
) -> Variable:
    """Return `training` in a training step, `inference` otherwise; the other one is not computed.

    `effects` are pairs (persistent variable, new value) that a training step which computes the
    result stores, such as moving statistics.

    Args:
        training: a Variable.
        inference: a Variable of the same shape and dtype.
        effects: pairs (persistent variable, new value).

    Returns:
        One of the two.

    Raises:
        ShapeError: the two have different shapes.
    """
    a, b = constant(training), constant(inference)
    if differ(a, b) or a.dtype != b.dtype:
        raise ShapeError(f"{a!r} in training, but {b!r} in inference")
    if mode() is False:
        return b
    recording = recorder()
    if recording is not None and not (effects and in_body()):
        if effects:
            recording.assign_with(a, [(v, constant(value)) for v, value in effects])
        return a
    b = b if recording is None else a
    assignments = tuple([Assignment(v, value, is_effect=True) for v, value in effects])
    return composite("ModeSwitch", a, b, types=[(a.dims, a.dtype)], effects=assignments)


@op
def stop_gradient(x: Operand) -> Variable:
    """Return x as a constant to gradients: PyTorch's detach.

    Args:
        x: of any dtype and shape.

    Returns:
        X.
    """
    return composite("StopGradient", x, types=[(constant(x).dims, constant(x).dtype)])


@op
def straight_through(value: Operand, x: Operand) -> Variable:
    """Straight-through estimator: `value`, whose gradient goes to x unchanged (Bengio et al. 2013).

    Both have the same shape and dtype.

    Args:
        value: floats of any shape.
        x: floats of this shape.

    Returns:
        The value.

    Raises:
        ShapeError: the shapes differ.
    """
    value, x = constant(value), constant(x)
    if differ(value, x) or value.dtype != x.dtype:
        raise ShapeError(f"the value is {value!r}, the gradient goes to {x!r}")
    return composite("StraightThrough", value, x, types=[(value.dims, value.dtype)])


@op
def clip_gradient(x: Operand, limit: float) -> Variable:
    """Return x; clip its gradient to [-limit, limit] elementwise in the backward pass.

    Args:
        x: floats of any shape.
        limit: a number.

    Returns:
        X.
    """
    x = constant(x)
    return composite("ClipGradient", x, types=[(x.dims, x.dtype)], limit=float(limit))


@op
def scale_gradient(x: Operand, factor: float) -> Variable:
    """Return x; multiply its gradient by a number in the backward pass.

    Args:
        x: floats of any shape.
        factor: a number.

    Returns:
        X.
    """
    x = constant(x)
    return composite("ScaleGradient", x, types=[(x.dims, x.dtype)], factor=float(factor))
