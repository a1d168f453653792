"""The recorder: what ops get while values are at hand."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from onnx.shape_inference import InferenceError

from ..graph.broadcast import equal_sizes
from ..graph.errors import GraphError, NotComputed, ShapeError
from ..graph.inference import Call, infer
from ..graph.nested import variables_in
from ..graph.node import Node, Recorded, refined
from ..graph.recording import as_number, named_size
from ..graph.site import user_site
from ..graph.update import Assignment
from ..graph.variable import OutputType, Variable, as_array, format_dims
from .placeholder import Placeholder
from .state import State
from .update import minimize

_CONSTANTS = 4  # values of a number that are constants; with more at one line it becomes a leaf
_DEEPEST = 512  # operators without gradients that wait to be computed


_sizes: dict[tuple, list] = {}  # by line, rank and dtype: of each axis, None if it differs
_numbers: dict[tuple, dict[float, None]] = {}  # by line and place in the op: values seen
_sound: dict[int, Sequence[OutputType]] = {}  # types whose sizes are checked, by their identity
_resolutions: dict[tuple, list[OutputType]] = {}
_LIMIT = 1 << 14


def _leaf_dims(site, array):
    """The sizes of a leaf: names for the first axis and for those that differ at this line."""
    key = site, array.ndim, array.dtype.num
    sizes = _sizes.get(key)
    if sizes is None:
        if len(_sizes) >= _LIMIT:
            _sizes.clear()
        sizes = _sizes[key] = [None, *array.shape[1:]][: array.ndim]
    dims = []
    for axis, n in enumerate(array.shape):
        if sizes[axis] == n:
            dims.append(n)
        else:
            sizes[axis] = None
            dims.append(named_size((key, axis), n))
    return tuple(dims)


def _check_sizes(call, types):
    """Check the sizes that an operator requires to be equal."""
    outputs = [Variable.of(dims, dtype) for dims, dtype in types]
    for a, b in equal_sizes(_Built(call.op_type, call.inputs, call.attributes, outputs)):
        left, right = as_number(a), as_number(b)
        if left is not None and right is not None and left != right:
            shapes = " and ".join(format_dims(x.dims) for x in call.inputs if x is not None)
            raise ShapeError(f"sizes {left} and {right} differ, of {shapes}")


class _Built(NamedTuple):
    op_type: str
    inputs: tuple
    attributes: dict
    outputs: list


def _resolved(call, types):
    """Types with names of known number for the sizes that follow from those of the inputs."""
    key = (call.kind, *[None if x is None else _described(x) for x in call.inputs])
    resolved = _resolutions.get(key)
    if resolved is None:
        inputs = tuple([None if x is None else _with_numbers(x) for x in call.inputs])
        try:
            concrete = infer(call._replace(inputs=inputs), len(types))
        except (GraphError, InferenceError):
            return types
        resolved = [
            (
                tuple(
                    [
                        _named(key, d, n, k, axis)
                        for axis, (d, n) in enumerate(zip(dims, ns, strict=True))
                    ]
                ),
                t,
            )
            for k, ((dims, t), (ns, _)) in enumerate(zip(types, concrete, strict=True))
        ]
        if len(_resolutions) >= _LIMIT:
            _resolutions.clear()
        _resolutions[key] = resolved
    return resolved


def _described(x):
    return x.content if x.value is not None and x.value.size <= 64 else (x.dtype.num, x.dims)


def _with_numbers(x):
    if x.value is not None or all(isinstance(d, int) for d in x.dims):
        return x
    dims = [d if as_number(d) is None else as_number(d) for d in x.dims]
    return Variable.of(dims, x.dtype, x.name)


def _named(key, d, number, k, axis):
    if type(d) is str and isinstance(number, int):
        return named_size((key, k, axis), number)
    return d


class Recorder:
    """Records for one session: leaves for arrays, and persistent state as of this line."""

    def __init__(self, state: State, gradients: bool = True, immediate: bool = False):
        self.state, self.gradients, self.immediate = state, gradients, immediate
        self.inside = False

    # ---- operands

    def arguments(self, args: tuple, kwargs: dict) -> tuple[list, dict]:
        """Return the arguments of an op with leaves in the place of arrays."""
        args_ = [self._argument(a) for a in args]
        if kwargs:
            kwargs = {k: self._argument(a) for k, a in kwargs.items()}
        return args_, kwargs

    def _argument(self, a):
        if type(a) is np.ndarray:
            leaf = self.leaf(a)
            leaf.__dict__["literal"] = True
            return leaf
        if type(a) is Placeholder:
            return a.filled(self)
        if type(a) in (list, tuple) and any(type(b) in (np.ndarray, Placeholder) for b in a):
            return type(a)([self._argument(b) for b in a])
        return a

    def leaf(self, value: ArrayLike, dtype: DTypeLike | None = None, copy: bool = True) -> Variable:
        """Return a Variable with a value of its own.

        The size of its first axis has a name in programs, and so have those that differ from call
        to call at this line: programs are for any size of these.
        """
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if dtype is None and array.dtype == np.float64:
            dtype = np.float32
        if array.dtype.kind not in "fiub" or type(value) is np.ma.MaskedArray:
            array = as_array(value, dtype)
        elif dtype is not None and array.dtype != dtype:
            array = as_array(array, dtype)
        elif copy or not array.flags.c_contiguous:
            array = np.array(array, order="C")
        dims = _leaf_dims(user_site(), array)
        return Variable.of(dims, array.dtype, "value", held=array)

    def operand(self, x: Variable | None) -> Variable | None:
        """Return the value at this line of a persistent variable; any other as it is."""
        if x is None or x.fill is None:
            return x.filled(self) if type(x) is Placeholder else x
        return self.state.read(x)

    def number(self, value: float, dtype: DTypeLike | None) -> Variable | None:
        """Return a leaf for a number that changes from call to call; None for a constant."""
        frame = sys._getframe(3)  # of the op, which may take several numbers
        key = user_site(), frame.f_code, frame.f_lineno
        values = _numbers.setdefault(key, {})
        if value in values:
            return None
        if len(values) < _CONSTANTS:
            values[value] = None
            return None
        return Variable.of((), np.dtype(dtype or np.float32), "number", held=as_array(value, dtype))

    # ---- sizes

    def except_first(self, args: Sequence, kwargs: dict) -> tuple[list, dict]:
        """Return the arguments with their sizes as numbers, but those of the first axes."""
        return self._specialised(args, kwargs, 1)

    def specialised(self, args: Sequence, kwargs: dict) -> tuple[list, dict]:
        """Return the arguments with all of their sizes as numbers."""
        return self._specialised(args, kwargs, 0)

    def _specialised(self, args, kwargs, first):
        def known(a):
            if isinstance(a, Variable):
                return self._known(a, first)
            if type(a) in (list, tuple):
                return type(a)([known(b) for b in a])
            return a

        return [known(a) for a in args], {k: known(a) for k, a in kwargs.items()}

    def _known(self, x, first):
        """x with its sizes from axis `first` on as numbers."""
        sizes = [as_number(d) for d in x.dims]
        if None in sizes and x.has_value:
            sizes = list(x.shape)
        dims = x.dims[:first] + tuple(
            [d if n is None else n for d, n in zip(x.dims, sizes, strict=True)][first:]
        )
        if dims == x.dims:
            return x
        if x.node is not None:
            return refined(x, dims)
        # its gradients are those of x
        source = x if x.source is None else x.source
        attributes = {"held": x.held, "tracked": x.tracked, "literal": x.literal}
        return Variable.of(dims, x.dtype, x.name, source=source, **attributes)

    def types(self, call: Call, types: Sequence[OutputType]) -> Sequence[OutputType]:
        """Return output types with names for the sizes whose number is known.

        ShapeError where sizes differ that the operator requires to be equal.
        """
        sound = _sound
        if id(types) in sound:  # equal operators on equal types share them
            return types
        _check_sizes(call, types)
        if all(type(d) is not str for dims, _ in types for d in dims):
            sound[id(types)] = types
            return types
        return _resolved(call, types)

    # ---- nodes

    def node(self, op_type: str, inputs: tuple, *args: Any, **kwargs: Any) -> Node:
        """Return a recorded node, which reads persistent state as of this line."""
        inputs = tuple([self.operand(x) for x in inputs])
        node = Recorded(op_type, inputs, *args, **kwargs)
        if not self.gradients:
            node.detach()
        if node.depth > _DEEPEST and not node.tracked:
            # nothing else would end the chain of a running sum
            self.state.force([x for x in inputs if x is not None and x.is_recorded])
        return node

    def compute(self, result: Any) -> None:
        """Compute what an op returned, unless it is in the body of a loop."""
        waiting = [v for v in variables_in(result) if v.is_recorded and v.held is None]
        if waiting:
            with suppress(NotComputed):  # states and slices of a loop have no values here
                self.state.force(waiting)

    def draw(self, stream: int) -> tuple[int, int]:
        """Return (stream, place in it) of the next random draw."""
        draws = self.state.session.draws
        draws[stream] += 1
        return stream, draws[stream] - 1

    def assign(self, node: Node, effects: Sequence[Assignment]) -> None:
        """Note the values that persistent variables take once the node is computed."""
        self.state.assign(node, effects)

    def minimize(self, optimizer: Any, costs: list, var_list: Any, retain_graph: bool) -> None:
        """Take a step of an optimizer."""
        minimize(self.state, optimizer, costs, var_list, retain_graph)
