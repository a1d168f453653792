"""Tensors whose values were computed, not learnt."""

import numpy as np

_CLOSE = 1e-3  # relative tolerance
_SAMPLE_SIZE = 4096  # elements of a large array that are tested before all of them


def computed(array: np.ndarray) -> str | None:
    """Return the kind of computed values that a tensor holds, or None if they may be weights."""
    if is_mask(array):
        return "a mask"
    return "samples of sinusoids or lines" if _is_sampled(array) else None


def grid(array: np.ndarray) -> str | None:
    """Return "whole numbers" for whole and half numbers, such as positions and strides, or None."""
    sample = _sample(array) * 2
    if uniform(array) or (sample != np.round(sample)).any():
        return None
    double = array * 2
    return "whole numbers" if (double == np.round(double)).all() else None


def fixed_matrix(array: np.ndarray) -> str | None:
    """Return the kind of computed values that a matrix holds, or None if they may be weights."""
    return computed(array) or ("a filter bank" if _is_filter_bank(array) else None)


def fixed_filters(array: np.ndarray) -> str | None:
    """Return the kind of fixed filters that a convolution has, or None if they may be weights."""
    if array.ndim < 3 or uniform(array) or np.prod(array.shape[2:]) < 3:
        return None
    taps = array.reshape(-1, int(np.prod(array.shape[2:]))).astype(np.float64)
    if _are_fourier_pairs(taps):
        return "waves in a window"
    return "symmetric filters" if _are_symmetric(taps[:4]) and _are_symmetric(taps) else None


def uniform(array: np.ndarray) -> bool:
    """Check whether all elements are equal."""
    return array.size == 0 or bool((array == array.reshape(-1)[0]).all())


def is_mask(array: np.ndarray) -> bool:
    """Check whether an array is a mask: it has two values, one of them 0, or infinite ones."""
    if not np.isfinite(array).all():
        return True
    if array.size < 4:
        return False
    sample = np.unique(_sample(array))
    if len(sample) > 2:
        return False
    values = np.unique(array)
    return len(values) == 2 and 0 in values


def _sample(array):
    """Return elements from all over an array."""
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLE_SIZE)]


def _is_sampled(array):
    """Check whether all rows, or all columns, are samples of sines or lines."""
    axes = [k for k, d in enumerate(array.shape) if d > 1][-2:]
    return not uniform(array) and any(_has_sine_columns(np.moveaxis(array, k, 0)) for k in axes)


def _has_sine_columns(table):
    """Check whether every column is a sine or a line over the first axis."""
    if len(table) < 8:
        return False
    columns = table.reshape(len(table), -1)
    return _are_sines(columns[:, :16]) and _are_sines(columns)


def _are_sines(columns):
    """Check that each column follows f(k + 1) + f(k - 1) = c f(k), as sines and lines do."""
    columns = columns.astype(np.float64)
    middle, neighbours = columns[1:-1], columns[2:] + columns[:-2]
    power = (middle * middle).sum(0)
    factor = (middle * neighbours).sum(0) / np.where(power > 0, power, 1.0)
    error = np.abs(neighbours - factor * middle).max()
    return bool(error <= _CLOSE * np.abs(columns).max()) and bool((np.abs(factor) <= 2.01).all())


def _is_filter_bank(array):
    """Check whether a matrix is mostly zeros and nowhere negative, as mel filter banks are."""
    sample = _sample(array)
    if uniform(array) or (sample < 0).any() or np.count_nonzero(sample) * 2 > sample.size:
        return False
    return bool((array >= 0).all()) and np.count_nonzero(array) * 2 <= array.size


def _are_fourier_pairs(taps):
    """Check whether filters are cosines and sines in one window, as those of an STFT are."""
    count = len(taps) // 2
    if count < 3 or len(taps) % 2:
        return False
    pairs = (taps[:count], taps[count:]), (taps[::2], taps[1::2])
    return any(_share_window(a[:4], b[:4]) and _share_window(a, b) for a, b in pairs)


def _share_window(cosines, sines):
    """Check that the squares of each pair add up to the same squared window."""
    power = cosines**2 + sines**2
    return bool(np.abs(power - power[0]).max() <= _CLOSE * power.max())


def _are_symmetric(taps):
    """Check whether each filter is even or odd, as windows, blurs and bases of transforms are.

    The centre is the middle of the filter, or of a periodic filter without its first tap.
    """
    tolerance = _CLOSE * np.abs(taps).max()
    sides = (taps, taps[:, 1:])
    return any((_asymmetry(part, tolerance * _CLOSE) <= tolerance).all() for part in sides)


def _asymmetry(taps, negligible):
    """Return the distance of each filter from its mirror image, or from the negative of that.

    It is mirrored about the middle of its support, the taps that are more than negligible.
    """
    support = np.abs(taps) > negligible
    first, last = support.argmax(1), taps.shape[1] - 1 - support[:, ::-1].argmax(1)
    index = (first + last)[:, None] - np.arange(taps.shape[1])
    inside = (index >= 0) & (index < taps.shape[1])
    mirrored = np.where(inside, np.take_along_axis(taps, index % taps.shape[1], 1), 0.0)
    even, odd = (np.abs(taps - sign * mirrored).max(1) for sign in (1, -1))
    return np.minimum(even, odd)
