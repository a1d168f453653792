"""Output types of operators that were inferred before, found by what they depend on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .operator import IdentifiedOperator
from .size_entries import entries_of, holds_sizes
from .sized_results import sized_results
from .variable import Dim, OutputType, fresh_dim, is_open, open_dim, size_reads

_LIMIT = 1 << 13
# Operators whose output sizes are sizes of inputs, or 1, by which sizes are equal and which are 1:
# another width of a network is nothing new to them.
_ANY = (
    "Abs Add And Cast Ceil Celu Clip Cos Div Elu Equal Erf Exp Floor Gelu Gemm Greater "
    "GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual "
    "Log LogSoftmax MatMul Max Mean Min Mish Mul Neg Not Or Pow Reciprocal ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Round Selu Sigmoid Sign "
    "Sin Softmax Softplus Softsign Sqrt Squeeze Sub Sum Tanh Transpose Unsqueeze Where Xor"
)
_READ = "sizes"  # marks the sizes that an operand consists of
_OF_ANY_SIZE = frozenset(_ANY.split())
# Tuples of tuples of numbers, which the garbage collector leaves out.
# By the types of the inputs, names of sizes included: the types, where no name in them is new.
_exact: dict[tuple, tuple] = {}
# By the types of the inputs with slots for names: the types, with slots too.
_general: dict[tuple, tuple] = {}


def remembered(
    call: IdentifiedOperator,
    outputs: int,
    known: Sequence[Iterable[Dim] | None],
    small: int,
    infer: Callable[..., Iterable[OutputType]],
) -> tuple[OutputType, ...]:
    """The types that `infer(call, outputs, known)` yields, cached by what they depend on.

    An operator that it refuses is no entry, so that every error is found anew. Constants of up to
    `small` elements are those whose values count.
    """
    reads = size_reads.get()
    if reads is None:
        return _remembered(call, outputs, known, small, infer)
    token = size_reads.set(None)
    try:
        types = _remembered(call, outputs, known, small, infer)
    finally:
        size_reads.reset(token)
    if call.op_type not in _OF_ANY_SIZE:
        for x in call.inputs:
            reads.fix(() if x is None else x.symbolic_dims)
        for dims, _ in types:
            reads.fix(dims)
    return types


def _remembered(
    call: IdentifiedOperator, outputs: int, known: Any, small: int, infer: Any
) -> tuple[OutputType, ...]:
    dependencies = _dependencies(call, known, small)
    types = _exact.get(dependencies)
    if types is not None:
        return types
    names: dict[Dim, tuple] = {}
    is_general = call.op_type in _OF_ANY_SIZE
    if is_general:
        _number_sizes(dependencies, names)
    key = (dependencies[0], *[_named_form(part, names) for part in dependencies[1:]])
    cached = _general.get(key)
    if cached is None:
        types = tuple(infer(call, outputs, known))
        _keep(_general, key, _with_slots(types, names))
    else:
        types = _with_names(cached, names)
    if all(isinstance(d, int) or d in names for dims, _ in types for d in dims):
        _keep(_exact, dependencies, types)
    return types


def _dependencies(call: IdentifiedOperator, known: Any, small: int) -> Any:
    """All that the output types depend on."""
    dependencies: list[Any] = [call.kind]
    reads_sizes = call.op_type in sized_results
    for x in call.inputs:  # of every input of every node: no generators, no calls
        if x is None:
            dependencies.append(None)
        elif x.value is None:
            entries = entries_of(x) if reads_sizes and holds_sizes(x) else None
            if entries is None:
                dependencies.append((x.dtype.num, x.symbolic_dims))
            else:
                dependencies.append((x.dtype.num, x.symbolic_dims, entries, _READ))
        elif x.value.size > small:
            dependencies.append((x.dtype.num, x.symbolic_dims))
        else:
            dependencies.append(x.content)
    for k, dims in enumerate(known):
        if dims is not None:
            dependencies.append((-1 - k, tuple(dims)))  # no element type has a negative number
    return tuple(dependencies)


def _keep(cache: dict, key: Any, types: Any) -> None:
    if len(cache) >= _LIMIT:
        cache.clear()
    cache[key] = types


def _named_form(part: Any, names: dict[Dim, tuple]) -> Any:
    """A part of a description with slots for the names of sizes."""
    if part is None or len(part) == 3:
        return part
    if len(part) == 2:
        return part[0], _sizes(part[1], names)
    entries = [None if d is None else _sizes((d,), names) for d in part[2]]
    return part[0], _sizes(part[1], names), tuple(entries), _READ


def _number_sizes(dependencies: tuple, names: dict[Dim, tuple]) -> None:
    """Give slots to all sizes but 0, 1 and those of constants whose values count.

    Such a constant is in the key as it is, so that another size would not fit beside it.
    """
    parts = [part for part in dependencies[1:] if part is not None]
    fixed = {d for part in parts if len(part) == 3 for d in part[1]}
    for part in parts:
        if len(part) == 2:
            for d in part[1]:
                if d not in names and type(d) is int and d > 1 and d not in fixed:
                    names[d] = len(names), None


def _sizes(dims: Any, names: Any) -> Any:
    return tuple([names.get(d) or (d if isinstance(d, int) else _slot(d, names)) for d in dims])


def _slot(name: Any, names: Any) -> Any:
    """The key of a symbolic size: its number, in order of appearance, and whether it may be 1.

    In the place of the latter a size that is a number has None.
    """
    return names.setdefault(name, (len(names), is_open(name)))


def _with_slots(types: Any, names: Any) -> Any:
    """Types with slots for names; a name that no input has gets a slot after theirs."""
    slots = dict(names)
    return tuple([(_sizes(dims, slots), dtype) for dims, dtype in types])


def _with_names(types: Any, names: Any) -> Any:
    """Types with names for slots: those of the inputs, or fresh ones."""
    sizes = {slot: name for name, slot in names.items()}

    def size(d: Any) -> Any:
        if isinstance(d, int):
            return d
        if d not in sizes:
            sizes[d] = open_dim() if d[1] else fresh_dim()
        return sizes[d]

    return tuple([(tuple(map(size, dims)), dtype) for dims, dtype in types])
