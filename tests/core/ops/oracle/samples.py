"""Samples of other element types, values and sizes in place of those of a row."""

import numpy as np

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
SIZES = {"empty": 0, "one": 1, "odd": 9}
LARGE = 1 << 24  # elements
LONG = "2^24 elements"
_SHARE = 0.3  # of elements that are replaced


def data_of(arrays):
    """The places of the samples that are data: floats if there are any; else all of them."""
    floats = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    return floats or list(range(len(arrays)))


def as_type(a, dtype):
    """A sample in another type: floats that become integers are five times as large."""
    dtype = np.dtype(dtype)
    if a.dtype.kind == "f" and dtype.kind in "iu":
        a = np.round(a * 5)
    if dtype.kind == "u":
        a = np.abs(a) if a.dtype.kind in "fi" else a
    if a.dtype.kind == "f":
        a = a.astype("float32")
    return a.astype(dtype)


def not_finite(dtype, sums=False):
    """NaN and the infinities, none of integers."""
    return np.array([np.nan, np.inf, -np.inf], dtype) if np.dtype(dtype).kind == "f" else None


def extreme(dtype, sums=False):
    """The ends of a type, zeros of both signs, denormals, what float64 or 32 bits lose.

    What is to be summed has no numbers beside which all others are lost.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return None
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        known = [0, 1, -1, info.min, info.min + 1, info.max - 1, info.max]
        known += [2**24 + 1, 2**31 - 1, 2**31, 2**53 + 1, -(2**53) - 1]
        return np.array([n for n in known if info.min <= n <= info.max], dtype)
    info = np.finfo(dtype)
    ends = [0.0, info.smallest_subnormal, info.smallest_normal, info.eps]
    ends += [] if sums else [info.max]
    return np.array([*ends, *(-v for v in ends)], dtype)


NOT_FINITE, EXTREMES = "NaN and infinities", "extremes"
VALUES = {NOT_FINITE: not_finite, EXTREMES: extreme}


def with_values(a, values, rng):
    """A sample, some elements of which are replaced by values: one at least."""
    out = np.array(a)
    if not out.size:
        return out
    chosen = rng.random(out.shape) < _SHARE
    chosen.flat[rng.integers(out.size)] = True
    out[chosen] = rng.choice(values, chosen.sum())
    return out


def large(a, axis, rng):
    """Numbers of one sign, so many along an axis that float32 does not count them."""
    others = a.size // a.shape[axis]
    shape = [LARGE // others if k == axis else n for k, n in enumerate(a.shape)]
    return rng.uniform(0.5, 1.5, shape).astype("float32")


def resized(arrays, old, new, rng):
    """Samples whose axes of a size have another one: cut off, or begun again at the end.

    Floats that are repeated differ, so that none are equal.
    """
    out = []
    for a in arrays:
        for axis, size in enumerate(a.shape):
            if size == old:
                a = np.take(a, np.arange(new) % old, axis)
        if a.dtype.kind == "f" and a.size and new > old and old in np.shape(arrays[len(out)]):
            a = a * (1 + 0.1 * rng.random(a.shape))
        out.append(np.ascontiguousarray(a) if a.ndim else a)
    return out
