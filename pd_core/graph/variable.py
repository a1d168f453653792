"""Variables: typed, shaped values of a graph."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import count
from math import copysign
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex, Union, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .arrays import as_array, native
from .errors import DTypeError, ShapeError
from .initializers import (
    Constant,
    Gaussian,
    Initializer,
    Uniform,
    Value,
    fan_in,
    require_initializer,
)
from .method import Methods, provided
from .names import names, register
from .operators import Operators
from .recording import as_number, recorder
from .roles import (
    NO_FEED,
    NO_HISTORY,
    NO_OPTIONS,
    NO_STORAGE,
    Feed,
    History,
    Storage,
    TrainingOptions,
)
from .site import Site, is_internal, user_site

if TYPE_CHECKING:  # it is above
    from .update import Update

Dim = int | str  # a size, or the name of one that is known only at run time
Dims = tuple[Dim, ...]
Shape = Sequence[int | None]  # sizes as a user writes them, None where known only at run time
Operand = Union["Variable", ArrayLike]  # what an op takes: numbers and arrays become constants
OutputType = tuple[Dims, np.dtype]  # of an output of a node
# A penalty or a clip: (gradient, parameter) -> gradient.
GradientFunction = Callable[["Variable", "Variable"], "Variable"]
# What may be None, but is not where a caller has checked the number of inputs of an operator.
MaybeNone = Any
Inputs = tuple[Union["Variable", MaybeNone], ...]  # of a node; None for one that is left out

# A `size_reads.SizeReads`, while a program is compiled of which it is recorded what reads sizes.
size_reads: ContextVar[Any] = ContextVar("pd_core.size_reads", default=None)

_fresh = count()
_DIGEST_ABOVE = 256  # bytes; larger constants are compared by a digest


def fresh_dim() -> str:
    """Return a new name for a size known only at run time."""
    return f"?{next(_fresh)}"


def open_dim() -> str:
    """Return a new name for a run-time size that may also be 1, and then broadcasts."""
    return f"?*{next(_fresh)}"


def is_open(d: object) -> bool:
    """Return whether a run-time size may also be 1."""
    return isinstance(d, str) and d.startswith("?*")


class Variable(Operators, Methods):
    """A typed value: the output of a node, a feed slot, a constant, or persistent state.

    The first positional argument is taken by its type: a str is the name, a list or tuple the
    shape, an array or number the data. A None in the shape is a size known only at run time and
    makes a feed slot; a full shape makes a parameter, which the session initialises on demand.
    float64 data becomes float32 unless `dtype` says otherwise; data is copied.

    `learning_rate` multiplies the optimizer's; `regularizer` and `clip` replace the optimizer's.
    `row_sparse` makes optimizers update only the rows (axis 0) that a step gathers.
    """

    # Defaults; a subclass may add attributes. `tests/core/graph/test_roles.py` lists them.
    name: str
    dims: Dims
    dtype: np.dtype
    node: Any = None  # the Node that computes it; nodes are defined above variables
    value: np.ndarray | None = None  # the data of a constant
    initial: Initializer | None = None  # initial value of persistent state
    trainable: bool = False
    site: Site | None = None
    options: TrainingOptions = NO_OPTIONS
    feed: Feed = NO_FEED
    storage: Storage = NO_STORAGE
    # While values are at hand:
    eager_value: Any = None  # its value, of a leaf or of what was computed already
    source: Union["Variable", None] = None  # of a read of persistent state: what was read
    tracked: bool = False  # whether gradients flow to it
    literal: bool = False  # whether it was an array, which takes the dtype of what is beside it
    history: History = NO_HISTORY

    def __init__(
        self,
        first: str | Shape | ArrayLike | None = None,
        *,
        name: str | None = None,
        shape: Shape | None = None,
        data: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        initializer: Initializer | None = None,
        trainable: bool | None = None,
        learning_rate: float = 1.0,
        regularizer: GradientFunction | None = None,
        clip: GradientFunction | None = None,
        row_sparse: bool = False,
    ) -> None:
        if isinstance(first, str):
            name = _exclusive("name", name, first)
        elif isinstance(first, Sequence):  # of settings, such as those of OmegaConf, too
            shape = _exclusive("shape", shape, first)
        elif first is not None:
            data = _exclusive("data", data, first)
        label = f"variable {name!r}" if name else "a variable without a name"
        shape = _shape(label, shape)
        if data is not None:
            array = data = _data(label, data, shape, dtype)
            shape, dtype = array.shape, array.dtype
        if shape is None:
            raise ShapeError(f"{label}: give a shape or data")
        attributes = self.__dict__  # past __setattr__
        attributes["dims"] = tuple(as_dim(label, d) for d in shape)
        attributes["dtype"] = native(dtype or np.float32)
        if self.is_static:
            attributes["initial"] = _initial(label, data, initializer, self.dtype)
            is_float = attributes["dtype"].kind == "f"
            attributes["trainable"] = is_float if trainable is None else bool(trainable)
        elif initializer is not None or trainable:
            raise ShapeError(
                f"{label}: shape {list(shape)} has an unknown size, which makes it a feed slot; "
                "a feed slot has no initial value and is not trainable"
            )
        if row_sparse and (not self.is_persistent or not self.dims):
            raise ShapeError(f"{label}: row_sparse is for parameters with rows, not {self.shape}")
        if learning_rate != 1.0 or regularizer is not None or clip is not None or row_sparse:
            attributes["options"] = TrainingOptions(learning_rate, regularizer, clip, row_sparse)
        attributes["site"] = user_site()
        register(self, name)
        flags = names().flags
        if flags and self.name in flags:
            attributes["trainable"] = flags[self.name]

    @classmethod
    def of(cls, dims: Iterable[Dim], dtype: DTypeLike, name: str = "", **state: Any) -> Self:
        """Create a Variable that no namespace owns: a node output, a constant, a block input."""
        reads = size_reads.get() if cls is Variable else None
        self = cls.__new__(cls) if reads is None else reads.new(state)
        attributes = self.__dict__
        attributes["dims"], attributes["name"] = tuple(dims), name
        attributes["dtype"] = dtype if type(dtype) in _DTYPES else np.dtype(dtype)
        if state:
            attributes.update(state)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _IMMUTABLE:
            raise AttributeError(f"{name!r} of {self!r} cannot be changed once it is built")
        object.__setattr__(self, name, value)

    def _set_option(self, name: str, value: Any) -> None:
        """Change how optimizers treat it; AttributeError if an update was built from that."""
        if self.options.uses and value != getattr(self.options, name):
            provided["check_unused"](self, name)
        self.options = replace(self.options, **{name: value})

    @property
    def learning_rate(self) -> float:
        """The factor of the optimizer's learning rate."""
        return self.options.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._set_option("learning_rate", value)

    @property
    def regularizer(self) -> GradientFunction | None:
        """The penalty in the place of the optimizer's."""
        return self.options.regularizer

    @regularizer.setter
    def regularizer(self, value: GradientFunction | None) -> None:
        self._set_option("regularizer", value)

    @property
    def clip(self) -> GradientFunction | None:
        """The clip in the place of the optimizer's."""
        return self.options.clip

    @clip.setter
    def clip(self, value: GradientFunction | None) -> None:
        self._set_option("clip", value)

    @property
    def row_sparse(self) -> bool:
        """Whether optimizers update only the rows that a step gathers."""
        return self.options.row_sparse

    @row_sparse.setter
    def row_sparse(self, value: bool) -> None:
        self._set_option("row_sparse", value)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes, None where one is known only at run time."""
        sizes = tuple([as_number(d) for d in self.dims])
        if None in sizes and (self.eager_value is not None or self.is_recorded):
            return provided["known_shape"](self, sizes)
        return sizes

    @property
    def symbolic_dims(self) -> Dims:
        """The sizes, of which it matters only which are equal, 0 or 1: see `size_reads`."""
        return self.dims

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    ndim = rank

    @cached_property
    def content(self) -> tuple:
        """The key of equal constants: element type, shape, and the bytes or a digest of them."""
        assert self.value is not None
        data = self.value.tobytes()
        if len(data) > _DIGEST_ABOVE:
            data = blake2b(data, digest_size=16).digest()
        return self.value.dtype.num, self.value.shape, data

    @property
    def is_recorded(self) -> bool:
        """Whether it was computed while values were at hand, inside `pd.guard()`."""
        return getattr(self.node, "alive", None) is not None

    def is_output_of(self, op_type: str) -> bool:
        """Return whether an operator of this type computes it."""
        return self.node is not None and self.node.op_type == op_type

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return all(isinstance(d, int) for d in self.dims)

    @property
    def is_persistent(self) -> bool:
        """Whether the session keeps a value for it between evaluations."""
        return self.initial is not None

    @property
    def is_shard(self) -> bool:
        """Whether its value is a part of a table, and another one in each process."""
        table = self.storage.table
        return table is not None and table.ranks > 1

    @property
    def is_feed(self) -> bool:
        """Whether it has a value only when it is fed."""
        return (
            self.node is None
            and self.value is None
            and self.initial is None
            and self.eager_value is None
            and self.source is None
        )

    def __repr__(self) -> str:
        text = f"{self.name}: {describe(self)}"
        recording = recorder()
        if is_internal[sys._getframe(1).f_code.co_filename]:
            return text  # in a message
        if (recording is not None and recording.inside) or not provided:
            return text
        at_hand = self.eager_value is not None or self.is_recorded
        value = provided["shown" if at_hand else "known"](self)
        return text if value is None else f"{text}\n{value}"

    def _repr_html_(self) -> str:
        return provided["html"](self)

    def __copy__(self) -> "Variable":
        """Return itself, since results are never overwritten; a parameter is not copied."""
        return self.__reduce_ex__(4) if self.is_persistent else self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{self.name}: {describe(self)} is a part of a graph, and is neither copied nor pickled"
            "\n  hint: copy the layer that has it, or save its value, v.numpy()"
        )

    # ---- values at hand, inside `pd.guard()`

    @property
    def has_value(self) -> bool:
        """Whether its value is at hand: computed on demand inside `pd.guard()`, or stored."""
        if self.eager_value is not None or self.source is not None or self.is_recorded:
            return True
        return recorder() is not None and (self.is_persistent or self.value is not None)

    def __bool__(self) -> bool:
        return bool(self._scalar("value"))

    def __float__(self) -> float:
        return float(self._scalar("number"))

    def __int__(self) -> int:
        return int(self._scalar("number"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"{self!r} is no integer")
        return int(self._scalar("number"))

    def __format__(self, spec: str) -> str:
        return format(self._scalar("number").item(), spec) if spec else str(self)

    def __len__(self) -> int:
        if not self.dims:
            raise TypeError(f"{self!r} is a scalar, which has no length")
        length = self.shape[0]
        if length is None:
            raise TypeError(f"{self!r} has no length that is known before it runs")
        return length

    def __iter__(self) -> Iterator["Variable"]:
        return iter(provided["rows"](self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if not self.has_value:
            raise DTypeError(f"{self!r} has no values while the graph is built")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def _scalar(self, what: str) -> np.ndarray:
        """The one element, as an array."""
        value = self.__dict__.get("eager_value")
        if type(value) is np.ndarray and value.size == 1:
            return value.reshape(())
        if not self.has_value:
            raise TypeError(
                f"{self.name}: {describe(self)} has no {what} while the graph is built; compare "
                "with `is None`, or evaluate it first"
            )
        array = self.numpy()
        if array.size != 1:
            raise TypeError(f"{describe(self)} has {array.size} elements and no single {what}")
        return array.reshape(())

    def numpy(self) -> np.ndarray:
        """Return a copy of the value, computed now if it was not yet.

        NotComputed outside of `pd.guard()`, except for persistent state.
        """
        return provided["numpy"](self)

    def item(self) -> float:
        """Return the one element as a number, as far as `numpy()` has it."""
        return self._scalar("number").item()

    def backward(self, gradient: Operand | None = None, retain_graph: bool = False) -> None:
        """Add the gradients of this cost to those of everything that it was computed from.

        `gradient` weights the elements of a cost that is no scalar; ones by default. The recorded
        graph ends here afterwards, unless `retain_graph`.
        """
        provided["backward"](self, gradient, retain_graph)

    def gradient(self) -> np.ndarray | None:
        """Return the sum of the gradients of `backward` since it was cleared; None without any.

        Of a `row_sparse` parameter it has the shape of the parameter too.
        """
        return provided["gradient"](self)

    def clear_gradient(self) -> None:
        """Forget the gradient."""
        provided["clear_gradient"](self)

    def detach(self) -> "Variable":
        """Return the same value as a constant to gradients."""
        return provided["detach"](self)

    @property
    def stop_gradient(self) -> bool:
        """Whether gradients end here: not trainable, or computed from nothing that is."""
        return not (self.trainable if self.is_persistent else self.tracked)

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        if self.is_persistent:
            self.trainable = not stop
        elif self.dtype.kind != "f" and not stop:
            raise DTypeError(f"{self!r} is no float, so it has no gradient")
        else:
            self.__dict__["tracked"] = not stop

    __hash__ = object.__hash__

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"{self.name}: {describe(self)} cannot be changed in place\n"
            "  hint: index_update() returns a changed copy, assign() stores a new value"
        )

    def uniform(self, low: float = -1.0, high: float = 1.0) -> None:
        """Draw the stored value anew, uniform on [low, high), in the default session.

        The numbers depend on the session's seed and the name alone, as initial values do.
        """
        provided["redraw"](self, Uniform(low, high))

    def normal(self, mean: float = 0.0, std: float = 1.0) -> None:
        """Draw the stored value anew from N(mean, std^2), like `uniform`."""
        provided["redraw"](self, Gaussian(mean, std))

    def val(self) -> np.ndarray:
        """Return the current value in the default session, see `Session.val`; never compute it."""
        return provided["val"](self)

    def eval(self, feeds: Mapping | None = None) -> np.ndarray:
        """Compute the value for these feeds in the default session."""
        return provided["eval"](self, feeds)

    @property
    def initializer(self) -> "Update":
        """An Update that draws this variable's value anew."""
        return provided["initializer"](self)


# Immutable: compiled programs are looked up by the structure of their graph.
_IMMUTABLE = {"dims", "dtype", "node", "value", "initial"}
_DTYPES = {type(np.dtype(t)) for t in "?bBhHiIlLqQefd"}


def static(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Return dims as numbers: only for type checkers, where the caller knows every size."""
    return cast(tuple[int, ...], tuple(dims))


def describe(x: Variable) -> str:
    """Return dtype and sizes as errors show them: `float32[N, 4]`."""
    return f"{x.dtype}{format_dims(x.dims)}"


def format_dims(dims: Iterable[Dim]) -> str:
    """Return sizes as errors show them: `[?, 4]`."""
    return f"[{', '.join('?' if d is None else str(d) for d in map(as_number, dims))}]"


def constant(value: Operand, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Create a Variable with a fixed value. Python floats and float64 arrays become float32.

    Args:
        value: an array, a number or nested lists of numbers; a Variable is returned as it is.
        dtype: a dtype, by default that of the value.
        name: a name; automatic if None.

    Returns:
        A Variable of the shape of the value.

    Raises:
        DTypeError: the value is text, no array, or has rows of different lengths.
    """
    if isinstance(value, Variable):
        if value.literal and dtype is not None and value.dtype != dtype:
            exact = value.__dict__.get("exact", value.eager_value)  # of float64, if it was
            array = as_array(exact, dtype)
            return Variable.of(value.dims, array.dtype, value.name, eager_value=array, literal=True)
        return value
    if isinstance(value, (str, bytes)):
        raise DTypeError(f"takes Variables, numbers and arrays, not the string {value!r}")
    if name is None and type(value) in _CACHED and recorder() is not None:
        return _recorded_constant(value, dtype)
    array = as_array(value, dtype)
    out = Variable.of(array.shape, array.dtype, name or "const", value=array)
    if name is not None:
        register(out, name)
    return out


_constants: dict[tuple, Variable] = {}  # of recorded lines, which make them again and again
_MOST_CONSTANTS = 1 << 12
_FLOATS = {float, np.float16, np.float32, np.float64}
_INTS = {int, np.int32, np.int64}
_CACHED = {list, tuple, np.ndarray, *_INTS, *_FLOATS}


def _recorded_constant(value: Any, dtype: DTypeLike | None) -> Variable:
    """A number or array as a constant, or as a leaf where a recorded line changes it.

    Whole numbers without a dtype are sizes, axes and the like: always constants.
    """
    kind, changes = type(value), False
    if kind in _INTS and (dtype is None or np.dtype(dtype).kind != "f"):
        key: tuple = (int(value), dtype, kind)
    elif kind in _FLOATS or kind in _INTS:
        key, changes = (float(value), copysign(1.0, value), dtype, kind), True
    elif kind is not np.ndarray and all([type(d) is int for d in value]):  # noqa: C419  # faster
        key = (*value, list, dtype)
    else:
        key, changes = (), True
    known = _constants.get(key)
    if known is None:
        array = as_array(value, dtype)
        known = Variable.of(array.shape, array.dtype, "const", value=array)
        if len(_constants) >= _MOST_CONSTANTS:
            _constants.clear()
        if key:
            _constants[key] = known
    # the types of results depend on small whole numbers: sizes, axes, …
    changes = changes and (known.dtype.kind == "f" or cast(np.ndarray, known.value).size > 64)
    return cast(Any, recorder()).changing(known) if changes else known


def _exclusive(what: str, named: object, positional: Any) -> Any:
    """Return the positional argument; TypeError if it is also passed by name."""
    if named is not None:
        raise TypeError(f"Variable got its {what} twice: {positional!r} and {named!r}")
    return positional


def _shape(label: str, shape: Any) -> Shape | None:
    if shape is None or (isinstance(shape, Sequence) and not isinstance(shape, (str, bytes))):
        return shape
    raise ShapeError(f"{label}: a shape is a list or tuple of sizes, not {shape!r}")


def as_dim(label: str, d: object) -> Dim:
    """Return a size of a `Shape` as a Dim; ShapeError, beginning with a label, if it is none."""
    if d is None:
        return fresh_dim()
    if isinstance(d, str):
        return d
    if isinstance(d, (int, np.integer)) and d >= 0:
        return int(d)
    raise ShapeError(f"{label}: a size is a non-negative int or None, not {d!r}")


def _data(label: str, data: ArrayLike, shape: Shape | None, dtype: DTypeLike | None) -> np.ndarray:
    array = as_array(data, dtype, label)
    if shape is not None and tuple(shape) != array.shape:
        raise ShapeError(f"{label}: shape {list(shape)}, but data of {list(array.shape)}")
    return array


def _initial(
    label: str, data: np.ndarray | None, initializer: Initializer | None, dtype: np.dtype
) -> Initializer:
    if data is not None:
        if initializer is not None:
            raise TypeError(f"{label}: takes data or an initializer, not both")
        return Value(data)
    if initializer is None:
        return fan_in if dtype.kind == "f" else Constant(0)
    return require_initializer(label, initializer)
