"""The random stream of 2017: glibc's `rand_r` and the initial values drawn from it.

A seed of 2017 gives the same starting point here, up to the last bit of a logarithm. Each value of
`rand_r` is three steps of one linear congruential generator, so a whole chunk of values is one
array expression.
"""

import functools

import numpy as np

RAND_MAX = 2**31 - 1

_MULTIPLIER, _INCREMENT = 1103515245, 12345
_STEPS = 3
# Values made at once: the jump tables take 24 bytes for each, the arrays of a chunk as much again.
_CHUNK = 1 << 16


@functools.cache
def _jumps():
    """(a, c): k + 1 steps of the generator take a state s to a[k] * s + c[k], modulo 2**32."""
    a = np.full(_STEPS * _CHUNK, _MULTIPLIER, np.uint32)
    np.cumprod(a, out=a)
    c = np.ones_like(a)
    c[1:] += np.cumsum(a[:-1], dtype=np.uint32)
    return a, c * np.uint32(_INCREMENT)


def _unit_open(values):
    """(0, 1] in float32, so that its logarithm is finite."""
    return ((1.0 + values) * 2.0**-31).astype(np.float32)


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
            part[:] = self._chunk(len(part))
        return out

    def normal(self, mean, std, size):
        """`size` float32 values of N(mean, std**2), two from each pair of draws (Box-Muller).

        A pair more than needed is drawn, and its cosine overwrites the last value: 2017's loop
        wrote the last value again after it, whether or not the size was odd.
        """
        mean, std = np.float32(mean), np.float32(std)
        out = np.empty(size, np.float32)
        for start in range(0, size - 1, _CHUNK):
            part = out[start : start + _CHUNK]
            pairs = len(part) // 2
            cos, sin = self._box_muller(mean, std, pairs)
            part[0 : 2 * pairs : 2] = cos
            part[1 : 2 * pairs : 2] = sin
        if size:
            out[-1:] = self._box_muller(mean, std, 1)[0]
        return out

    def uniform(self, mean, std, size):
        """`size` float32 values, uniform in [mean - std, mean + std)."""
        left, right = np.float32(mean - std), np.float32(mean + std)
        out = np.empty(size, np.float32)
        for start in range(0, size, _CHUNK):
            part = out[start : start + _CHUNK]
            part[:] = self._chunk(len(part)) * 2.0**-31 * float(right - left) + float(left)
        return out

    def _chunk(self, size):
        if not size:
            return np.empty(0, np.int64)
        a, c = _jumps()
        n = a[: _STEPS * size] * np.uint32(self.state) + c[: _STEPS * size]
        self.state = int(n[-1])
        bits = n.reshape(size, _STEPS) >> np.uint32(16)
        high, middle, low = bits[:, 0] % 2048, bits[:, 1] % 1024, bits[:, 2] % 1024
        return (((high << np.uint32(10)) ^ middle) << np.uint32(10) ^ low).astype(np.int64)

    def _box_muller(self, mean, std, pairs):
        """Values on the two axes. The radius is float32, as 2017's was; the rest is float64."""
        first, second = self._chunk(2 * pairs).reshape(pairs, 2).T
        # The C library's logf is within one unit of the last place, and numpy's float32 log is
        # not: rounding the float64 logarithm gives the value both aim at.
        log = np.log(_unit_open(first), dtype=np.float64).astype(np.float32)
        radius = std * np.sqrt(np.float32(-2) * log)
        angle = 2 * np.pi * _unit_open(second).astype(np.float64)
        return mean + radius * np.cos(angle), mean + radius * np.sin(angle)
