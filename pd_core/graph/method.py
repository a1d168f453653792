"""Operators and methods of Variables that the packages above this one provide."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

from numpy.typing import DTypeLike

if TYPE_CHECKING:  # this class is a base of it
    from .variable import Operand, Variable

provided: dict[str, Callable] = {}


def provide(**functions: Callable) -> None:
    """Set the functions behind the operators and methods of Variables, by name."""
    provided.update(functions)


# ---- signatures, for type checkers: those of the ops without their first argument

Axes = int | Sequence[int] | None


class Elementwise(Protocol):
    """The signature of functions of each element."""

    def __call__(self) -> "Variable": ...


class Binary(Protocol):
    """The signature of functions of two operands."""

    def __call__(self, b: "Operand") -> "Variable": ...


class Reduction(Protocol):
    """The signature of reductions over axes."""

    def __call__(
        self, axis: Axes = None, keep_dim: bool = False, *, axes: Axes = None
    ) -> "Variable": ...


class Statistic(Protocol):
    """The signature of statistics over axes."""

    def __call__(self, axis: Axes = None, keep_dim: bool = False) -> "Variable": ...


class Spread(Protocol):
    """The signature of variance and standard deviation."""

    def __call__(
        self, axis: Axes = None, *, keep_dim: bool = False, correction: float = 1.0
    ) -> "Variable": ...


class Norm(Protocol):
    """The signature of norms."""

    def __call__(self, p: float = 2.0, axis: Axes = None, keep_dim: bool = False) -> "Variable": ...


class Place(Protocol):
    """The signature of the index of an extreme."""

    def __call__(self, axis: int = -1, keep_dim: bool = False) -> "Variable": ...


class Cumulative(Protocol):
    """The signature of sums and products up to each element."""

    def __call__(self, axis: int = 0) -> "Variable": ...


class Along(Protocol):
    """The signature of functions along an axis."""

    def __call__(self, axis: int = -1) -> "Variable": ...


class Order(Protocol):
    """The signature of sorting."""

    def __call__(self, axis: int = -1, descending: bool = False) -> "Variable": ...


class Largest(Protocol):
    """The signature of `top_k`."""

    def __call__(
        self, k: "int | Variable", axis: int = -1, largest: bool = True
    ) -> "tuple[Variable, Variable]": ...


class Flatten(Protocol):
    """The signature of `flatten`."""

    def __call__(self, axis: int = 1) -> "Variable": ...


class AxesOfOne(Protocol):
    """The signature of functions that insert or remove axes of size 1."""

    def __call__(
        self, axis: "Operand | None" = None, *, axes: "Operand | None" = None
    ) -> "Variable": ...


class Expand(Protocol):
    """The signature of `expand`."""

    def __call__(self, shape: "Operand") -> "Variable": ...


class Tile(Protocol):
    """The signature of `tile`."""

    def __call__(self, repeats: "Operand") -> "Variable": ...


class Repeat(Protocol):
    """The signature of `repeat`."""

    def __call__(self, count: int, axis: int = 0) -> "Variable": ...


class Flip(Protocol):
    """The signature of `flip`."""

    def __call__(self, axis: Axes = None) -> "Variable": ...


class Cast(Protocol):
    """The signature of `cast`."""

    def __call__(self, dtype: DTypeLike) -> "Variable": ...


# ---- methods

_Signature = TypeVar("_Signature")


class Method(Generic[_Signature]):
    """A method of Variables that calls an op with the Variable as its first argument.

    The op is one of those that are `provide`d.
    """

    def __init__(self, op: str):
        self.op = op
        self.__doc__ = f"Call `pd.{op}` with it as the first argument."

    @overload
    def __get__(self, x: None, owner: Any) -> Self: ...

    @overload
    def __get__(self, x: object, owner: Any) -> _Signature: ...

    def __get__(self, x: Any, owner: Any) -> Any:
        return self if x is None else partial(self._function(), x)

    def _function(self) -> Callable[..., Any]:
        return provided[self.op]


class AlongOne(Method[_Signature]):
    """A method that needs an axis where there are several, as others take all elements without.

    It comes after `before` other arguments, or by name.
    """

    def __init__(self, op: str, name: str, before: int = 0):
        super().__init__(op)
        self.name, self.before = name, before

    def _function(self) -> Callable[..., Any]:
        return self._call

    def _call(self, x: Any, *args: Any, **kwargs: Any) -> "Variable":
        # an argument of another name has an error of its own
        if len(args) <= self.before and kwargs.keys() <= {"keep_dim", "count"} and x.rank > 1:
            raise TypeError(
                f"{self.name}: needs an axis of {x!r}; that of all elements is one of x.reshape(-1)"
            )
        return provided[self.op](x, *args, **kwargs)


class Methods:
    """The methods of Variables that are op functions."""

    sum, mean, max, min, prod = (
        Method[Reduction](f"reduce_{n}") for n in ("sum", "mean", "max", "min", "prod")
    )
    any, all = Method[Statistic]("reduce_any"), Method[Statistic]("reduce_all")
    logsumexp, norm = Method[Statistic]("logsumexp"), Method[Norm]("norm")
    std, var = Method[Spread]("std"), Method[Spread]("var")
    argmax, argmin = AlongOne[Place]("arg_max", "argmax"), AlongOne[Place]("arg_min", "argmin")
    cumsum = AlongOne[Cumulative]("cum_sum", "cumsum")
    cumprod = AlongOne[Cumulative]("cum_prod", "cumprod")
    softmax, log_softmax = Method[Along]("softmax"), Method[Along]("log_softmax")
    sort, argsort, topk = Method[Order]("sort"), Method[Order]("argsort"), Method[Largest]("top_k")
    squeeze, unsqueeze = Method[AxesOfOne]("squeeze"), Method[AxesOfOne]("unsqueeze")
    flatten, expand, tile = (
        Method[Flatten]("flatten"),
        Method[Expand]("expand"),
        Method[Tile]("tile"),
    )
    repeat = AlongOne[Repeat]("repeat", "repeat", before=1)
    flip, astype = Method[Flip]("flip"), Method[Cast]("cast")
    pow, matmul = Method[Binary]("pow"), Method[Binary]("matmul")
    abs, exp, log, sqrt, square, sin, cos, tanh, sigmoid, relu, floor, round, sign = (
        Method[Elementwise](n)
        for n in (
            *("abs", "exp", "log", "sqrt", "square", "sin", "cos", "tanh", "sigmoid", "relu"),
            *("floor", "round", "sign"),
        )
    )
