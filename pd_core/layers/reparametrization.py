"""Layers around a layer, which compute one of its parameters in each call."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..graph.errors import GraphError, ShapeError
from ..graph.initializers import Derived
from ..graph.variable import Variable
from .conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .layer import Computed, Layer
from .parameter import Parameter
from .text import arguments

_START = 15  # power iterations before the first step, as in PyTorch


class _Reparametrized(Layer):
    """Base: `layer` with a parameter that `_weight` computes.

    It may be around another one, for two parameters of a layer.
    """

    _weight: Callable[[tuple[int, ...], Parameter], Variable]
    _own: tuple[str, ...]  # names of the parameters that it has itself

    def __init__(self, layer: Layer, parameter: str, axis: int | None, name: str | None) -> None:
        super().__init__(name)
        if not isinstance(layer, Layer):
            raise TypeError(f"{type(self).__name__}: takes a layer, not {layer!r}")
        self.layer, self.of, self.axis = layer, parameter, axis
        layer.compute_parameter(parameter, self._weight)

    def compute_parameter(self, name: str, function: Computed) -> None:
        """Let a function compute a parameter of this layer, or of the layer in it."""
        if name in self._own:
            super().compute_parameter(name, function)
        else:
            self.layer.compute_parameter(name, function)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        layer = vars(self).get("layer")
        if layer is not None:  # what its calls compute may be another now
            vars(layer)["_repeats"] = False

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the layer computes of the inputs."""
        output = self.layer(*inputs, **kwargs)
        if not self._variables:
            there = ", ".join(name for name, _ in self.layer.named_parameters()) or "none"
            raise GraphError(
                f"{type(self).__name__}: {type(self.layer).__name__} has no parameter {self.of!r} "
                f"of its own, it has {there}"
            )
        return output

    def _axis_of(self, shape):
        """Return the axis of the outputs of a parameter, or the one that was given."""
        rank, axis = len(shape), self.axis
        if rank < 2:
            raise ShapeError(
                f"{type(self).__name__}: takes a matrix or filters, {self.of!r} is {list(shape)}"
            )
        if axis is None:
            is_transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
            return 1 if rank == 2 or isinstance(innermost(self), is_transposed) else 0
        if not -rank <= axis < rank:
            raise ShapeError(
                f"{type(self).__name__}: there is no axis {axis} of {self.of!r}, {list(shape)}"
            )
        return axis % rank

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(parameter=(self.of, "W"), axis=(self.axis, None))


class WeightNorm(_Reparametrized):
    """A layer with the weight g v / |v| (Salimans & Kingma 2016).

    Norms are those of the units: over all axes but `axis`, which is that of the outputs by default,
    1 of a matrix and of transposed filters, 0 of other filters. v begins as the weight would, and g
    as its norms. Parameters: g, of size 1 along the other axes, v, and those of the layer but
    `parameter`.
    """

    g: Variable
    v: Variable
    _own = ("g", "v")

    def __init__(
        self, layer: Layer, parameter: str = "W", axis: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(layer, parameter, axis, name)

    def _weight(self, shape, spec):
        axis = self._axis_of(shape)
        axes = [k for k in range(len(shape)) if k != axis]
        v = self.parameter("v", shape, spec)
        sizes = [n if k == axis else 1 for k, n in enumerate(shape)]
        g = self.parameter("g", sizes, Derived(v, partial(_norms, axes)))
        return v * (g / ops.sqrt(ops.reduce_sum(ops.square(v), axes, keep_dim=True)))


class SpectralNorm(_Reparametrized):
    """A layer with the weight W / s, s its largest singular value (Miyato et al. 2018).

    Filters are the matrix of `axis` and all others. A training step improves the singular vectors
    u and v by `iterations` of the power method; gradients take them as constants. `axis` is that
    of WeightNorm. Parameters: W, and those of the layer but `parameter`; buffers: u, v.
    """

    W: Variable
    u: Variable
    v: Variable
    _own = ("W", "u", "v")

    def __init__(
        self,
        layer: Layer,
        parameter: str = "W",
        iterations: int = 1,
        epsilon: float = 1e-12,
        axis: int | None = None,
        name: str | None = None,
    ) -> None:
        if iterations < 1:
            raise ValueError(f"SpectralNorm: takes 1 iteration or more, not {iterations}")
        super().__init__(layer, parameter, axis, name)
        self.iterations, self.epsilon = iterations, epsilon

    def _weight(self, shape, spec):
        axis = self._axis_of(shape)
        w = self.parameter("W", shape, spec)
        rows, columns = shape[axis], int(np.prod(shape)) // shape[axis]
        u = self.buffer("u", [rows], Derived(w, partial(_singular, axis, 0)), w.dtype)
        v = self.buffer("v", [columns], Derived(w, partial(_singular, axis, 1)), w.dtype)
        matrix = ops.reshape(ops.move_axis(w, axis, 0), [rows, columns])
        new_u, new_v = u, v
        for _ in range(self.iterations):
            new_u = self._unit(matrix @ new_v)
            new_v = self._unit(new_u @ matrix)
        new_u, new_v = ops.stop_gradient(new_u), ops.stop_gradient(new_v)
        largest = ops.mode_switch(
            ops.reduce_sum(new_u * (matrix @ new_v)),
            ops.reduce_sum(u * (matrix @ v)),
            [(u, new_u), (v, new_v)],
        )
        return w / largest

    def _unit(self, x):
        return x / ops.maximum(ops.sqrt(ops.reduce_sum(ops.square(x))), self.epsilon)

    def extra(self) -> str:
        """Return what is not the default."""
        return arguments(
            super().extra(), iterations=(self.iterations, 1), epsilon=(self.epsilon, 1e-12)
        )


def innermost(layer: Layer) -> Layer:
    """Return the layer that a WeightNorm or SpectralNorm is around, or one around another."""
    return innermost(layer.layer) if isinstance(layer, _Reparametrized) else layer


def _norms(axes, value):
    return np.sqrt(np.square(value).sum(tuple(axes), keepdims=True))


def _singular(axis, side, value):
    """Return the first left or right singular vector by power iterations; zeros of zeros."""
    matrix = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1).astype(np.float64)
    u = np.zeros(len(matrix))
    v = np.random.default_rng(0).standard_normal(matrix.shape[1])
    for _ in range(_START):
        u = _unit_of(matrix @ v)
        v = _unit_of(u @ matrix)
    return (u, v)[side]


def _unit_of(x):
    return x / max(np.linalg.norm(x), 1e-12)
