"""Initial values: functions fill(shape, rng) -> ndarray, drawn on the host.

`rng` is a numpy Generator that the session derives from its seed and the variable's name.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .errors import ARRAY_ERRORS, DamagedFile, GraphError, ShapeError

Initializer = Callable[[tuple[int, ...], np.random.Generator], ArrayLike]
Initial = str | Initializer | np.ndarray | None  # what `kernel_init` of a layer takes


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


@dataclass(frozen=True, eq=False)
class Derived:
    """A function of the initial value of another variable, such as its norms."""

    variable: Any
    function: Callable[[np.ndarray], np.ndarray]

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draw what the other variable does, from the generator of its name."""
        source = self.variable
        return self.function(np.asarray(source.initial(source.dims, rng), source.dtype))


@dataclass(frozen=True)
class FromFile:
    """The array in a `.npy` file, read when the variable is initialised; DamagedFile if none is."""

    path: str

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        with open(self.path, "rb") as file:
            try:
                return np.lib.format.read_array(file, allow_pickle=False)
            except ARRAY_ERRORS as error:
                raise DamagedFile(f"{self.path} is no .npy file: {error}") from None


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
class TruncatedNormal:
    """N(mean, std^2), drawn again where it is further than two std from the mean."""

    mean: float = 0.0
    std: float = 1.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        values = rng.standard_normal(shape)
        outside = np.abs(values) > 2.0
        while outside.any():
            values[outside] = rng.standard_normal(np.count_nonzero(outside))
            outside = np.abs(values) > 2.0
        return self.mean + self.std * values


@dataclass(frozen=True)
class Orthogonal:
    """A random matrix with orthonormal rows or columns, whichever are fewer, times `gain`.

    Filters [O, I, *window] are the matrix [O, I * window] (Saxe et al. 2014).
    """

    gain: float = 1.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        if len(shape) < 2:
            raise ShapeError(f"an orthogonal matrix has two axes or more, not {list(shape)}")
        rows, columns = shape[0], int(np.prod(shape[1:]))
        q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # each such matrix equally likely
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


@dataclass(frozen=True)
class Xavier:
    """Variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010, eq. 16); uniform or normal."""

    uniform: bool = True

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return _draw(shape, rng, 2.0, sum(_fans(shape)), self.uniform)


@dataclass(frozen=True)
class MSRA:
    """Variance 2 / fan_in (He et al. 2015, eq. 10); normal or uniform."""

    uniform: bool = False

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return _draw(shape, rng, 2.0, _fans(shape)[0], self.uniform)


@dataclass(frozen=True)
class LeCun:
    """Variance 1 / fan_in (LeCun et al. 1998, section 4.6); normal or uniform."""

    uniform: bool = False

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return _draw(shape, rng, 1.0, _fans(shape)[0], self.uniform)


def _draw(
    shape: tuple[int, ...], rng: np.random.Generator, factor: float, fan: float, uniform: bool
) -> np.ndarray:
    """Draw with mean 0 and variance factor / fan; a uniform bound is sqrt(3) std."""
    if uniform:
        bound = np.sqrt(3.0 * factor / fan)
        return rng.uniform(-bound, bound, shape)
    return rng.normal(0.0, np.sqrt(factor / fan), shape)


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan in, fan out) of a matrix [in, out] or of filters [out, in, *window]."""
    if len(shape) < 2:
        return max(1, int(np.prod(shape))), max(1, int(np.prod(shape)))
    if len(shape) == 2:
        return shape
    window = int(np.prod(shape[2:]))
    return shape[1] * window, shape[0] * window


initializers: dict[str, Initializer] = {
    "he_normal": MSRA(),
    "he_uniform": MSRA(uniform=True),
    "lecun_normal": LeCun(),
    "lecun_uniform": LeCun(uniform=True),
    "normal": Gaussian(),
    "ones": Constant(1.0),
    "orthogonal": Orthogonal(),
    "truncated_normal": TruncatedNormal(),
    "uniform": Uniform(),
    "xavier_normal": Xavier(uniform=False),
    "xavier_uniform": Xavier(),
    "zeros": Constant(0.0),
}


def initializer(spec: Initial) -> Initializer:
    """Return an initializer by its name; a function as it is; None is the default, `fan_in`.

    An array is the initial value itself. GraphError for an unknown name, TypeError for anything
    else.
    """
    if spec is None:
        return fan_in
    if isinstance(spec, np.ndarray):
        return Value(spec.copy())
    if isinstance(spec, str):
        if spec not in initializers:
            raise GraphError(
                f"there is no initializer {spec!r}; there is {', '.join(initializers)}"
            )
        return initializers[spec]
    return require_initializer("a layer", spec)


def require_initializer(who: str, spec: object) -> Initializer:
    """Return what is a function of (shape, rng); TypeError for anything else."""
    if spec is fan_in or type(spec).__module__ == __name__:  # a signature takes 50 µs
        return spec  # type: ignore[return-value]
    if not callable(spec):
        raise TypeError(f"{who}: an initializer is a function (shape, rng) -> array, not {spec!r}")
    if isinstance(spec, type):
        raise TypeError(f"{who}: an initializer is an instance, as {spec.__name__}(), not a class")
    try:
        inspect.signature(spec).bind((), None)
    except ValueError:
        pass  # a function in C may have no signature
    except TypeError as error:
        name = getattr(spec, "__name__", repr(spec))
        raise TypeError(
            f"{who}: an initializer is a function (shape, rng) -> array, {name} is not: {error}"
            + (f"\n  hint: {name}() may return one" if _needs_nothing(spec) else "")
        ) from None
    return spec


def _needs_nothing(function: Callable) -> bool:
    return all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        for p in inspect.signature(function).parameters.values()
    )
