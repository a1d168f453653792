"""Resizing by the weights of its points, which are known where the sizes are."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant

_CUBIC = -0.75  # ONNX's default of `cubic_coeff_a`


def resize(node: Node, inputs: Inputs) -> Variable | None:
    """Sum weighted pixels along one axis after the other; None where sizes are not known."""
    padded: Inputs = (*inputs, None, None, None)
    x, region, scales = padded[:3]  # of these, any but x may be left out
    result, a = node.outputs[0].dims, node.attributes
    axes = [int(k) % x.rank for k in a.get("axes") or range(x.rank)]
    cropped = a.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    given: list[Any] = [
        scales if scales is not None and scales.dims != (0,) else None,
        region if cropped else None,
    ]
    if any(v is not None and v.value is None for v in given):
        return None
    factors, ends = (None if v is None else v.value.tolist() for v in given)
    factors = factors or [None] * len(axes)
    crops = np.reshape(ends, (2, -1)).T if ends else [None] * len(axes)
    for axis, factor, crop in zip(axes, factors, crops, strict=True):
        size, count = x.dims[axis], result[axis]
        if not cropped and factor in (None, 1.0) and size == count:
            continue
        if not (isinstance(size, int) and isinstance(count, int)):
            return None
        factor = count / size if factor is None else factor
        points = _points(size, count, factor, crop, a)
        weights = _weights(points, size, factor, a)
        outside = (points < 0) | (points > size - 1) if cropped else None
        x = _weighted(x, axis, weights, outside, a.get("extrapolation_value", 0.0))
    return x


def _points(size, count, factor, crop, a):
    """The coordinate of each point of the result along an axis, in pixels of the image."""
    kind = a.get("coordinate_transformation_mode", "half_pixel")
    k = np.arange(count, dtype=np.float64)
    if kind == "asymmetric":
        return k / factor
    if kind == "align_corners":
        return k * (size - 1) / max(1, count - 1)
    if kind == "tf_crop_and_resize":
        first, last = (size - 1) * crop[0], (size - 1) * crop[1]
        if count == 1:
            return np.array([(first + last) * 0.5])
        return first + k * (last - first) / (count - 1)
    if kind == "pytorch_half_pixel" and count == 1:
        return np.zeros(1)
    points = (k + 0.5) / factor - 0.5
    if kind == "half_pixel_symmetric":
        points += size * 0.5 * (1.0 - count / (factor * size))
    return points


def _weights(points, size, factor, a):
    """The weight of each pixel in each point, [count, size]."""
    mode = a.get("mode", "nearest")
    if mode == "nearest":
        return _one_hot(_ROUNDED[a.get("nearest_mode", "round_prefer_floor")](points), size)
    narrow = min(1.0, factor) if a.get("antialias", 0) else 1.0
    if mode == "linear" and narrow == 1.0:
        points = np.clip(points, 0, size - 1)
    reach = int(np.ceil((1 if mode == "linear" else 2) / narrow))
    base, total = np.floor(points), np.zeros((len(points), size))
    taps = [base + k for k in range(1 - reach, 1 + reach)]
    filters = [
        _filter(mode, (tap - points) * narrow, a.get("cubic_coeff_a", _CUBIC)) for tap in taps
    ]
    for tap, weight in zip(taps, filters, strict=True):
        if a.get("exclude_outside", 0):
            weight = np.where((tap >= 0) & (tap < size), weight, 0.0)
        total += weight[:, None] * _one_hot(tap, size)
    if narrow < 1.0 or a.get("exclude_outside", 0):
        total /= total.sum(1, keepdims=True)
    return total


def _filter(mode, distance, coefficient):
    """The weight of a pixel at a distance (Keys 1981 for cubic)."""
    d, c = np.abs(distance), coefficient
    if mode == "linear":
        return np.maximum(0.0, 1.0 - d)
    near = ((c + 2) * d - (c + 3)) * d * d + 1
    far = ((c * d - 5 * c) * d + 8 * c) * d - 4 * c
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _one_hot(pixels, size):
    return np.clip(pixels, 0, size - 1)[:, None] == np.arange(size)


_ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _weighted(x: Variable, axis: int, weights, outside, filling: float) -> Variable:
    """Sum the weighted pixels of each point along an axis; `filling` in the points outside."""
    taps = max(1, int((weights != 0).sum(1).max(initial=0)))
    at = np.argsort(weights == 0, axis=1, kind="stable")[:, :taps]
    shape = [-1 if k == axis else 1 for k in range(x.rank)]
    total: Any = None
    for pixel, factor in zip(at.T, np.take_along_axis(weights, at, 1).T, strict=True):
        pixels = apply("Gather", x, constant(pixel, np.int64), axis=axis)
        if not (factor == 1.0).all():
            factor = factor.reshape(shape).astype(np.float64)
            # a pixel without weight may be infinite
            pixels = ops.where(factor == 0.0, 0.0, pixels * constant(factor, x.dtype))
        total = pixels if total is None else total + pixels
    if outside is not None and outside.any():
        total = ops.where(outside.reshape(shape), filling, total)
    return total
