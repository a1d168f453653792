"""The random stream of 2017: glibc's `rand_r` and the initial values drawn from it.

A seed of 2017 gives the same starting point here, up to the last bit of a logarithm. Each value of
`rand_r` is three steps of one linear congruential generator, so a whole chunk of values is one
array expression.
"""

import functools

import numpy as np

RAND_MAX = 2**31 - 1

_MULTIPLIER, _INCREMENT = np.uint32(1103515245), np.uint32(12345)
_STEPS = 3
# Rows made at once. Arrays of 64 KB stay in the cache, and the C library keeps their memory: from
# 128 KB on it returns it to the system, and each array of each chunk would cost page faults.
_CHUNK = 1 << 13
_PARTS = 1 << 11  # of a whole turn, whose cosine and sine are looked up
_DOUBT = 2.0**-47  # four times the error of the quick cosine, by radius


@functools.cache
def _jumps(steps):
    """(a, c): k * steps + 1 steps of the generator take a state s to a[k] * s + c[k]."""
    count = steps * (_CHUNK - 1) + 1
    a = np.full(count, _MULTIPLIER)
    np.cumprod(a, out=a)
    c = np.ones_like(a)
    c[1:] += np.cumsum(a[:-1], dtype=np.uint32)
    return a[::steps].copy(), c[::steps] * _INCREMENT


@functools.cache
def _turn():
    """Cosine and sine of the parts of a turn, in float64."""
    angles = 2 * np.pi * np.arange(_PARTS + 1) / _PARTS
    return np.cos(angles), np.sin(angles)


def _unit_open(values):
    """(0, 1] in float32, so that its logarithm is finite."""
    return ((1.0 + values) * 2.0**-31).astype(np.float32)


def _quick_axes(part):
    """Cosine and sine of 2 pi `part`, for 0 < part <= 1, up to an error of 2**-49.

    The sum of a tabled angle and one of less than pi / 2048, whose series is short.
    """
    place = np.rint(part * _PARTS)
    x = (part - place * (1 / _PARTS)) * (2 * np.pi)
    place = place.astype(np.int32)
    cosines, sines = (table.take(place) for table in _turn())
    square = x * x
    sine = x - x * square * (1 / 6 - square * (1 / 120))
    less = square * (0.5 - square * (1 / 24))  # 1 - the cosine
    return cosines - (cosines * less + sines * sine), sines - (sines * less - cosines * sine)


class RandR:
    """A stream of `rand_r`; `state` is its whole memory, 32 bits.

    The main thread of a 2017 process started at state `seed - 1`.
    """

    def __init__(self, state):
        self.state = int(state) % 2**32

    def draw(self, size):
        """The next `size` values of `rand_r`, integers in [0, RAND_MAX], as an int64 array."""
        out = np.empty(size, np.int64)
        for start in range(0, size, _CHUNK):
            part = out[start : start + _CHUNK]
            (part[:],) = self._columns(len(part), 1)
        return out

    def normal(self, mean, std, size):
        """`size` float32 values of N(mean, std**2), two from each pair of draws (Box-Muller).

        A pair more than needed is drawn, and its cosine overwrites the last value: 2017's loop
        wrote the last value again after it, whether or not the size was odd.
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
        """`size` float32 values, uniform in [mean - std, mean + std)."""
        left, right = np.float32(mean - std), np.float32(mean + std)
        out = np.empty(size, np.float32)
        for start in range(0, size, _CHUNK):
            part = out[start : start + _CHUNK]
            (draws,) = self._columns(len(part), 1)
            part[:] = draws * 2.0**-31 * float(right - left) + float(left)
        return out

    def _columns(self, rows, columns):
        """The next draws, so many in a row, as a column each of int32."""
        a, c = _jumps(_STEPS * columns)
        state = a[:rows] * np.uint32(self.state)
        state += c[:rows]
        found = []
        for column in range(columns):
            value = (state >> np.uint32(16)) & np.uint32(2047)
            for _ in range(_STEPS - 1):
                _advance(state)
                value <<= np.uint32(10)
                value ^= (state >> np.uint32(16)) & np.uint32(1023)
            found.append(value.view(np.int32))
            if column < columns - 1:
                _advance(state)
        self.state = int(state[-1])
        return found

    def _box_muller(self, mean, std, out):
        """Fill rows of `out` with values on the two axes.

        The radius is float32, as 2017's was; the rest is float64. Where the error of the quick
        cosine could reach the float32 that is rounded to, it is the C library's that counts.
        """
        first, second = self._columns(len(out), 2)
        # The C library's logf is within one unit of the last place, and numpy's float32 log is
        # not: rounding the float64 logarithm gives the value both aim at.
        log = np.log(_unit_open(first).astype(np.float64)).astype(np.float32)
        radius = std * np.sqrt(np.float32(-2) * log)
        turn = _unit_open(second).astype(np.float64)
        wide = radius.astype(np.float64)
        doubt = (wide + abs(float(mean))) * _DOUBT
        for k, (quick, exact) in enumerate(zip(_quick_axes(turn), (np.cos, np.sin), strict=True)):
            quick *= wide
            quick += mean
            out[:, k] = quick - doubt
            (open_ones,) = np.nonzero(out[:, k] != (quick + doubt).astype(np.float32))
            angle = 2 * np.pi * turn[open_ones]
            out[open_ones, k] = mean + radius[open_ones] * exact(angle)


def _advance(state):
    """One step of the generator, in place."""
    state *= _MULTIPLIER
    state += _INCREMENT
