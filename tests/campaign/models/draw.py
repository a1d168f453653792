"""A random ONNX model that grows node by node, each of them run by ONNX Runtime as it is added.

The runtime says which values there are, so that what is added next fits their types and sizes.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

from .check import plain

FLOATS = ("float32",) * 6 + ("float64", "float16")
INTEGERS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
SIZES = (1, 2, 3, 4, 5)


class Refused(Exception):
    """A node that ONNX Runtime does not take: another one is drawn."""


class Draw:
    """A graph that is being drawn.

    `values` are the arrays of its values by name; `inputs` names those that are fed, `stored` those
    that are initializers. A body has its graph's as `outer`, and may read its values.
    """

    def __init__(self, rng: np.random.Generator, opset: int, outer: "Draw | None" = None):
        self.rng, self.opset, self.outer = rng, opset, outer
        self.values: dict[str, Any] = {}
        self.nodes: list[NodeProto] = []
        self.inputs: list[str] = []
        self.stored: list[str] = []
        self.domains = {"": opset} if outer is None else outer.domains
        self.functions: list = [] if outer is None else outer.functions
        self.count = 0
        self.held: set[str] = set()

    # ---- random choices

    def chance(self, p: float) -> bool:
        """Draw whether something happens."""
        return bool(self.rng.random() < p)

    def one(self, choices: Sequence) -> Any:
        """Draw one of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def axis(self, rank: int) -> int:
        """Draw an axis, from the front or the back."""
        return self.number(-rank, rank - 1)

    def dims(self, rank: int) -> tuple[int, ...]:
        """Draw sizes, rarely an empty one."""
        return tuple(0 if self.chance(0.01) else int(self.one(SIZES)) for _ in range(rank))

    def name(self, stem: str) -> str:
        """Return a new name."""
        top = self
        while top.outer is not None:
            top = top.outer
        top.count += 1
        return f"{stem}{top.count}"

    # ---- values

    def array(self, shape: Sequence[int], dtype: str = "float32", low=-2.0, high=2.0) -> np.ndarray:
        """Draw an array: uniform floats, small whole numbers, or booleans."""
        kind = np.dtype(dtype)
        if kind == np.bool_:
            return self.rng.random(shape) < 0.5
        if kind.kind in "iu":
            least = 0 if kind.kind == "u" else int(low) - 1
            return self.rng.integers(least, int(high) + 2, shape).astype(kind)
        return self.rng.uniform(low, high, shape).astype(kind)

    def give(self, array: np.ndarray, how: str = "") -> str:
        """Add an array as an input, an initializer or a Constant; return its name."""
        array = np.asarray(array)
        how = how or self.one(("input", "input", "stored", "constant"))
        if self.outer is not None and how == "input":
            how = "stored"
        if how == "constant" and array.dtype == ml_dtypes.bfloat16:
            how = "stored"
        name = self.name({"input": "x", "stored": "w", "constant": "c"}[how])
        self.values[name] = array
        if how == "input":
            self.inputs.append(name)
        elif how == "stored":
            self.stored.append(name)
        else:
            self.nodes.append(self._constant(name, array))
        return name

    def _constant(self, name, array):
        if self.opset >= 12 and array.ndim < 2 and self.chance(0.5):
            key = {"float32": "value_float", "int64": "value_int"}.get(array.dtype.name)
            if key is not None and array.ndim:
                return (
                    helper.make_node("Constant", [], [name], **{f"{key}s": array.tolist()})
                    if (array.size)
                    else helper.make_node(
                        "Constant", [], [name], value=numpy_helper.from_array(array)
                    )
                )
            if key is not None:
                return helper.make_node("Constant", [], [name], **{key: array.item()})
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))

    def new(self, *shape: int, dtype: str = "", low=-2.0, high=2.0, how: str = "") -> str:
        """Add an operand of this shape."""
        return self.give(self.array(shape, dtype or "float32", low, high), how)

    def fixed(self, numbers: Any, dtype: str = "int64") -> str:
        """Add a tensor that acts as an attribute: sizes, axes, pads."""
        array = np.asarray(numbers, dtype)
        how = self.one(("stored", "constant", "stored", "constant", "stored", "input"))
        name = self.give(array, how)
        self.held.add(name)
        return name

    def fixed_index(self, array: np.ndarray) -> str:
        """Add indices."""
        return self.fixed(array, np.asarray(array).dtype.name)

    def visible(self) -> dict[str, Any]:
        """Return the values of this graph and those around it."""
        return self.values if self.outer is None else {**self.outer.visible(), **self.values}

    def of(self, x: str) -> np.ndarray:
        """Return the array of a value."""
        return self.visible()[x]

    def shape(self, x: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return np.shape(self.of(x))

    def dtype(self, x: str) -> str:
        """Return the name of the element type of a value."""
        return np.asarray(self.of(x)).dtype.name

    def all_held(self) -> set[str]:
        """Return the names of tensors that act as attributes."""
        return self.held if self.outer is None else self.held | self.outer.all_held()

    def any(
        self,
        dtypes: Sequence[str] = ("float32",),
        rank: int | None = None,
        least: int = 0,
        low: float = -2.0,
        high: float = 2.0,
        shape: Sequence[int] | None = None,
    ) -> str:
        """Return a value of such a type, rank or shape: one that there is, or a new one."""
        held = self.all_held()
        fits = [
            n
            for n, a in self.visible().items()
            if n not in held
            and isinstance(a, np.ndarray)
            and a.dtype.name in dtypes
            and (rank is None or a.ndim == rank)
            and a.ndim >= least
            and a.ndim <= 5
            and (shape is None or a.shape == tuple(shape))
            and _within(a, low, high)
        ]
        if fits and self.chance(0.75):
            return fits[-1] if self.chance(0.6) else self.one(fits)
        if shape is None:
            if rank is None:
                rank = max(least, int(self.one((0, 1, 2, 2, 3, 3, 4))))
            shape = self.dims(rank)
        return self.new(*shape, dtype=self.one(dtypes), low=low, high=high)

    # ---- nodes

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes
    ) -> list[str]:
        """Add a node if ONNX Runtime runs it; return the names of its outputs."""
        names = [self.name("v") for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        proto = helper.make_node(op_type, list(inputs), names, domain=domain, **given)
        if domain:
            self.domains.setdefault(domain, 3 if domain == "ai.onnx.ml" else 1)
        return self.add(proto)

    def add(self, proto: NodeProto) -> list[str]:
        """Add a node if ONNX Runtime runs it; return the names of its outputs that are there."""
        there = {n: a for n, a in self.visible().items() if n in names_read(proto)}
        outputs = [y for y in proto.output if y]
        feeds = {n: a for n, a in there.items() if isinstance(a, np.ndarray | list)}
        given = [info(n, a, getattr(a, "shape", None)) for n, a in feeds.items()]
        results = [helper.make_empty_tensor_value_info(y) for y in outputs]
        graph = helper.make_graph([proto], "g", given, results)
        found = plain(model_of(graph, self.domains, self.functions), feeds, optimise=False)
        if isinstance(found, str):
            raise Refused(f"{proto.op_type}-{self.opset}: {found}")
        self.nodes.append(proto)
        self.values.update(zip(outputs, found, strict=True))
        return outputs


def _within(array, low, high):
    if array.dtype.kind != "f":
        return bool(array.size == 0 or np.abs(array.astype(np.float64)).max() < 1000)
    x = array.astype(np.float64)
    return bool(
        array.size == 0
        or (np.isfinite(x).all() and x.min() >= low and x.max() <= high)
        or (low == -2.0 and high == 2.0 and np.isfinite(x).all() and np.abs(x).max() < 20)
    )


def names_read(proto: NodeProto) -> set[str]:
    """Return the names that a node and its bodies read."""
    names = set(proto.input)
    for a in proto.attribute:
        if a.type == AttributeProto.GRAPH:
            for inner in a.g.node:
                names |= names_read(inner)
            names.update(y.name for y in a.g.output)
    return names


def info(name: str, array: np.ndarray, dims: Sequence | None):
    """Return the declaration of a value with these dims."""
    if isinstance(array, list):
        kind = helper.np_dtype_to_tensor_dtype(array[0].dtype if array else np.dtype(np.float32))
        return helper.make_tensor_sequence_value_info(name, kind, None)
    kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(graph: GraphProto, domains: dict, functions: Sequence = ()) -> ModelProto:
    """Return a model of a graph."""
    opset = domains[""]
    imports = [helper.make_opsetid(d, v) for d, v in domains.items()]
    version = next(
        v for o, v in ((14, 7), (18, 8), (20, 9), (22, 10), (24, 11), (99, 13)) if opset <= o
    )
    model = helper.make_model(graph, opset_imports=imports, ir_version=max(version, 8))
    model.functions.extend(functions)
    return model


def tensor(array: np.ndarray, name: str) -> TensorProto:
    """Return an array as a stored tensor."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)


def body_of(draw: Draw, name: str, inputs: Sequence, outputs: Sequence[str]) -> GraphProto:
    """Return what was drawn as the body of a loop or branch."""
    values = [info(y, draw.of(y), np.shape(draw.of(y))) for y in outputs]
    stored = [tensor(draw.values[n], n) for n in draw.stored]
    return helper.make_graph(draw.nodes, name, list(inputs), values, stored)
