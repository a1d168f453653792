"""Pooling to a given size."""

from ..graph.checks import per_axis
from ..graph.errors import ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from .conv import Sizes, avg_pool, max_pool
from .reduce import reduce_max, reduce_mean
from .shape import concat, slice


@op
def adaptive_avg_pool(x: Operand, size: Sizes) -> Variable:
    """Mean pooling of x [N, C, *S] to [N, C, *size], PyTorch's adaptive_avg_pool2d.

    Window k of an axis of S elements reaches from floor(k S / size) to ceil((k + 1) S / size).
    A size known only at run time can be pooled to 1.

    Args:
        x: floats [N, C, *S].
        size: a number, or one for each spatial axis.

    Returns:
        [N, C, *size].

    Raises:
        ShapeError: x has no spatial axes, one of unknown size is pooled to more than 1, or a size
            is below 1.
    """
    return _adaptive_pool(x, size, avg_pool, reduce_mean)


@op
def adaptive_max_pool(x: Operand, size: Sizes) -> Variable:
    """Maximum pooling of x [N, C, *S] to [N, C, *size], the windows as in adaptive_avg_pool.

    Args:
        x: floats [N, C, *S].
        size: a number, or one for each spatial axis.

    Returns:
        [N, C, *size].

    Raises:
        ShapeError: x has no spatial axes, one of unknown size is pooled to more than 1, or a size
            is below 1.
    """
    return _adaptive_pool(x, size, max_pool, reduce_max)


@op
def global_avg_pool(x: Operand) -> Variable:
    """Mean of each channel of x [N, C, *S], whose sizes may be unknown: [N, C, 1, ...].

    Args:
        x: floats [N, C, *S].

    Returns:
        [N, C, 1, ...].

    Raises:
        ShapeError: x has no spatial axes.
    """
    x = constant(x)
    return reduce_mean(x, _spatial_axes(x), keep_dim=True)


@op
def global_max_pool(x: Operand) -> Variable:
    """Maximum of each channel of x [N, C, *S]: [N, C, 1, ...]; gradients as `reduce_max`.

    Args:
        x: floats [N, C, *S].

    Returns:
        [N, C, 1, ...].

    Raises:
        ShapeError: x has no spatial axes.
    """
    x = constant(x)
    return reduce_max(x, _spatial_axes(x), keep_dim=True)


def _spatial_axes(x):
    if x.rank < 3:
        raise ShapeError(f"takes [N, C, ...] with axes to pool, not {x!r}")
    return list(range(2, x.rank))


def _adaptive_pool(x, size, pool, reduce):
    x = constant(x)
    n = x.rank - 2
    if n < 1:
        raise ShapeError(f"takes [N, C, ...] with axes to pool, not {x!r}")
    sizes = per_axis(size, n)
    if any(k < 1 for k in sizes):
        raise ShapeError(f"pools to sizes of 1 or more, not {sizes}")
    unknown = [axis for axis in range(2, x.rank) if isinstance(x.dims[axis], str)]
    if any(sizes[axis - 2] != 1 for axis in unknown):
        raise ShapeError(f"{x!r} has axes of unknown size, which pool to 1 only, not to {sizes}")
    x = reduce(x, unknown, keep_dim=True) if unknown else x
    lengths = [int(d) for d in x.dims[2:]]
    if not any(length % k for length, k in zip(lengths, sizes, strict=True)):
        window = [length // k for length, k in zip(lengths, sizes, strict=True)]
        return x if set(window) == {1} else pool(x, window, window)
    for axis, (length, count) in enumerate(zip(lengths, sizes, strict=True)):
        x = _pool_axis(x, axis, length, count, pool)
    return x


def _pool_axis(x, axis, length, count, pool):
    """Pool one spatial axis by windows of unequal length, each cut out of x."""
    parts = []
    for k in range(count):
        start, end = k * length // count, -(-(k + 1) * length // count)
        window = [end - start if a == axis else 1 for a in range(x.rank - 2)]
        parts.append(pool(slice(x, [start], [end], [axis + 2]), window))
    return concat(parts, axis + 2) if count > 1 else parts[0]
