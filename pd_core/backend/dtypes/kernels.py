"""The kernels of ONNX Runtime's CPU provider: the element types that each operator has them for."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
from onnx import TensorProto, defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from ...graph.node import Node

Types = dict[str, np.dtype]  # element types by type variable (`T`) of an operator's schema

# Kernels that are registered for float64, and compute something else: LSTM and GRU throw, DFT
# rounds to float32, and LogSoftmax of a NaN is a number.
_NOT_DOUBLE = frozenset({"LSTM", "GRU", "DFT", "LogSoftmax"})
_SCATTERED = frozenset({"ScatterElements", "ScatterND"})  # whose reductions throw in halves
_HALVES = ("float16", "bfloat16")


def lacking(node: Node, opset: int) -> Types:
    """Return the type variables of an operator with the element types that keep it from running.

    Empty if there is a kernel in a program of this opset, or if nobody knows, as of operators that
    are not ONNX's own.
    """
    if node.domain or node.blocks:
        return {}
    if node.op_type in _SCATTERED and str(node.outputs[0].dtype) in _HALVES:
        reduced = node.attributes.get("reduction", "none") != "none"
        return {"T": node.outputs[0].dtype} if reduced else {}
    values = *node.inputs, None, *node.outputs
    key = node.op_type, opset, *[-1 if v is None else v.dtype.num for v in values]
    found = _known.get(key)
    if found is None:
        found = _known[key] = _lacking(node, opset)
    return found


def takes(op_type: str, opset: int, types: Types) -> bool:
    """Return whether an operator has a kernel for these element types."""
    names = {name: _name(dtype) for name, dtype in types.items()}
    return any(_fits(kernel, names) for kernel in kernels(op_type, opset))


def accepted(op_type: str, opset: int, variable: str) -> list[str]:
    """Return the element types that there are kernels for, the narrowest of a kind first."""
    names = {t for kernel in kernels(op_type, opset) for t in kernel.get(variable, ())}
    return [name for name in map(_name, _DTYPES) if name in names]


def types_of(node: Node, opset: int) -> Types:
    """Return the element type of each type variable of a node's schema."""
    return {name: v.dtype for name, v in _typed(node, opset)}


def positions(node: Node, opset: int, variable: str) -> tuple[list[int], list[int]]:
    """Return the inputs and the outputs whose element type is that of a type variable."""
    schema = _schema(node.op_type, opset)
    ends = (schema.inputs, node.inputs), (schema.outputs, node.outputs)
    inputs, outputs = (
        [
            k
            for k, v in enumerate(values)
            if v is not None and _block_input(f, k).type_str == variable
        ]
        for f, values in ends
    )
    return inputs, outputs


def is_function(op_type: str, opset: int) -> bool:
    """Return whether a runtime may compute an operator by others, as ONNX defines it."""
    schema = _schema(op_type, opset)
    return schema.has_function or schema.has_context_dependent_function


_known: dict[tuple, Types] = {}


def _lacking(node, opset):
    if not all(_is_listed(v.dtype) for v in (*node.inputs, *node.outputs) if v is not None):
        return {}
    types = types_of(node, opset)
    if node.op_type not in _registry():  # computed by other operators, which may lack kernels
        return {name: dtype for name, dtype in types.items() if dtype == np.float64}
    names = {name: _name(dtype) for name, dtype in types.items()}
    found = kernels(node.op_type, opset)
    if any(_fits(kernel, names) or _fits(kernel, _with_casts(names)) for kernel in found):
        return {}
    wrong = [{k for k in names if k in kernel and names[k] not in kernel[k]} for kernel in found]
    return {name: types[name] for name in min(wrong, key=len, default=types)}


def _with_casts(names):
    """The element types that ONNX Runtime computes with itself where float16 has no kernel."""
    return {name: "float32" if t == "float16" else t for name, t in names.items()}


def _fits(kernel, names):
    return all(name not in kernel or dtype in kernel[name] for name, dtype in names.items())


def _typed(node, opset):
    """Yield (type variable, input or output) of a node."""
    schema = _schema(node.op_type, opset)
    for formals, values in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
        for k, v in enumerate(values):
            if v is not None:
                yield _block_input(formals, k).type_str, v


def _block_input(formals: Sequence, k: int):
    """The formal parameter of the k-th argument; the last may stand for several."""
    return formals[min(k, len(formals) - 1)]


@cache
def _schema(op_type, opset):
    return defs.get_schema(op_type, opset)


@cache
def kernels(op_type: str, opset: int) -> list[dict[str, frozenset[str]]]:
    """Return the kernels of an operator in an opset: the element types of each type variable."""
    schema = _schema(op_type, opset)
    by_parameter = {f.name: f.type_str for f in (*schema.inputs, *schema.outputs)}
    since = schema.since_version
    wrong = {"float64"} if op_type in _NOT_DOUBLE else set()
    return [
        {by_parameter.get(name, name): types - wrong for name, types in constraints.items()}
        for first, last, constraints in _registry().get(op_type, ())
        if first <= since <= last
    ]


@cache
def _registry() -> dict[str, list[tuple[int, int, dict[str, frozenset[str]]]]]:
    """By operator: its kernels as (first opset, last, element types by constraint)."""
    found: dict[str, list] = {}
    for kernel in runtime.get_registered_ep_kernel_defs("CPUExecutionProvider"):
        if not kernel.domain:
            types = {k: frozenset(_names(v)) for k, v in kernel.type_constraints.items()}
            found.setdefault(kernel.op_name, []).append((*kernel.version_range, types))
    return found


def _names(tensor_types: Iterable[str]) -> Iterator[str]:
    """Names of element types, of `tensor(float)` and the like."""
    for text in tensor_types:
        name = text.removeprefix("tensor(").removesuffix(")")
        yield {"float": "float32", "double": "float64"}.get(name, name)


_CODES = (
    *(TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32),
    *(TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32),
    *(TensorProto.UINT64, TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT),
    TensorProto.DOUBLE,
)
_DTYPES = [helper.tensor_dtype_to_np_dtype(code) for code in _CODES]


def _name(dtype: np.dtype) -> str:
    return str(dtype)


def _is_listed(dtype):
    return dtype in _DTYPES
