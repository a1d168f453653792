"""Variables: typed, shaped values of a graph."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import count
from typing import Union

import numpy as np
from numpy.typing import ArrayLike

from .errors import DTypeError, ShapeError
from .initializers import Constant, Value, fan_in
from .names import register
from .site import user_site

Dim = int | str  # a size, or the name of a size known only at run time
Dims = tuple[Dim, ...]
Shape = Sequence[int | None]  # sizes as a user gives them, None where one is known at run time
Operand = Union["Variable", ArrayLike]  # what an op takes: numbers and arrays become constants

_fresh = count()
_DIGESTED = 256  # bytes of a constant from which on a digest stands for them


def fresh_dim() -> str:
    """A new name for a size known only at run time."""
    return f"?{next(_fresh)}"


def open_dim() -> str:
    """A new name for a size that may also be 1 at run time, and then stretches."""
    return f"?*{next(_fresh)}"


def is_open(d) -> bool:
    """Whether a size may turn out to be 1."""
    return isinstance(d, str) and d.startswith("?*")


class Variable:
    """A typed value: the output of a node, a feed slot, a constant, or persistent state.

    The first positional argument is taken by its type: a str is the name, a list or tuple the
    shape, an array or number the data. A None in the shape is a size known only at run time and
    makes a feed slot; a full shape makes a parameter, which the session initialises on demand.
    float64 data becomes float32 unless `dtype` says otherwise; data is copied.

    `learning_rate` multiplies the optimizer's; `regularizer` and `clip` replace the optimizer's.
    `row_sparse` makes optimizers update only the rows (axis 0) that a step gathers.
    """

    # Defaults of an instance; a subclass may add to them.
    name: str
    dims: Dims
    dtype: np.dtype
    node = None  # the Node this is an output of
    value: np.ndarray | None = None  # of a constant
    fill: Callable | None = None  # initial value of persistent state: fill(shape, rng) -> ndarray
    trainable: bool = False
    learning_rate: float = 1.0
    regularizer: Callable | None = None
    clip: Callable | None = None
    row_sparse: bool = False
    counts: str | None = None  # of fed lengths: the size, of other feeds, that they add up to
    site: tuple[str, int] | None = None
    unfit: Exception | None = None  # of a slot that cannot be fed: raised where it is needed

    def __init__(
        self,
        first=None,
        *,
        name=None,
        shape=None,
        data=None,
        dtype=None,
        initializer=None,
        trainable=None,
        learning_rate=1.0,
        regularizer=None,
        clip=None,
        row_sparse=False,
    ):
        if isinstance(first, str):
            name = _one("name", name, first)
        elif isinstance(first, (list, tuple)):
            shape = _one("shape", shape, first)
        elif first is not None:
            data = _one("data", data, first)
        who = f"variable {name!r}" if name else "a variable without a name"
        shape = _shape(who, shape)
        if data is not None:
            data = _data(who, data, shape, dtype)
            shape, dtype = data.shape, data.dtype
        if shape is None:
            raise ShapeError(f"{who}: give a shape or data")
        fixed = self.__dict__
        fixed["dims"] = tuple(_dim(who, d) for d in shape)
        fixed["dtype"] = np.dtype(dtype or np.float32)
        self.learning_rate, self.regularizer, self.clip = learning_rate, regularizer, clip
        if self.is_static:
            fixed["fill"] = _fill(who, data, initializer, self.dtype)
            self.trainable = self.dtype.kind == "f" if trainable is None else bool(trainable)
        elif initializer is not None or trainable:
            raise ShapeError(
                f"{who}: shape {list(shape)} has an unknown size, which makes it a feed slot; "
                "a feed slot has no initial value and is not trainable"
            )
        if row_sparse and (not self.is_persistent or not self.dims):
            raise ShapeError(f"{who}: row_sparse is for parameters with rows, not {self.shape}")
        self.row_sparse = row_sparse
        self.site = user_site()
        register(self, name)

    @classmethod
    def of(cls, dims, dtype, name="", **state):
        """A Variable that no namespace owns: node outputs, constants, formals."""
        self = cls.__new__(cls)
        fixed = self.__dict__
        fixed["dims"], fixed["name"] = tuple(dims), name
        fixed["dtype"] = dtype if type(dtype) in _DTYPES else np.dtype(dtype)
        if state:
            fixed.update(state)
        return self

    def __setattr__(self, name, value):
        if name in _FIXED:
            raise AttributeError(f"{name!r} of {self!r} cannot be changed once it is built")
        object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple:
        """Sizes, None where a size is known only at run time."""
        return tuple(d if isinstance(d, int) else None for d in self.dims)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @cached_property
    def content(self) -> tuple:
        """What equal constants share: element type, shape, and the bytes or a digest of them."""
        assert self.value is not None
        data = self.value.tobytes()
        if len(data) > _DIGESTED:
            data = blake2b(data, digest_size=16).digest()
        return self.value.dtype.num, self.value.shape, data

    @property
    def is_static(self) -> bool:
        """Every size is known."""
        return all(isinstance(d, int) for d in self.dims)

    @property
    def is_persistent(self) -> bool:
        """The session keeps a value for it between evaluations."""
        return self.fill is not None

    @property
    def is_feed(self) -> bool:
        """It has a value only when one is fed."""
        return self.node is None and self.value is None and self.fill is None

    def __repr__(self):
        return f"{self.name}: {describe(self)}"

    def __bool__(self):
        raise TypeError(
            f"{self!r} has no value while the graph is built; compare with `is None`, "
            "or evaluate it first"
        )

    def __len__(self):
        if not self.dims or not isinstance(self.dims[0], int):
            raise TypeError(f"{self!r} has no length that is known before it runs")
        return self.dims[0]

    __hash__ = object.__hash__
    __array_ufunc__ = None  # ndarray + Variable is ours

    # ---- the face: what ops and sessions do for a variable, which are rooms above this one

    def __add__(self, other: Operand) -> "Variable":
        return _face["add"](self, other)

    def __radd__(self, other: Operand) -> "Variable":
        return _face["add"](other, self)

    def __sub__(self, other: Operand) -> "Variable":
        return _face["sub"](self, other)

    def __rsub__(self, other: Operand) -> "Variable":
        return _face["sub"](other, self)

    def __mul__(self, other: Operand) -> "Variable":
        return _face["mul"](self, other)

    def __rmul__(self, other: Operand) -> "Variable":
        return _face["mul"](other, self)

    def __truediv__(self, other: Operand) -> "Variable":
        return _face["div"](self, other)

    def __rtruediv__(self, other: Operand) -> "Variable":
        return _face["div"](other, self)

    def __pow__(self, other: Operand) -> "Variable":
        return _face["pow"](self, other)

    def __rpow__(self, other: Operand) -> "Variable":
        return _face["pow"](other, self)

    def __matmul__(self, other: Operand) -> "Variable":
        return _face["matmul"](self, other)

    def __rmatmul__(self, other: Operand) -> "Variable":
        return _face["matmul"](other, self)

    def __lt__(self, other: Operand) -> "Variable":
        return _face["less_than"](self, other)

    def __le__(self, other: Operand) -> "Variable":
        return _face["less_equal"](self, other)

    def __gt__(self, other: Operand) -> "Variable":
        return _face["greater_than"](self, other)

    def __ge__(self, other: Operand) -> "Variable":
        return _face["greater_equal"](self, other)

    def __neg__(self) -> "Variable":
        return _face["neg"](self)

    def __abs__(self) -> "Variable":
        return _face["abs"](self)

    def val(self) -> np.ndarray:
        """Return the current value in the default session, see `Session.val`; never compute it."""
        return _face["val"](self)

    def eval(self, feeds: Mapping | None = None) -> np.ndarray:
        """Compute the value for these feeds in the default session."""
        return _face["eval"](self, feeds)

    @property
    def initializer(self):
        """The target that draws this variable's value anew."""
        return _face["initializer"](self)


# What cannot change: a program is found by the graph that these make.
_FIXED = {"dims", "dtype", "node", "value", "fill"}
_DTYPES = {type(np.dtype(t)) for t in "?bBhHiIlLqQefd"}
_face: dict[str, Callable] = {}


def provide(**functions: Callable):
    """Give the functions behind the operators and methods of Variables, by name."""
    _face.update(functions)


def describe(x) -> str:
    """`float32[N, 4]`: dtype and sizes, as errors show them."""
    return f"{x.dtype}{shown(x.dims)}"


def shown(dims) -> str:
    """`[?, 4]`: sizes, as errors show them."""
    return f"[{', '.join('?' if isinstance(d, str) else str(d) for d in dims)}]"


def constant(value, dtype=None, name=None) -> Variable:
    """A Variable with a fixed value. Python floats and float64 arrays become float32."""
    if isinstance(value, Variable):
        return value
    if isinstance(value, (str, bytes)):
        raise DTypeError(f"takes Variables, numbers and arrays, not the string {value!r}")
    array = as_array(value, dtype)
    out = Variable.of(array.shape, array.dtype, name or "const", value=array)
    if name is not None:
        register(out, name)
    return out


def as_array(value, dtype=None, who="") -> np.ndarray:
    """A copy of a value as an array of numbers; DTypeError where the dtype would change them.

    Rounding to another float type is no change; without a dtype, float64 becomes float32.
    `who`, as a text, begins the message.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise _unfit(who, value, "masked elements, which have no value")
    try:
        array = np.asarray(value)
    except ValueError:
        raise _unfit(who, value, "rows of different lengths") from None
    if array.dtype.kind not in "fiub":
        raise _unfit(who, value, f"{array.dtype} values")
    if dtype is None:
        dtype = np.float32 if array.dtype == np.float64 else array.dtype
    dtype = np.dtype(dtype)
    if not _keeps(array, dtype):
        raise _unfit(who, value, f"{array.dtype} values where {dtype} is needed")
    return np.array(array, dtype, order="C")


def _unfit(who, value, what):
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:60]}…"
    return DTypeError(f"{who}{': ' if who else ''}cannot take {what}, {text}")


def _keeps(array, dtype):
    """Whether an array has the same values in this dtype."""
    if dtype.kind == "f" or np.can_cast(array.dtype, dtype):
        return True
    with np.errstate(invalid="ignore"):  # NaN is no integer
        return bool((array.astype(dtype) == array).all())


def _one(what, named, positional):
    if named is not None:
        raise TypeError(f"Variable got its {what} twice: {positional!r} and {named!r}")
    return positional


def _shape(who, shape):
    if shape is None or isinstance(shape, (list, tuple)):
        return shape
    raise ShapeError(f"{who}: a shape is a list or tuple of sizes, not {shape!r}")


def _dim(who, d):
    if d is None:
        return fresh_dim()
    if isinstance(d, str):
        return d
    if isinstance(d, (int, np.integer)) and d >= 0:
        return int(d)
    raise ShapeError(f"{who}: a size is a non-negative int or None, not {d!r}")


def _data(who, data, shape, dtype):
    array = as_array(data, dtype, who)
    if shape is not None and tuple(shape) != array.shape:
        raise ShapeError(f"{who}: shape {list(shape)}, but data of {list(array.shape)}")
    return array


def _fill(who, data, initializer, dtype):
    if data is not None:
        if initializer is not None:
            raise TypeError(f"{who}: takes data or an initializer, not both")
        return Value(data)
    if initializer is None:
        return fan_in if dtype.kind == "f" else Constant(0)
    if not callable(initializer):
        raise TypeError(
            f"{who}: an initializer is a function (shape, rng) -> array, not {initializer!r}"
        )
    return initializer
