"""Random numbers, reproducible from the session's seed.

Every number is a hash of (seed, step, name of the draw, element), computed in the graph with
integer products. So pruning or adding parts of a graph changes no other draw, no runtime merges
two draws as equal nodes, and any ONNX runtime gives the same numbers. In the body of a loop every
iteration draws anew.
"""

import math
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import whole
from ..graph.errors import ShapeError
from ..graph.names import current_namespace, names
from ..graph.node import composite
from ..graph.op import op
from ..graph.recording import recorder
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .control import loop_counters
from .mode import mode, mode_switch
from .shape import concat, shape_of, size_of
from .sizes import TargetShape, dims_of, shape_operand


@op
def uniform_random(
    shape: TargetShape, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = "float32"
) -> Variable:
    """Uniform random numbers on [low, high), drawn anew in every evaluation.

    `shape` is a list of sizes, some of which may be Variables, or an int64 Variable.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of this shape and dtype.

    Raises:
        ShapeError: a size is negative.
    """
    shape, dims = _shape(shape)
    u = _uniform(shape, _name("uniform_random_"), dims)
    return m.cast(u * float(high - low) + float(low), dtype)


@op
def gaussian_random(
    shape: TargetShape, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = "float32"
) -> Variable:
    """Normal random numbers N(mean, std^2), drawn anew in every evaluation (Box & Muller 1958).

    `shape` is a list of sizes, some of which may be Variables, or an int64 Variable.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of this shape and dtype.

    Raises:
        ShapeError: a size is negative.
    """
    (shape, dims), name = _shape(shape), _name("gaussian_random_")
    radius = m.sqrt(m.log(1.0 - _uniform(shape, name + "/radius", dims)) * -2.0)
    cosine = m.cos(_uniform(shape, name + "/angle", dims) * (2.0 * math.pi))
    return m.cast(radius * cosine * float(std) + float(mean), dtype)


@op
def bernoulli(x: Operand, probability: float) -> Variable:
    """Bernoulli draws in the shape and dtype of x: 1 with the given probability, else 0.

    Args:
        x: floats of any shape.
        probability: within [0, 1].

    Returns:
        Of the shape and dtype of x.

    Raises:
        ValueError: the probability is outside [0, 1].
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"bernoulli: a probability is within [0, 1], not {probability}")
    x = constant(x)
    name = _name("bernoulli_")
    u = _uniform(shape_of(x) if not x.is_static else x.dims, name, x.dims)
    return m.cast(u < float(probability), x.dtype)


@op
def dropout(x: Operand, rate: float = 0.5, *, upscale_in_train: bool = True) -> Variable:
    """Zero each element with probability `rate` in a training step; return x in inference.

    Training divides the elements that are kept by 1 - rate. With upscale_in_train=False it does
    not, and inference multiplies by 1 - rate instead.

    Args:
        x: floats of any shape.
        rate: within [0, 1).

    Returns:
        Of the shape and dtype of x.

    Raises:
        ValueError: the rate is outside [0, 1).
    """
    x = constant(x)
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: the rate is within [0, 1), not {rate}")
    if rate == 0:
        return x
    if mode() is False:
        return x if upscale_in_train else x * (1.0 - rate)
    kept = x * bernoulli(x, 1.0 - rate)
    if upscale_in_train:
        return mode_switch(kept * (1.0 / (1.0 - rate)), x)
    return mode_switch(kept, x * (1.0 - rate))


@op
def stochastic_depth(x: Operand, rate: float, mode: str = "row") -> Variable:
    """Zero whole rows of x [N, ...] with probability `rate` in a training step (Huang et al. 2016).

    The rows that are kept are divided by 1 - rate; inference returns x. With the mode "batch" all
    rows are dropped or none.

    Args:
        x: numbers [N, ...].
        rate: a probability, in [0, 1).
        mode: "row" or "batch".

    Returns:
        The shape and dtype of x.

    Raises:
        ShapeError: x is a scalar.
        ValueError: the rate or the mode is another.
    """
    x = constant(x)
    if not 0 <= rate < 1:
        raise ValueError(f"the rate is within [0, 1), not {rate}")
    if mode not in ("row", "batch"):
        raise ValueError(f'the mode is "row" or "batch", not {mode!r}')
    if x.rank < 1:
        raise ShapeError(f"takes rows [N, ...], not {describe(x)}")
    if rate == 0 or _is_inference():
        return x
    name, ones = _name("stochastic_depth_"), (1,) * (x.rank - 1)
    rows = whole([1]) if mode == "batch" else size_of(x, 0)
    shape = concat([rows, whole(ones)]) if ones else rows
    u = _uniform(shape, name, (1 if mode == "batch" else x.dims[0], *ones))
    kept = x * m.cast(u < 1.0 - rate, x.dtype)
    return mode_switch(kept * (1.0 / (1.0 - rate)), x)


def _is_inference():
    """Whether what is built is for inference alone."""
    return mode() is False


def _name(prefix):
    """The name of a draw, which tells it from every other of a static graph.

    What is recorded anew in every call of a layer has the names of the static graph, which is
    built once.
    """
    recording, namespace = recorder(), current_namespace()
    if recording is None:
        return namespace + names().next(prefix)
    return recorded_name(namespace, prefix, recording.number_of_draw(namespace, prefix))


def recorded_name(namespace: str, prefix: str, number: int) -> str:
    """Return the name of a draw that is recorded while values are at hand."""
    return f"{namespace}{namespace}{prefix}{number}"


def _shape(shape):
    """A shape to draw as a Variable and its dims, checked before the draw gets its name."""
    target = shape_operand(shape)
    if target.rank != 1 or not isinstance(target.dims[0], int):
        raise ShapeError(f"takes a shape of known rank, not {target!r}")
    if target.value is not None and (target.value < 0).any():
        raise ShapeError(f"a size is not negative, {target.value.tolist()}")
    return target, dims_of(target)


def _uniform(shape: Any, name, dims):
    """Draw uniform float32 on [0, 1); the name tells this draw from every other."""
    target: Any = whole(shape)
    types, stream = [(tuple(dims), np.dtype(np.float32))], crc32(name.encode())
    recording = recorder()
    key = stream if recording is None else recording.draw(stream)
    return composite("Uniform", target, *loop_counters(), types=types, key=key)
