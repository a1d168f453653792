"""Cases of long sums: reductions, normalizations and gradients, with their formulas in float64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pd_core as pd
from pd_core.graph.node import apply

TOLERANCE = 1e-5


def _operator(op_type):
    return lambda x, axes: apply(op_type, x, np.array(axes), keepdims=0)


# name: (function of x and axes, the same in NumPy)
REDUCTIONS: dict[str, tuple[Callable, Callable]] = {
    "sum": (pd.reduce_sum, np.sum),
    "mean": (pd.reduce_mean, np.mean),
    "variance": (
        lambda x, axes: pd.reduce_mean((x - pd.reduce_mean(x, axes, keep_dim=True)) ** 2.0, axes),
        np.var,
    ),
    "l1": (_operator("ReduceL1"), lambda x, axes: np.abs(x).sum(axes)),
    "l2": (_operator("ReduceL2"), lambda x, axes: np.sqrt(np.square(x).sum(axes))),
    "sum of squares": (_operator("ReduceSumSquare"), lambda x, axes: np.square(x).sum(axes)),
    "log of the sum": (_operator("ReduceLogSum"), lambda x, axes: np.log(x.sum(axes))),
    "log of exponentials": (
        _operator("ReduceLogSumExp"),
        lambda x, axes: np.log(np.exp(x).sum(axes)),
    ),
}


def layouts(n: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (shape, axes) of arrays of n numbers, a power of two, or nearly so many."""
    return [
        ((n,), (0,)),
        ((n - 3,), (0,)),
        ((n, 1), (0,)),
        ((1, n), (1,)),
        ((n // 64, 64), (0,)),
        ((n // 64 - 3, 64), (0,)),
        ((n // 64, 64), (0, 1)),
        ((64, n // 64), (1,)),
        ((64, n // 64 - 3), (1,)),
        ((3, n // 3), (1,)),
        ((n // 3, 3), (0,)),
        ((8, 1, n // 1024, 128), (0, 2, 3)),
        ((8, 1, n // 1024 - 3, 128), (0, 2, 3)),
        ((2, n // 4096, 2048), (1,)),
        ((2, n // 4096, 2048), (0, 2)),
        ((2, n // 4096, 2048), (0, 1, 2)),
        ((n // 128, 2, 64), (0, 2)),
        ((2, n // 4, 2), (1,)),
        ((2, n // 4 - 3, 2), (0, 1)),
    ]


# What is known of sizes.
KNOWN: dict[str, Callable[[tuple[int, ...]], list[int | None]]] = {
    "known": list,
    "unknown": lambda shape: [None] * len(shape),
    "first unknown": lambda shape: [None, *shape[1:]],
    "last unknown": lambda shape: [*shape[:-1], None],
}


@dataclass(frozen=True)
class Case:
    """A function of one Variable, and what it is of an array in float64."""

    name: str
    shape: tuple[int, ...]
    dims: list[int | None]
    function: Callable
    truth: Callable[[np.ndarray], Any]

    @property
    def has_free_sizes(self) -> bool:
        """Whether it takes arrays whose sizes are not known: batches have channels."""
        return not self.name.startswith("batch")

    def __str__(self):
        return self.name


def reductions(n: int) -> Iterator[Case]:
    """Yield every reduction of every layout of n numbers, for all that may be known of sizes."""
    for name, (function, formula) in REDUCTIONS.items():
        for shape, axes in layouts(n):
            for known, dims in KNOWN.items():
                text = f"{name} of {list(shape)} over {list(axes)}, {known}"
                yield Case(
                    text,
                    shape,
                    dims(shape),
                    lambda x, f=function, axes=axes: f(x, list(axes)),
                    lambda a, f=formula, axes=axes: f(a, axes),
                )


def _standard(a, axes, epsilon=1e-5):
    return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + epsilon)


def _batch_norm(x):
    channels, fill = x.dims[1], pd.constant_initializer(0.0)
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    mean, variance = (pd.Variable(k, shape=[channels], initializer=fill) for k in ("m", "v"))
    return pd.batch_norm(x, ones, zeros, mean, variance, use_global_stats=False)


def _cumulative(exclusive, reverse):
    return lambda x: apply("CumSum", x, np.int64(0), exclusive=exclusive, reverse=reverse)


def _summed_after(a, exclusive, reverse):
    a = a[::-1] if reverse else a
    y = a.cumsum(0) - (a if exclusive else 0.0)
    return y[::-1] if reverse else y


def others(n: int) -> Iterator[Case]:
    """Yield normalizations, cumulative sums and pooling over many of n numbers."""
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    row, image = (2, n // 2), (2, 2, n // 2048, 512)
    spatial = (2, 3)
    found: list[tuple[str, tuple[int, ...], Callable, Callable]] = [
        ("layer", row, pd.layer_norm, lambda a: _standard(a, 1)),
        (
            "rms",
            row,
            pd.rms_norm,
            lambda a: a / np.sqrt(np.square(a).mean(1, keepdims=True) + 1e-5),
        ),
        (
            "l2",
            row,
            pd.l2_normalize,
            lambda a: a / np.sqrt(np.square(a).sum(1, keepdims=True) + 1e-12),
        ),
        ("batch", image, _batch_norm, lambda a: _standard(a, (0, *spatial))),
        ("instance", image, pd.instance_norm, lambda a: _standard(a, spatial)),
        ("group", image, lambda x: pd.group_norm(x, 1), lambda a: _standard(a, (1, *spatial))),
        (
            "InstanceNormalization",
            image,
            lambda x: apply("InstanceNormalization", x, ones, zeros),
            lambda a: _standard(a, spatial),
        ),
        (
            "GroupNormalization",
            image,
            lambda x: apply("GroupNormalization", x, ones, zeros, num_groups=1),
            lambda a: _standard(a, (1, *spatial)),
        ),
        (
            "MeanVarianceNormalization",
            image,
            lambda x: apply("MeanVarianceNormalization", x),
            lambda a: _standard(a, (0, *spatial), 0.0),
        ),
        (
            "LpNormalization",
            row,
            lambda x: apply("LpNormalization", x, axis=1, p=1),
            lambda a: a / a.sum(1, keepdims=True),
        ),
        (
            "global pooling",
            image,
            lambda x: apply("GlobalAveragePool", x),
            lambda a: a.mean(spatial, keepdims=True),
        ),
        (
            "pooling",
            image,
            lambda x: pd.avg_pool(x, list(image[2:])),
            lambda a: a.mean(spatial, keepdims=True),
        ),
    ]
    for letters, shape, axes in (
        ("i->", (n,), (0,)),
        ("ij->j", (n // 64, 64), (0,)),
        ("ij->i", (64, n // 64), (1,)),
    ):
        found.append(
            (
                f"einsum {letters}",
                shape,
                lambda x, e=letters: pd.einsum(e, x),
                lambda a, axes=axes: a.sum(axes),
            )
        )
        pair = letters.replace("-", f",{letters[: len(shape)]}-")
        found.append(
            (
                f"einsum {pair}",
                shape,
                lambda x, e=pair: pd.einsum(e, x, x),
                lambda a, axes=axes: np.square(a).sum(axes),
            )
        )
    for p in (1, 2):
        found.append(
            (
                f"global pooling by {p}-norms",
                image,
                lambda x, p=p: apply("GlobalLpPool", x, p=p),
                lambda a, p=p: (a**p).sum(spatial, keepdims=True) ** (1.0 / p),
            )
        )
    samples, labels = (n // 4, 4), np.arange(n // 4) % 4
    for kind, formula in (("mean", np.mean), ("sum", np.sum)):
        found.append(
            (
                f"loss, {kind}",
                samples,
                lambda x, k=kind: apply("SoftmaxCrossEntropyLoss", x, labels, reduction=k),
                lambda a, f=formula: f(np.log(np.exp(a).sum(1)) - a[np.arange(len(a)), labels]),
            )
        )
    for exclusive in (0, 1):
        for reverse in (0, 1):
            found.append(
                (
                    f"cumulative sum, exclusive {exclusive}, reverse {reverse}",
                    (n,),
                    _cumulative(exclusive, reverse),
                    lambda a, e=exclusive, r=reverse: _summed_after(a, e, r),
                )
            )
    found.append(("cumulative sum", (n // 2 - 3, 2), pd.cum_sum, lambda a: a.cumsum(0)))
    for name, shape, function, truth in found:
        yield Case(name, shape, list(shape), function, truth)
        yield Case(f"{name}, first unknown", shape, [None, *shape[1:]], function, truth)


def _gradient(of, shape):
    """The gradient of mean((x op w)^2) in w, which is broadcast."""

    def function(x):
        w = pd.Variable("w", shape=list(shape), initializer=pd.constant_initializer(0.5))
        (g,) = pd.gradients(pd.reduce_mean(pd.square(of(x, w))), [w])
        return g

    return function


def _to_shape(a, shape):
    lead = a.ndim - len(shape)
    axes = tuple(k for k in range(a.ndim) if k < lead or shape[k - lead] == 1)
    return a.sum(axes, keepdims=True).reshape(shape)


def gradients(n: int) -> Iterator[Case]:
    """Yield gradients of biases and scales that are broadcast against n numbers."""
    image = (8, 2, n // 2048, 128)
    for shape, inner in (
        ((n,), ()),
        ((n,), (1,)),
        ((n - 3,), ()),
        ((n // 64, 64), (64,)),
        ((n // 64 - 3, 64), (64,)),
        ((n // 64, 64), (1, 64)),
        ((64, n // 64), (64, 1)),
        ((16, n // 1024, 64), (64,)),
        ((16, n // 1024 - 3, 64), (16, 1, 64)),
        (image, (2, 1, 1)),
        (image, (1, 2, 1, 1)),
    ):
        for name, of, factor in (
            ("bias", lambda x, w: x + w, lambda a: 2.0 * (a + 0.5)),
            ("scale", lambda x, w: x * w, lambda a: 2.0 * a * 0.5 * a),
        ):
            for known in ("known", "unknown", "first unknown"):
                text = f"{name} {list(inner)} of {list(shape)}, {known}"
                yield Case(
                    text,
                    shape,
                    KNOWN[known](shape),
                    _gradient(of, inner),
                    lambda a, f=factor, inner=inner: _to_shape(f(a) / a.size, inner),
                )


def numbers(
    rng: np.random.Generator, shape: tuple[int, ...], is_spread: bool = False
) -> Iterator[np.ndarray]:
    """Yield arrays of numbers of one sign: equal ones, whose errors add up, and others.

    If they shall be spread, a fourth of those is twice as large.
    """
    equal = np.full(shape, 0.1, np.float32)
    equal.reshape(-1)[:: 4 if is_spread else equal.size] *= 2 if is_spread else 1
    yield equal
    yield rng.uniform(0.05, 0.15, shape).astype(np.float32)


def error(case: Case, a: np.ndarray, is_dynamic: bool = False) -> float:
    """Return the largest error of a case, relative to its largest number."""
    with pd.fresh():
        if is_dynamic:
            with pd.guard():
                found = case.function(pd.to_variable(a)).numpy()
        else:
            x = pd.Variable("x", shape=case.dims)
            found = pd.eval(case.function(x), {x: a})
    expected = np.asarray(case.truth(a.astype(float)))
    assert found.shape == expected.shape, (found.shape, expected.shape)
    scale = np.abs(expected).max() or np.abs(a).max()
    return float(np.abs(found - expected).max() / scale)
