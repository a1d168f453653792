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
# Rows per array expression. Arrays of 64 KB stay in the cache, and malloc reuses their memory: from
# 128 KB on it returns it to the system, and each array of each chunk would cost page faults.
_CHUNK = 1 << 13
_TABLE_SIZE = 1 << 11  # angles of the lookup table, equally spaced over 2 pi
_ERROR_BOUND = 2.0**-47  # four times the relative error of the fast cosine


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
def _tables():
    """Return the lookup tables of cosine and sine, in float64."""
    angles = 2 * np.pi * np.arange(_TABLE_SIZE + 1) / _TABLE_SIZE
    return np.cos(angles), np.sin(angles)


def _unit_interval(values):
    """Scale draws to (0, 1] in float32, so that the logarithm is finite."""
    return ((1.0 + values) * 2.0**-31).astype(np.float32)


def _fast_cos_sin(turns):
    """Return cosine and sine of 2 pi `turns`, for 0 < turns <= 1, up to an error of 2**-49.

    An angle is the sum of one in the lookup table and one of less than pi / 2048, for which a short
    Taylor series suffices; the two are combined by the addition theorems.
    """
    index = np.rint(turns * _TABLE_SIZE)
    x = (turns - index * (1 / _TABLE_SIZE)) * (2 * np.pi)
    index = index.astype(np.int32)
    cosines, sines = (table.take(index) for table in _tables())
    square = x * x
    sine = x - x * square * (1 / 6 - square * (1 / 120))
    versine = square * (0.5 - square * (1 / 24))  # 1 - cosine
    return cosines - (cosines * versine + sines * sine), sines - (sines * versine - cosines * sine)


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
        mean, std = np.float32(mean), np.float32(std)
        out = np.empty(size, np.float32)
        pairs = out[: size - size % 2].reshape(-1, 2)
        for start in range(0, len(pairs), _CHUNK):
            self._box_muller(mean, std, pairs[start : start + _CHUNK])
        if size:
            last = np.empty((1, 2), np.float32)
            self._box_muller(mean, std, last)
            out[-1] = last[0, 0]
        return out

    def uniform(self, mean, std, size):
        """Draw `size` float32 values, uniform in [mean - std, mean + std)."""
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
        out = []
        for column in range(columns):
            value = (state >> np.uint32(16)) & np.uint32(2047)
            for _ in range(_STEPS - 1):
                _advance(state)
                value <<= np.uint32(10)
                value ^= (state >> np.uint32(16)) & np.uint32(1023)
            out.append(value.view(np.int32))
            if column < columns - 1:
                _advance(state)
        self.state = int(state[-1])
        return out

    def _box_muller(self, mean, std, out):
        """Fill rows of `out` [n, 2] with pairs of normal values, from cosine and sine.

        The radius is float32, as 2017's was; the rest is float64. Where the error of the fast
        cosine could change the rounding to float32, the exact one is used.
        """
        first, second = self._columns(len(out), 2)
        # The C library's logf is within one unit of the last place, and numpy's float32 log is
        # not: rounding the float64 logarithm gives the correctly rounded value.
        log = np.log(_unit_interval(first).astype(np.float64)).astype(np.float32)
        radius = std * np.sqrt(np.float32(-2) * log)
        turns = _unit_interval(second).astype(np.float64)
        radius64 = radius.astype(np.float64)
        error = (radius64 + abs(float(mean))) * _ERROR_BOUND
        for k, (fast, exact) in enumerate(zip(_fast_cos_sin(turns), (np.cos, np.sin), strict=True)):
            fast *= radius64
            fast += mean
            out[:, k] = fast - error
            (ambiguous,) = np.nonzero(out[:, k] != (fast + error).astype(np.float32))
            angle = 2 * np.pi * turns[ambiguous]
            out[ambiguous, k] = mean + radius[ambiguous] * exact(angle)


def _advance(state):
    """Advance the generator by one step, in place."""
    state *= _MULTIPLIER
    state += _INCREMENT
