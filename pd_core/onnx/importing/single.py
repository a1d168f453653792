"""Inputs of one element that a file has as scalars or as vectors: runtimes take both."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ... import ops
from ...graph.variable import Variable, constant
from .protocol import Value
from .versions import Operator

# operator: the inputs that ONNX defines as scalars, or as vectors of one element or more
_SCALARS: dict[str, Iterable[int]] = {
    "Clip": (1, 2),
    "CumProd": (1,),
    "CumSum": (1,),
    "Dropout": (1, 2),
    "OneHot": (1,),
    "Pad": (2,),
    "Range": (0, 1, 2),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Trilu": (1,),
}
_VECTORS: dict[str, Iterable[int]] = {"Unsqueeze": (1,)}


def with_ranks(op: Operator) -> Operator:
    """Return an operator whose inputs of one element have the ranks that ONNX gives them."""
    changed = dict(_changed(op))
    if not changed:
        return op
    return replace(op, inputs=[changed.get(k, x) for k, x in enumerate(op.inputs)])


def _changed(op: Operator) -> Iterator[tuple[int, Variable]]:
    for table, dims, shape in ((_SCALARS, (1,), []), (_VECTORS, (), [1])):
        for k in table.get(op.op_type, ()):
            x: Value = op.input(k)
            if isinstance(x, Variable) and x.dims == dims:
                a = x.value
                new = ops.reshape(x, shape) if a is None else constant(a.reshape(shape), x.dtype)
                yield k, new
