"""Initial values: functions fill(shape, rng) -> ndarray, drawn on the host.

`rng` is a numpy Generator that the session derives from its seed and the variable's name.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

Initializer = Callable[[tuple[int, ...], np.random.Generator], ArrayLike]


@dataclass(frozen=True)
class Constant:
    """The same value everywhere."""

    value: float = 0.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.broadcast_to(self.value, shape)


def zero() -> Constant:
    """Return the initializer with zeros."""
    return Constant(0.0)


@dataclass(frozen=True, eq=False)
class Value:
    """A fixed array."""

    array: np.ndarray

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return self.array


@dataclass(frozen=True)
class FromFile:
    """The array in a `.npy` file, read when the variable is initialised."""

    path: str

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.load(self.path, allow_pickle=False)


@dataclass(frozen=True)
class Gaussian:
    """Normal distribution N(mean, std^2)."""

    mean: float = 0.0
    std: float = 1.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.normal(self.mean, self.std, shape)


@dataclass(frozen=True)
class Uniform:
    """Uniform distribution on [low, high)."""

    low: float = -1.0
    high: float = 1.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(self.low, self.high, shape)


def fan_in(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw from N(0, 1/shape[0]) for matrices and filters; zeros for vectors and scalars."""
    if len(shape) < 2:
        return np.zeros(shape)
    return rng.normal(0.0, 1.0 / np.sqrt(shape[0]), shape)


@dataclass(frozen=True)
class Xavier:
    """Uniform on ±sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, eq. 16)."""

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        inputs, outputs = _fans(shape)
        bound = np.sqrt(6.0 / (inputs + outputs))
        return rng.uniform(-bound, bound, shape)


@dataclass(frozen=True)
class MSRA:
    """N(0, 2/fan_in) (He et al. 2015, eq. 10)."""

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.normal(0.0, np.sqrt(2.0 / _fans(shape)[0]), shape)


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan in, fan out) of a matrix [in, out] or of filters [out, in, *window]."""
    if len(shape) < 2:
        return max(1, int(np.prod(shape))), max(1, int(np.prod(shape)))
    if len(shape) == 2:
        return shape
    window = int(np.prod(shape[2:]))
    return shape[1] * window, shape[0] * window
