"""Exact sums of floating-point numbers, which do not depend on their order or grouping.

A number is an integer times a power of two. It is cut into limbs of 40 bits at fixed places, which
are added up as 64-bit integers: a superaccumulator (Kulisch 1971), of which only the limbs are kept
that the numbers at hand reach. The sum is rounded once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .buffers import Buffer
from .world import World

_BITS = 40  # of a limb; the highest one has what is left of 62
_TOP = 62
_PIECE = 24  # bits of a significand that are shifted at once
_OFFSET = 1126  # the lowest bit of the smallest float64, which `frexp` normalizes, is at 2^-1126
_ROOM = 30  # bits for the number of summands
_NONE = 1 << 20  # the first limb where there is no number but 0
_MOST = 1 << 20  # chunks that are added before limbs are carried
_CHUNK = 1 << 13  # numbers at a time: arrays that long stay in the processor's cache


class ExactSum:
    """The exact sum of arrays [...] of one shape.

    Elements of which a summand is NaN or infinite are as a sum of these would be.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.size = int(np.prod(shape, dtype=np.int64))
        self.first, self.limbs = _NONE, np.zeros((0, self.size), np.int64)
        self.special: np.ndarray | None = None  # the sum of what is not finite, 0 elsewhere
        self._summands = 0  # since limbs were carried

    @property
    def last(self) -> int:
        """The number of the highest limb."""
        return self.first + len(self.limbs) - 1 if len(self.limbs) else -_NONE

    def add(self, array: np.ndarray, places: np.ndarray | None = None) -> None:
        """Add an array; with `places` [K], distinct, rows [K, ...] to the rows at these."""
        numbers, digits = np.asarray(array).reshape(-1), 24 if array.dtype.itemsize <= 4 else 53
        columns = np.arange(self.size)
        if places is not None:
            width = self.size // max(1, self.shape[0])
            columns = (places[:, None] * width + np.arange(width)).reshape(-1)
        for start in range(0, numbers.size, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            self._add_chunk(numbers[chunk].astype(np.float64), columns[chunk], digits)

    def _add_chunk(self, numbers, columns, digits):
        """Add numbers of so many binary digits to the columns."""
        is_finite = np.isfinite(numbers)
        if not is_finite.all():
            if self.special is None:
                self.special = np.zeros(self.size)
            with np.errstate(invalid="ignore"):
                self.special[columns] += np.where(is_finite, 0.0, numbers)
            numbers = np.where(is_finite, numbers, 0.0)
        is_used = numbers != 0
        if not is_used.all():
            numbers, columns = numbers[is_used], columns[is_used]
        if not len(numbers):
            return
        fraction, exponent = np.frexp(numbers)
        lowest = exponent.astype(np.int64) + (_OFFSET - digits)
        self.widen(*reach(int(lowest.min()), int(lowest.max()) + digits))
        significand = np.ldexp(fraction, digits).astype(np.int64)
        for shift in range(0, digits, _PIECE):
            is_highest = shift + _PIECE >= digits
            piece = significand if is_highest else significand & ((1 << _PIECE) - 1)
            self._add_piece(piece, lowest + shift, columns)
            significand = significand >> _PIECE
        self._summands += 1
        if self._summands == _MOST:
            self._carry()

    def merge(self, other: "ExactSum") -> None:
        """Add the sum of other arrays of the same shape."""
        if len(other.limbs):
            other._carry()
            self._carry()
            self.widen(other.first, other.last)
            start = other.first - self.first
            # its top limb belongs to the next ones, too, where there are some here
            self.limbs[start : start + len(other.limbs)] += other.limbs
            self._carry()
        if other.special is not None:
            with np.errstate(invalid="ignore"):
                self.special = other.special + (0.0 if self.special is None else self.special)

    def scaled(self, factor: int) -> "ExactSum":
        """Return the sum times a whole number from 0 to 2^22."""
        if factor == 1:
            return self
        product = ExactSum(self.shape)
        if factor and len(self.limbs):
            self._carry()
            product.first, product.limbs = self.first, self.limbs.copy()
            product.widen(self.first, self.last + 1)
            product.limbs *= factor
            product._carry()
        if factor and self.special is not None:
            product.special = self.special
        return product

    def _add_piece(self, piece, place, columns):
        """Add integers of 24 bits times powers of two, each to the limbs at its place."""
        limb = np.minimum(place // _BITS - self.first, len(self.limbs) - 1)
        shift = place - (limb + self.first) * _BITS
        is_top = limb == len(self.limbs) - 1
        flat, index = self.limbs.reshape(-1), limb * self.size + columns
        shifted = piece << shift
        flat[index] += np.where(is_top, shifted, shifted & ((1 << _BITS) - 1))
        below = ~is_top
        flat[index[below] + self.size] += shifted[below] >> _BITS

    def widen(self, first: int, last: int) -> None:
        """Have the limbs from `first` to `last`, and what there is."""
        if not len(self.limbs):
            self.first = first
        first, last = min(first, self.first), max(last, self.last)
        below, above = self.first - first, last - self.last if len(self.limbs) else last - first + 1
        if below or above:
            empty = np.zeros((below, self.size), np.int64), np.zeros((above, self.size), np.int64)
            self.limbs = np.concatenate([empty[0], self.limbs, empty[1]])
            self.first = first
            self._carry()

    def _carry(self):
        """Have all limbs but the highest between 0 and 2^40 - 1: each number in one way."""
        self._summands = 0
        for k in range(len(self.limbs) - 1):
            carried = self.limbs[k] >> _BITS
            self.limbs[k] &= (1 << _BITS) - 1
            self.limbs[k + 1] += carried

    def rounded(self, dtype: Any, divisor: float = 1.0) -> np.ndarray:
        """Return the sum, rounded to the nearest number of a dtype.

        With a divisor the sum is rounded to 53 bits, divided and rounded again.
        """
        self._carry()
        is_odd, result = np.dtype(dtype).itemsize < 8 and divisor == 1.0, np.zeros(self.size)
        for start in range(0, self.size, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            result[chunk] = _rounded(self.limbs[:, chunk], self.first, is_odd)
        if self.special is not None:
            result = np.where(np.isfinite(self.special) & (self.special == 0), result, self.special)
        with np.errstate(over="ignore"):
            if divisor != 1.0:
                result = result / divisor
            return result.astype(dtype).reshape(self.shape)


def reach(lowest: int, highest: int) -> tuple[int, int]:
    """Return the first and the last limb for sums of numbers with bits in a range."""
    first = lowest // _BITS
    return first, max(first, -(-(highest + _ROOM - _TOP) // _BITS))


def _rounded(limbs, first, is_odd):
    """The numbers float64 [N] nearest to integers in limbs [L, N]; or rounded to odd.

    Rounded to odd, the last bit says whether anything was left: rounding once more to a shorter
    float gives what rounding once would have given (Boldo and Melquiond 2008).
    """
    if not len(limbs):
        return np.zeros(limbs.shape[1])
    is_negative = limbs[-1] < 0
    digits = np.where(is_negative, ~limbs, limbs)  # -x - 1, with all limbs at once
    digits[:-1] &= (1 << _BITS) - 1
    digits[0] += is_negative
    for k in range(len(digits) - 1):
        digits[k + 1] += digits[k] >> _BITS
        digits[k] &= (1 << _BITS) - 1
    # the top one may have more than 40 bits
    digits = np.concatenate([digits[:-1], [digits[-1] & ((1 << _BITS) - 1), digits[-1] >> _BITS]])
    padded = np.concatenate([np.zeros((2, digits.shape[1]), np.int64), digits])
    count, columns = len(padded), np.arange(digits.shape[1])
    top = count - 1 - (padded[::-1] != 0).argmax(0)
    top = np.where((padded != 0).any(0), top, 2)
    a, b, c = (padded[top - k, columns] for k in range(3))
    # 55 bits from the highest one that is not 0: `width` bits of the first limb, ...
    width = np.frexp(a.astype(np.float64))[1].astype(np.int64)
    need = 55 - width  # of the limbs below, at least 15
    of_b = np.minimum(need, _BITS)
    of_c = need - of_b
    whole = (a << need) | (b >> (_BITS - of_b)) << of_c | (c >> (_BITS - of_c))
    rest = (b & ((1 << (_BITS - of_b)) - 1)) | (c & ((1 << (_BITS - of_c)) - 1))
    nonzero = np.cumsum(padded != 0, 0)
    rest |= np.where(top >= 3, nonzero[np.maximum(top - 3, 0), columns], 0)
    is_inexact = rest != 0
    low = whole & 3
    whole >>= 2
    if is_odd:
        whole |= (low != 0) | is_inexact
    else:
        whole += (low > 2) | ((low == 2) & (is_inexact | ((whole & 1) != 0)))
    exponent = (top - 2 + first) * _BITS - _OFFSET + width - 53
    result = np.ldexp(whole.astype(np.float64), exponent.astype(np.int32))
    return np.where(is_negative, -result, result)


def sum_exactly(
    world: World, parts: Sequence[ExactSum], dtypes: Sequence[Any], divisor: float = 1.0
) -> list[np.ndarray]:
    """Return the sums of all ranks, rounded: the same for every order and grouping."""
    if world.size > 1 and parts:
        _exchange(world, parts)
    return [part.rounded(dtype, divisor) for part, dtype in zip(parts, dtypes, strict=True)]


def _exchange(world, parts):
    """Add up the parts of all ranks: first they agree on the limbs that any of them has."""
    reached = [[-part.first, part.last, part.special is not None] for part in parts]
    own = np.array(reached, np.int64).reshape(-1)
    (joined,) = Buffer(world, [own.shape], own.dtype).reduce([own], function=np.maximum)
    ranges = joined.reshape(-1, 3).tolist()
    wide = [k for k, (low, high, _) in enumerate(ranges) if -low <= high]
    for k in wide:
        parts[k].widen(-ranges[k][0], ranges[k][1])
        parts[k]._carry()
    limbs = [parts[k].limbs for k in wide]
    sums = Buffer(world, [a.shape for a in limbs], np.dtype(np.int64)).reduce(limbs)
    for k, array in zip(wide, sums, strict=True):
        parts[k].limbs = np.array(array)
        parts[k]._carry()
    odd = [k for k, (_, _, is_special) in enumerate(ranges) if is_special]
    specials = [_or_zeros(parts[k].special, parts[k].size) for k in odd]
    with np.errstate(invalid="ignore"):
        sums = Buffer(world, [a.shape for a in specials], np.dtype(np.float64)).reduce(specials)
    for k, array in zip(odd, sums, strict=True):
        parts[k].special = np.array(array)


def _or_zeros(array, size):
    return np.zeros(size) if array is None else array


def exact_rows(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], factors: Sequence[int], divisor: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of row-sparse gradients, ascending, and the exact sums of values.

    Each part, which may have a row several times, is multiplied by a whole number.
    """
    distinct, place = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    dtype, width = parts[0][1].dtype, parts[0][1].shape[1:]
    total, start = ExactSum((len(distinct), *width)), 0
    for (rows, values), factor in zip(parts, factors, strict=True):
        own, left = ExactSum(total.shape), np.arange(len(rows))
        places = place[start : start + len(rows)]
        start += len(rows)
        while len(left):
            _, first = np.unique(places[left], return_index=True)
            own.add(values[left[first]], places[left[first]])
            left = np.delete(left, first)
        total.merge(own.scaled(factor))
    return distinct, total.rounded(dtype, divisor)
