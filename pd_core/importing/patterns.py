"""Tensors whose values were computed, not learnt."""

import numpy as np

_CLOSE = 1e-3
_SAMPLE = 4096  # elements that are looked at first


def computed(array):
    """The kind of computed values that a tensor holds, or None if they may be weights."""
    if is_mask(array):
        return "a mask"
    return "samples of sinusoids or lines" if _is_sampled(array) else None


def grid(array):
    """`computed` for whole and half numbers, such as positions and strides, or None."""
    some = _some(array) * 2
    if uniform(array) or (some != np.round(some)).any():
        return None
    double = array * 2
    return "whole numbers" if (double == np.round(double)).all() else None


def fixed_matrix(array):
    """The kind of computed values that a matrix holds, or None if they may be weights."""
    return computed(array) or ("a filter bank" if _is_bank(array) else None)


def fixed_filters(array):
    """The kind of fixed filters that a convolution has, or None if they may be weights."""
    if array.ndim < 3 or uniform(array) or np.prod(array.shape[2:]) < 3:
        return None
    taps = array.reshape(-1, int(np.prod(array.shape[2:]))).astype(np.float64)
    if _are_waves(taps):
        return "waves in a window"
    return "symmetric filters" if _mirrored(taps[:4]) and _mirrored(taps) else None


def uniform(array):
    """Whether all elements are equal."""
    return array.size == 0 or bool((array == array.reshape(-1)[0]).all())


def is_mask(array):
    """Whether an array says yes or no for each element: two values, one of them 0, or infinite."""
    if not np.isfinite(array).all():
        return True
    if array.size < 4:
        return False
    some = np.unique(_some(array))
    if len(some) > 2:
        return False
    values = np.unique(array)
    return len(values) == 2 and 0 in values


def _some(array):
    """Elements from all over an array."""
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLE)]


def _is_sampled(array):
    """Whether all rows, or all columns, follow f(k + 1) + f(k - 1) = c f(k), as sines do."""
    axes = [k for k, d in enumerate(array.shape) if d > 1][-2:]
    return not uniform(array) and any(_follows(np.moveaxis(array, k, 0)) for k in axes)


def _follows(table):
    """Whether every column is a sine or a line over the first axis."""
    if len(table) < 8:
        return False
    columns = table.reshape(len(table), -1)
    return _sines(columns[:, :16]) and _sines(columns)


def _sines(columns):
    columns = columns.astype(np.float64)
    middle, around = columns[1:-1], columns[2:] + columns[:-2]
    power = (middle * middle).sum(0)
    factor = (middle * around).sum(0) / np.where(power > 0, power, 1.0)
    error = np.abs(around - factor * middle).max()
    return bool(error <= _CLOSE * np.abs(columns).max()) and bool((np.abs(factor) <= 2.01).all())


def _is_bank(array):
    """Whether a matrix is mostly zeros and nowhere negative, as banks of bands are."""
    some = _some(array)
    if uniform(array) or (some < 0).any() or np.count_nonzero(some) * 2 > some.size:
        return False
    return bool((array >= 0).all()) and np.count_nonzero(array) * 2 <= array.size


def _are_waves(taps):
    """Whether filters are pairs of waves in one window: their squares add up to its square."""
    count = len(taps) // 2
    if count < 3 or len(taps) % 2:
        return False
    pairs = (taps[:count], taps[count:]), (taps[::2], taps[1::2])
    return any(_one_window(a[:4], b[:4]) and _one_window(a, b) for a, b in pairs)


def _one_window(cosines, sines):
    power = cosines**2 + sines**2
    return bool(np.abs(power - power[0]).max() <= _CLOSE * power.max())


def _mirrored(taps):
    """Whether each filter is its own mirror image, but for the sign, as windows, blurs and the
    bases of transforms are: about its middle, or about that of a period, which counts from 0.
    """
    close = _CLOSE * np.abs(taps).max()
    return any((_distance(part, close * _CLOSE) <= close).all() for part in (taps, taps[:, 1:]))


def _distance(taps, nothing):
    """How far each filter is from its mirror image, or from the negative of that; the image is
    about the middle of what is more than nothing.
    """
    there = np.abs(taps) > nothing
    first, behind = there.argmax(1), there[:, ::-1].argmax(1)
    turn = first + taps.shape[1] - 1 - behind
    places = turn[:, None] - np.arange(taps.shape[1])
    inside = (places >= 0) & (places < taps.shape[1])
    turned = np.where(inside, np.take_along_axis(taps, places % taps.shape[1], 1), 0.0)
    even, odd = (np.abs(taps - sign * turned).max(1) for sign in (1, -1))
    return np.minimum(even, odd)
