"""The base class of distributions, and helpers for their parameters, values and draws."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.broadcast import broadcast_dims
from ...graph.errors import DTypeError, GraphError, ShapeError
from ...graph.node import refined
from ...graph.variable import Operand, Variable, describe
from .. import math as m
from ..mode import stop_gradient
from ..promotion import as_dtype
from ..shape import concat, expand, shape_of
from ..sizes import TargetShape, shape_operand


class Distribution:
    """A distribution for each element of the shape of its parameters.

    `sample(sizes)` draws [*sizes, ...] without a gradient, `rsample(sizes)` with one, and
    `log_prob(value)` is the logarithm of the density or probability at values that broadcast
    against the parameters. `mean`, `variance`, `stddev` and `entropy()` are [...]. Where a value is
    a vector, the last `event_rank` axes of values and moments are those of one value: `event_shape`
    after `batch_shape`. What a distribution does not have is a GraphError.
    """

    parameters: Sequence[str] = ()
    event_rank = 0

    @property
    def batch_shape(self) -> tuple[int | str | None, ...]:
        """The sizes of log-probabilities; None where they are known at run time only."""
        shape = self.like().shape
        return shape[: len(shape) - self.event_rank]

    @property
    def event_shape(self) -> tuple[int | str | None, ...]:
        """The sizes of one value, () for numbers."""
        shape = self.like().shape
        return shape[len(shape) - self.event_rank :]

    def like(self) -> Variable:
        """Return a Variable of the shape of one draw for each distribution.

        Returns:
            Floats [*batch_shape, *event_shape].
        """
        value: Variable = getattr(self, self.parameters[0])
        return value

    @property
    def mean(self) -> Variable:
        """The mean."""
        raise self._without("mean")

    @property
    def variance(self) -> Variable:
        """The variance."""
        raise self._without("variance")

    @property
    def stddev(self) -> Variable:
        """The standard deviation."""
        return m.sqrt(self.variance)

    def log_prob(self, value: Operand) -> Variable:
        """Return the logarithm of the density, or of the probability, at values.

        Args:
            value: values that broadcast against [...].

        Returns:
            Floats.
        """
        raise self._without("log_prob")

    def cdf(self, value: Operand) -> Variable:
        """Return the probability of draws up to values.

        Args:
            value: values that broadcast against [...].

        Returns:
            Floats.
        """
        raise self._without("cdf")

    def icdf(self, probability: Operand) -> Variable:
        """Return the quantiles, which draws are below with a probability: the inverse of `cdf`.

        Args:
            probability: floats in [0, 1] that broadcast against [...].

        Returns:
            Floats.
        """
        raise self._without("icdf")

    def entropy(self) -> Variable:
        """Return the entropy, in nats.

        Returns:
            Floats [...].
        """
        raise self._without("entropy")

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters.

        Args:
            sizes: sizes in front of [...], Variables among them.

        Returns:
            Floats [*sizes, ...].
        """
        raise self._without("rsample")

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], without a gradient.

        Args:
            sizes: sizes in front of [...], Variables among them.

        Returns:
            [*sizes, ...].
        """
        return stop_gradient(self.rsample(sizes))

    def _without(self, what):
        return GraphError(f"{type(self).__name__} has no {what}")

    def __repr__(self) -> str:
        given = (f"{name}={getattr(self, name).name}" for name in self.parameters)
        return f"{type(self).__name__}({', '.join(given)})"


def floats_of(who: str, **parameters: Operand) -> list[Variable]:
    """Return the parameters as floats of one shape."""
    own = [v.dtype for v in parameters.values() if isinstance(v, Variable) and v.dtype.kind == "f"]
    kind = own[0] if own else np.dtype(np.float32)  # of the numbers and arrays beside them, too
    values = [v if isinstance(v, Variable) else as_dtype(v, kind) for v in parameters.values()]
    values = [v if v.dtype.kind == "f" else m.cast(v, kind) for v in values]
    if broadcast_dims(*(v.dims for v in values)) is None or len({v.dtype for v in values}) > 1:
        text = ", ".join(f"{k} {describe(v)}" for k, v in zip(parameters, values, strict=True))
        error = DTypeError if len({v.dtype for v in values}) > 1 else ShapeError
        raise error(f"{who}: the parameters do not fit each other: {text}")
    if len(values) == 1 or len({v.dims for v in values}) == 1:
        return values
    dims: Any = broadcast_dims(*(v.dims for v in values))
    shape = list(dims) if all(isinstance(d, int) for d in dims) else shape_of(sum(values))
    return [refined(expand(v, shape), dims) for v in values]


def one_of(who: str, probs: Operand | None, logits: Operand | None) -> Any:
    """Return (probs, None) or (None, logits), whichever is given."""
    if (probs is None) == (logits is None):
        raise TypeError(f"{who}: takes probs or logits")
    (value,) = floats_of(who, **({"probs": probs} if logits is None else {"logits": logits}))
    return (value, None) if logits is None else (None, value)


def value_like(value: Operand, like: Variable) -> Variable:
    """Return values in the dtype of a parameter, without a loss of digits that nobody asked for."""
    if not isinstance(value, Variable) or value.literal:
        return as_dtype(value, like.dtype)
    if value.dtype.kind == "f" and value.dtype != like.dtype:
        raise DTypeError(
            f"log_prob: values {describe(value)} for parameters {describe(like)}\n"
            f'  hint: cast() one of them; numbers are given as pd.constant(0.0, "{value.dtype}")'
        )
    return value if value.dtype == like.dtype else m.cast(value, like.dtype)


def standard_score(value: Operand, loc: Variable, scale: Variable) -> Variable:
    """Return (value - loc) / scale."""
    return (value_like(value, loc) - loc) / scale


def drawn(draw: Callable[..., Variable], sizes: Any, like: Variable) -> Variable:
    """Return draws of [*sizes, *the shape of a parameter], of its dtype."""
    sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    if like.is_static:
        return draw([*sizes, *like.dims], dtype=like.dtype)
    if not sizes:
        return refined(draw(shape_of(like), dtype=like.dtype), like.dims)
    return draw(concat([shape_operand(sizes), shape_of(like)]), dtype=like.dtype)
