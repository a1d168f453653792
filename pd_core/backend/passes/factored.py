"""Filter gradients of many taps as one product, whatever the size of the filter.

A tap is the sum of a small offset and a multiple of a block, axis by axis. x is unfolded (im2col)
by the offsets and dy by the blocks: 1,024 taps take 32 copies of each, not 1,024 copies of one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from ... import ops
from ...graph.node import apply
from ...graph.variable import Variable
from .windows import Windows, pad_or_crop, reshape_dims

_DIGIT = 8  # slices joined in one step of unfolding: 64 taps take two steps
_COPY = 12  # multiplications that take as long as copying an element


def factored_filter_grad(
    windows: Windows,
    x: Variable,
    dy: Variable,
    group: int,
    per_image: Callable[[Variable, Variable, int], Variable],
) -> Variable:
    """Return the gradient of the filters; `per_image(a, b, group)` sums a bᵀ over all positions."""
    form = _Form.of(windows)
    x = _phases(windows, form, x)
    split = min(form.splits(), key=lambda s: s.cost(x.dims[1], dy.dims[1], group))
    far = [t * (b - 1) for t, b in zip(split.steps, split.blocks, strict=True)]
    more = [p - size for p, size in zip(split.reach, x.dims[2:], strict=True)]
    columns = pad_or_crop(x, [0] * form.n, more, 0.0)
    columns = _unfolded(columns, group, split.offsets, form.dilations)
    columns = _strided(columns, split.positions, form.strides)
    shifted = pad_or_crop(dy, far, far, 0.0)
    shifted = _unfolded(shifted, group, split.blocks, split.steps, backward=True)
    total = per_image(_merged(shifted), _merged(columns), group)
    return _as_filters(windows, form, split, total, group)


@dataclass
class _Form:
    """A convolution after the phases of its strides have become channels."""

    window: list
    strides: list
    dilations: list
    result: list
    phases: list  # of each axis

    @property
    def n(self):
        return len(self.window)

    @classmethod
    def of(cls, windows):
        axes = (windows.window, windows.strides, windows.dilations)
        phases = [s if d == 1 or k == 1 else 1 for k, s, d in zip(*axes, strict=True)]
        return cls(
            [-(-k // p) for k, p in zip(windows.window, phases, strict=True)],
            [s // p for s, p in zip(windows.strides, phases, strict=True)],
            list(windows.dilations),
            list(windows.result),
            phases,
        )

    def splits(self):
        """Ways to split the taps; a block is a multiple of the stride, or there is only one."""
        axes = zip(self.window, self.strides, self.dilations, strict=True)
        choices = [[a for a in _counts(k) if a >= k or a * d % s == 0] for k, s, d in axes]
        return [_Split.of(self, offsets) for offsets in product(*choices)]


@dataclass
class _Split:
    """The number of offsets and blocks along each axis; blocks shift dy by multiples of `steps`."""

    offsets: list
    blocks: list
    steps: list
    positions: list  # of dy, after the shifts
    reach: list  # pixels that the offsets cover, from all positions

    @classmethod
    def of(cls, form, offsets):
        axes = (offsets, form.window, form.strides, form.dilations, form.result)
        blocks = [_rounded(-(-k // a)) for a, k in zip(offsets, form.window, strict=True)]
        steps, positions, reach = [], [], []
        for b, a, _, s, d, r in zip(blocks, *axes, strict=True):
            steps.append(a * d // s if b > 1 else 1)
            positions.append(r + steps[-1] * (b - 1))
            reach.append((positions[-1] - 1) * s + (a - 1) * d + 1)
        return cls(list(offsets), blocks, steps, positions, reach)

    def cost(self, channels, outputs, group):
        """An estimate of the time for one image: multiplications and copies."""
        rows, columns = outputs * math.prod(self.blocks), channels * math.prod(self.offsets)
        return math.prod(self.positions) * (rows * columns / group + _COPY * (rows + columns))


def _phases(windows, form, x):
    """The reach of the windows in x, with each phase of a stride as a channel."""
    sizes = [
        (r - 1) * s * p + (k - 1) * d * p + p
        for r, s, p, k, d in zip(
            form.result, form.strides, form.phases, form.window, form.dilations, strict=True
        )
    ]
    before = windows.pads[: form.n]
    after = [r - p - size for r, p, size in zip(sizes, before, windows.image, strict=True)]
    x = pad_or_crop(x, before, after, 0.0)
    if set(form.phases) == {1}:
        return x
    n, channels = x.dims[:2]
    counts = [size // p for size, p in zip(sizes, form.phases, strict=True)]
    x = reshape_dims(
        x, [n, channels, *(v for pair in zip(counts, form.phases, strict=True) for v in pair)]
    )
    axes = range(form.n)
    x = ops.transpose(x, [0, 1, *(3 + 2 * k for k in axes), *(2 + 2 * k for k in axes)])
    return reshape_dims(x, [n, channels * math.prod(form.phases), *counts])


def _unfolded(x, group, counts, steps, backward=False):
    """x at `counts` taps along each axis: [N, group, taps of all axes and channels, *positions]."""
    x = reshape_dims(x, [x.dims[0], group, x.dims[1] // group, *x.dims[2:]])
    for axis in reversed(range(len(counts))):
        step = steps[axis]
        for digit in _digits(counts[axis]):
            size = x.dims[3 + axis] - (digit - 1) * step
            parts = [_part(x, 3 + axis, k * step, size) for k in range(digit)]
            x = ops.concat(reversed(parts) if backward else parts, axis=2)
            step *= digit
    return x


def _part(x, axis, start, size):
    return apply("Slice", x, *(np.array([v]) for v in (start, start + size, axis)))


def _strided(x, positions, strides):
    """Positions a stride apart, along the axes whose stride is not 1."""
    axes = [k for k, s in enumerate(strides) if s > 1]
    if not axes:
        return x
    ends = [(positions[k] - 1) * strides[k] + 1 for k in axes]
    return ops.slice(x, [0] * len(axes), ends, [3 + k for k in axes], [strides[k] for k in axes])


def _merged(x):
    """[N, group, rows, *positions] with groups and rows in one axis."""
    return reshape_dims(x, [x.dims[0], x.dims[1] * x.dims[2], *x.dims[3:]])


def _as_filters(windows, form, split, total, group):
    """[groups, blocks, outputs of a group] by [offsets, channels, phases] in the filters' order."""
    n, (a, b) = form.n, (split.offsets, split.blocks)
    outputs = total.dims[0] // math.prod(b)
    channels = total.dims[1] // math.prod(a) // math.prod(form.phases)
    total = reshape_dims(total, [group, *b, outputs // group, *a, channels, *form.phases])
    first = n + 2  # of the offsets
    taps = [k for axis in range(n) for k in (1 + axis, first + axis, first + n + 1 + axis)]
    total = ops.transpose(total, [0, n + 1, first + n, *taps])
    widths = [math.prod(v) for v in zip(a, b, form.phases, strict=True)]
    more = [k - w for k, w in zip(windows.window, widths, strict=True)]
    return pad_or_crop(reshape_dims(total, [outputs, channels, *widths]), [0] * n, more, 0.0)


def _digits(count):
    """Factors of a count, each at most _DIGIT; none for a single tap."""
    digits = []
    while count > 1:
        digit = max(k for k in range(2, _DIGIT + 1) if count % k == 0)
        digits.append(digit)
        count //= digit
    return digits


def _counts(limit):
    """Counts with small factors only, from 1 to the first that is at least the limit."""
    counts = {j * _DIGIT**m for j in range(1, _DIGIT + 1) for m in range(5)}
    return [c for c in sorted(counts) if c < limit] + [_rounded(limit)]


def _rounded(count):
    """The next count with small factors only."""
    while True:
        rest = count
        for factor in (2, 3, 5, 7):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return count
        count += 1
