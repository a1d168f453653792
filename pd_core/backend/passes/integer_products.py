"""Products and powers of integers by repeated multiplication, which wraps around as in NumPy."""

import numpy as np

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.variable import Inputs, Variable, constant, fresh_dim
from ...ops.math import quotient


def power(node: Node, inputs: Inputs) -> Variable | None:
    """a^b of integers. Where b is negative that is 0, but of 1 and -1, as in PyTorch."""
    a, b = inputs
    if b.dtype.kind not in "iu":
        return None
    if b.value is not None and b.value.size == 1 and b.value.min() >= 0 and b.rank <= a.rank:
        return _fixed_power(a, int(b.value.reshape(())))
    return _any_power(a, b if b.dtype == np.uint64 else ops.cast(b, np.int64))


def _fixed_power(a, exponent):
    y, square = None, a
    while exponent:
        if exponent & 1:
            y = square if y is None else y * square
        exponent >>= 1
        square = square * square if exponent else square
    if y is None:
        return a * 0 + 1
    return ops.identity(a) if y is a else y


def _any_power(a, b):
    """By the bits of b, the lowest first, as long as any b has one."""
    a, b = a + ops.cast(b * 0, a.dtype), b + ops.cast(a * 0, b.dtype)  # in the shape of the result

    def some_left(y, square, rest):
        return ops.reduce_sum(ops.cast(rest > 0, np.int64)) > 0

    def next_bit(y, square, rest):
        half = quotient(rest, 2)
        y = ops.where(ops.equal(rest - half * 2, 1), y * square, y)
        return [y, square * square, half]

    negative = b < 0
    rest = b if b.dtype.kind == "u" else ops.where(negative, 0, b)
    y, _, _ = ops.while_loop(some_left, next_bit, [a * 0 + 1, a, rest])
    if b.dtype.kind == "u":
        return y
    odd = ops.equal(apply("Mod", b, np.int64(2)), 1)
    of_minus_one = ops.where(odd, -1, ops.ones_like(a))
    inverse = ops.where(ops.equal(a, -1), of_minus_one, ops.cast(ops.equal(a, 1), a.dtype))
    return ops.where(negative, inverse, y)


def product(x: Variable, axes: list[int], keep: bool) -> Variable:
    """Return the products over some axes, in a number of steps that is the logarithm of theirs."""
    y = x
    for a in reversed(axes):
        y = _over(y, a)
    return apply("Unsqueeze", y, np.array(axes)) if keep else y


def _over(x, axis):
    size = x.dims[axis]
    if isinstance(size, int):
        x = x if size else ops.concat([x, _one(x, axis)], axis)
        while x.dims[axis] > 1:
            x = _halved(x, axis, x.dims[axis] // 2)
        return ops.squeeze(x, axis)
    x = ops.concat([x, _one(x, axis)], axis)  # there may be no element
    x = refined(x, [fresh_dim() if k == axis else d for k, d in enumerate(x.dims)])

    def several(x):
        return ops.size_of(x, axis) > 1

    def halve(x):
        return _halved(x, axis, quotient(ops.size_of(x, axis), 2))

    (x,) = ops.while_loop(several, halve, [x])
    return ops.gather(x, np.int64(0), axis)


def _halved(x, axis, half):
    """The products of the first half with the second; an odd last element stays."""
    first, second = ops.slice(x, 0, half, axis), ops.slice(x, half, half * 2, axis)
    return ops.concat([first * second, ops.slice(x, half * 2, np.iinfo(np.int64).max, axis)], axis)


def _one(x, axis):
    """Ones in the shape of x, with a size of 1 on an axis."""
    if all(isinstance(d, int) for k, d in enumerate(x.dims) if k != axis):
        return constant(np.ones([1 if k == axis else d for k, d in enumerate(x.dims)], x.dtype))
    sizes = [ops.size_of(x, k) if k != axis else np.array([1]) for k in range(x.rank)]
    ones = ops.expand(constant(np.ones((), x.dtype)), ops.concat(sizes))
    return refined(ones, [1 if k == axis else d for k, d in enumerate(x.dims)])
