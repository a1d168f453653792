"""One row of an op table, and the samples it is fed with."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Case:
    """`function(*variables, **options)` gives what `reference(*arrays, **options)` gives.

    `name` is the ONNX operator that the function adds, or the function's own name where it is
    composed of several. `batch` lists the samples whose first axis is a batch. A row that is not
    `smooth` is not differentiated, another `order` times.
    """

    name: str
    function: Callable
    reference: Callable
    samples: tuple
    options: dict = field(default_factory=dict)
    batch: tuple = (0,)
    rtol: float = 1e-5
    order: int = 2
    smooth: bool = True
    training: bool = False
    label: str = ""

    def __str__(self):
        options = ",".join(f"{k}={v}" for k, v in self.options.items()).replace(" ", "")
        return "-".join(part for part in (self.name, self.label, options) if part)

    def arrays(self, rng, dtype="float32"):
        """The samples; floats in this element type, with values that float32 holds exactly."""
        drawn = [np.asarray(sample(rng)) for sample in self.samples]
        return [a.astype("float32").astype(dtype) if a.dtype.kind == "f" else a for a in drawn]

    def expected(self, arrays):
        """The reference's results, a list, in double precision."""
        wide = [a.astype("float64") if a.dtype.kind == "f" else a for a in arrays]
        return as_list(self.reference(*wide, **self.options))


_FIELDS = ("batch", "rtol", "order", "smooth", "training", "label")


def case(name, function, reference, samples, **options):
    """A row; keywords that are no fields of a Case are options of function and reference."""
    fields = {k: options.pop(k) for k in _FIELDS if k in options}
    return Case(name, function, reference, tuple(samples), options, **fields)


def as_list(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


# ---- samples: functions of the generator


def normal(*shape):
    """Standard normal."""
    return lambda rng: rng.standard_normal(shape)


def between(low, high, *shape):
    """Uniform."""
    return lambda rng: rng.uniform(low, high, shape)


def distinct(*shape):
    """Distinct values of both signs, no two nearer than 0.1 and none nearer than 0.05 to zero:
    no central difference crosses a kink."""

    def draw(rng):
        count = int(np.prod(shape))
        return ((rng.permutation(count) - count // 2) * 0.1 + 0.05).reshape(shape)

    return draw


def whole(low, high, *shape, dtype="int64"):
    """Whole numbers of [low, high)."""
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def flags(*shape):
    """Bools."""
    return lambda rng: rng.integers(0, 2, shape).astype(bool)


def fixed(values, dtype=None):
    """These values."""
    return lambda rng: np.array(values, dtype)
