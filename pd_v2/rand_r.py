"""The random stream of 2017: glibc's `rand_r` and the initial values drawn from it.

A seed of 2017 gives the same initial values here, up to the last bit of a logarithm. Each value of
`rand_r` is three steps of one linear congruential generator, so a whole chunk of values is one
array expression.
"""

import functools

import numpy as np

RAND_MAX = 2**31 - 1

_MULTIPLIER, _INCREMENT = np.uint32(1103515245), np.uint32(12345)
_STEPS = 3
# Rows per array expression. The arrays of a chunk are used again for the next one, and stay in the
# second level of the cache; with a quarter as many, half of the time of integers is that of calls.
_CHUNK = 1 << 15
_TABLE_SIZE = 1 << 14  # angles of the lookup table, equally spaced over 2 pi
_ERROR_BOUND = 2.0**-47  # eight times the relative error of the fast cosine
_LARGEST = 6.6  # more than the radius of the smallest draw, for a deviation of 1


@functools.cache
def _jumps(steps):
    """Return (a, c): k * steps + 1 steps of the generator take a state s to a[k] * s + c[k]."""
    count = steps * (_CHUNK - 1) + 1
    a = np.full(count, _MULTIPLIER)
    np.cumprod(a, out=a)
    c = np.ones_like(a)
    c[1:] += np.cumsum(a[:-1], dtype=np.uint32)
    return a[::steps].copy(), c[::steps] * _INCREMENT


@functools.cache
def _table():
    """Return cosine and sine of the angles of the lookup table, as complex128."""
    angles = 2 * np.pi * np.arange(_TABLE_SIZE + 1) / _TABLE_SIZE
    return np.cos(angles) + 1j * np.sin(angles)


class _Scratch:
    """Arrays for the pairs of a chunk."""

    def __init__(self, rows):
        self.a, self.b = np.empty((2, rows))
        self.single = np.empty(rows, np.float32)
        self.index = np.empty(rows, np.intp)
        self.turned, self.point = np.empty((2, rows), np.complex128)
        self.below = np.empty(2 * rows, np.float32)


class RandR:
    """A stream of `rand_r`; `state` is its whole state, 32 bits.

    The main thread of a 2017 process started at state `seed - 1`.
    """

    def __init__(self, state):
        self.state = int(state) % 2**32

    def draw(self, size):
        """Draw `size` values of `rand_r`, integers in [0, RAND_MAX], as an int64 array."""
        out = np.empty(size, np.int64)
        for start in range(0, size, _CHUNK):
            part = out[start : start + _CHUNK]
            (part[:],) = self._columns(len(part), 1)
        return out

    def normal(self, mean, std, size):
        """Draw `size` float32 values of N(mean, std**2), two from each pair of draws (Box-Muller).

        One more pair is drawn at the end, and its cosine overwrites the last value: 2017 wrote the
        last value again after its loop, whether or not the size was odd.
        """
        return next(
            self.normal_parts(mean, std, size, size + size % 2 or 2), np.empty(0, np.float32)
        )

    def normal_parts(self, mean, std, size, count):
        """Yield the values that `normal` draws, `count` at a time, an even number."""
        mean, std = np.float32(mean), np.float32(std)
        scratch = _Scratch(min(count // 2 + 1, _CHUNK))
        for first in range(0, size, count):
            length = min(count, size - first)
            is_last = first + length == size
            pairs = np.empty((length // 2 + is_last, 2), np.float32)
            for start in range(0, len(pairs), _CHUNK):
                self._box_muller(mean, std, pairs[start : start + _CHUNK], scratch)
            out = pairs.reshape(-1)[:length]
            if is_last:
                out[-1] = pairs[-1, 0]
            yield out

    def uniform(self, mean, std, size):
        """Draw `size` float32 values, uniform in [mean - std, mean + std)."""
        return next(self.uniform_parts(mean, std, size, size or 1), np.empty(0, np.float32))

    def uniform_parts(self, mean, std, size, count):
        """Yield the values that `uniform` draws, `count` at a time."""
        for first in range(0, size, count):
            yield self._uniform(mean, std, min(count, size - first))

    def normal_rows(self, mean, std, shape, rank, ranks):
        """Draw rows `rank`, `rank + ranks`, … of a matrix [height, width] that `normal` fills.

        The stream goes on behind the whole matrix. `width` is even, and at most 65536.
        """
        mean, std = np.float32(mean), np.float32(std)
        height, width = shape
        begin, pairs = self.state, height * width // 2
        out = np.empty((len(range(rank, height, ranks)), width), np.float32)
        scratch = _Scratch(max(_CHUNK, width // 2))
        for part, state in self._states(out, width // 2, 2, rank, ranks):
            _fill_normal(_values(state, 2), mean, std, part.reshape(-1, 2), scratch)
        if len(out) and (height - 1) % ranks == rank:  # the last value is of one more pair
            self.state = _jumped(begin, 2 * _STEPS * pairs)
            last = np.empty((1, 2), np.float32)
            _fill_normal(self._columns(1, 2), mean, std, last, scratch)
            out[-1, -1] = last[0, 0]
        self.state = _jumped(begin, 2 * _STEPS * (pairs + 1))
        return out

    def uniform_rows(self, mean, std, shape, rank, ranks):
        """Draw rows `rank`, `rank + ranks`, … of a matrix [height, width] that `uniform` fills.

        The stream goes on behind the whole matrix. `width` is at most 32768.
        """
        left, right = np.float32(mean - std), np.float32(mean + std)
        height, width = shape
        out = np.empty((len(range(rank, height, ranks)), width), np.float32)
        for part, state in self._states(out, width, 1, rank, ranks):
            (draws,) = _values(state, 1)
            part.reshape(-1)[:] = draws * 2.0**-31 * float(right - left) + float(left)
        self.state = _jumped(self.state, _STEPS * height * width)
        return out

    def _states(self, out, count, columns, rank, ranks):
        """Yield (some rows of `out`, the states of their draws).

        A row has `count` times `columns` draws, the first of which these states are for.
        """
        a, c = (each[:count] for each in _jumps(_STEPS * columns))
        stride = _STEPS * columns * count
        rows = max(1, _CHUNK // count)
        factors, terms = _steps_of(stride * ranks, rows + 1)
        first = _jumped(self.state, stride * rank)
        for start in range(0, len(out), rows):
            part = out[start : start + rows]
            begins = factors * np.uint32(first) + terms
            first = int(begins[rows])
            yield part, (begins[: len(part), np.newaxis] * a + c).reshape(-1)

    def _uniform(self, mean, std, size):
        left, right = np.float32(mean - std), np.float32(mean + std)
        out = np.empty(size, np.float32)
        for start in range(0, size, _CHUNK):
            part = out[start : start + _CHUNK]
            (draws,) = self._columns(len(part), 1)
            part[:] = draws * 2.0**-31 * float(right - left) + float(left)
        return out

    def _columns(self, rows, columns):
        """Draw rows * columns values in row-major order; return int32 columns."""
        a, c = _jumps(_STEPS * columns)
        state = a[:rows] * np.uint32(self.state)
        state += c[:rows]
        out = _values(state, columns)
        self.state = int(state[-1])
        return out

    def _box_muller(self, mean, std, out, scratch):
        """Fill rows of `out` [n, 2] with pairs of normal values."""
        _fill_normal(self._columns(len(out), 2), mean, std, out, scratch)


def _values(state, columns):
    """Return int32 columns of draws from the states that their first steps lead to.

    The states become those of the last steps.
    """
    bits, out = np.empty_like(state), []
    for column in range(columns):
        value = state >> np.uint32(16)
        value &= np.uint32(2047)
        for _ in range(_STEPS - 1):
            _advance(state)
            np.right_shift(state, np.uint32(16), out=bits)
            bits &= np.uint32(1023)
            value <<= np.uint32(10)
            value ^= bits
        out.append(value.view(np.int32))
        if column < columns - 1:
            _advance(state)
    return out


def _fill_normal(draws, mean, std, out, scratch):
    """Fill rows of `out` [n, 2] with pairs of normal values of two draws, from cosine and sine.

    The radius is float32, as 2017's was; the rest is float64. Where the error of the fast
    cosine could change the rounding to float32, the exact one is used.
    """
    n, (first, second) = len(out), draws
    radius = _radius(first, std, scratch)
    turns = np.add(second, 1.0, out=scratch.single[:n], casting="same_kind")  # of 2**31
    point = _fast_point(turns, radius, scratch)
    if mean:
        point += mean
    error = (_LARGEST * abs(float(std)) + abs(float(mean))) * _ERROR_BOUND
    values, below = out.reshape(-1), scratch.below[: 2 * n]
    np.subtract(point, error, out=below, casting="same_kind")
    np.add(point, error, out=values, casting="same_kind")
    (ambiguous,) = np.nonzero(values != below)
    row, axis = np.divmod(ambiguous, 2)
    angle = 2 * np.pi * (turns[row].astype(np.float64) * 2.0**-31)
    exact = np.where(axis, np.sin(angle), np.cos(angle))
    values[ambiguous] = mean + radius[row] * exact


def _steps_of(steps, count):
    """Return (a, c), uint32 [count]: k * steps steps of the generator take a state s to a s + c."""
    factor, term = _jump(steps)
    a, sums = np.full(count, factor, np.uint32), np.zeros(count, np.uint32)
    a[0] = 1
    np.cumprod(a, out=a)
    np.cumsum(a[:-1], dtype=np.uint32, out=sums[1:])
    return a, sums * np.uint32(term)


def _jump(steps):
    """Return (a, c): so many steps of the generator take a state s to a s + c, modulo 2**32."""
    a, c = 1, 0
    factor, term = int(_MULTIPLIER), int(_INCREMENT)
    while steps:
        if steps & 1:
            a, c = a * factor % 2**32, (c * factor + term) % 2**32
        factor, term = factor * factor % 2**32, (term * factor + term) % 2**32
        steps >>= 1
    return a, c


def _jumped(state, steps):
    """Return the state after so many steps."""
    a, c = _jump(steps)
    return (a * state + c) % 2**32


def _radius(draws, std, scratch):
    """The radius of pairs with these first draws, which were scaled to (0, 1] in float32.

    The logarithm is finite there. The C library's logf is within one unit of the last place, and
    numpy's float32 log is not: rounding the float64 logarithm gives the correctly rounded value.
    """
    n = len(draws)
    single, log = scratch.single[:n], scratch.a[:n]
    np.add(draws, 1.0, out=single, casting="same_kind")
    single *= np.float32(2.0**-31)
    log[:] = single
    np.log(log, out=log)
    radius = log.astype(np.float32)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    radius *= std
    return radius


def _fast_point(turns, radius, scratch):
    """The points at this radius and at so many 2**-31 of a turn: cosine and sine in turn, [2 n].

    The error is below 2**-50 of the radius. An angle is the sum of one in the lookup table and one
    of less than pi / 16384, for which a short Taylor series suffices; the product of two complex
    numbers is the addition theorem.
    """
    n, turn = len(turns), 2.0**31
    x, square, index = scratch.a[:n], scratch.b[:n], scratch.index[:n]
    turned, point = scratch.turned[:n], scratch.point[:n]
    x[:] = turns
    np.multiply(x, _TABLE_SIZE / turn, out=square)
    np.rint(square, out=square)
    index[:] = square
    square *= turn / _TABLE_SIZE
    x -= square
    x *= 2 * np.pi / turn
    np.multiply(x, x, out=square)
    x *= radius
    np.multiply(square, -0.5, out=turned.real)
    turned.real += 1.0
    turned.real *= radius
    square *= -1 / 6
    square += 1.0
    np.multiply(x, square, out=turned.imag)
    _table().take(index, out=point, mode="clip")
    point *= turned
    return point.view(np.float64)


def _advance(state):
    """Advance the generator by one step, in place."""
    state *= _MULTIPLIER
    state += _INCREMENT
