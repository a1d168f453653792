"""Sizes that are known at run time, and the types of all values of a model."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper

Dim = int | str  # a size, or the name of one that a run decides
Size = tuple[int, tuple[str, ...]]  # a product: a number, and names in alphabetical order
Dims = tuple[Size, ...]
Kind = tuple[int, tuple[Dim, ...]]  # ONNX's number of an element type, and sizes

ZERO: Size = (0, ())
ONE: Size = (1, ())
_FILLING = {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand", "Transpose", "Identity"}
_KEEPING = {"Reshape", "Flatten", "Unsqueeze", "Squeeze", "Identity"}
_UNKNOWN = 64  # what a name is taken for where a size is estimated


@lru_cache(1 << 16)
def product(*sizes: Size) -> Size:
    """Return the product of sizes."""
    number = 1
    names: list[str] = []
    for n, more in sizes:
        number *= n
        names += more
    return (number, tuple(sorted(names))) if number else ZERO


def quotient(a: Size, b: Size) -> Size | None:
    """Return a / b; None if it is not known to be a whole number."""
    names = list(a[1])
    for name in b[1]:
        if name not in names:
            return None
        names.remove(name)
    if not b[0] or a[0] % b[0]:
        return None
    return a[0] // b[0], tuple(names)


def summed(parts: Sequence[Size]) -> Size | None:
    """Return the sum of sizes; None if it is no product."""
    names = {part[1] for part in parts if part[0]}
    if len(names) > 1:
        return None
    return sum(part[0] for part in parts), names.pop() if names else ()


def strides(dims: Sequence[Size]) -> list[Size]:
    """Return how many elements apart neighbours along each axis are, in C order."""
    return [product(*dims[k + 1 :]) for k in range(len(dims))]


def estimate(s: Size) -> int:
    """Return the number for a size where each name stands for a guess."""
    return int(s[0] * _UNKNOWN ** len(s[1]))


def without_ones(dims: Dims) -> Dims:
    """Return the sizes that are not known to be 1: those of the axes to iterate over."""
    return tuple([d for d in dims if d != ONE])


class Values:
    """Types and constants of a model's values, those in bodies included.

    `kinds` are what is known of them; sizes that are `equal` at run time have one name here, and
    those that follow from others by the operators that keep all elements have none.
    """

    def __init__(
        self, model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[Dim, Dim]]
    ):
        self.constants: dict[str, np.ndarray] = {}
        self.fills: dict[str, np.generic] = {}  # the single value of what operators fill with it
        self._scalars: dict[str, Any] = {}  # of the constants that were asked for
        self._kinds = dict(kinds)
        self._known: dict[str, tuple[int, Dims]] = {}
        self._same: dict[str, Size] = {}  # what a name of a size stands for
        for a, b in equal:
            self._unite(self._expanded(a), self._expanded(b))
        self._initializers(model.graph)
        self._follow(model.graph.node)

    def add(self, name: str, kind: int, dims: Dims) -> None:
        """Note the type of a value."""
        self._known[name] = kind, dims

    def __contains__(self, name: str) -> bool:
        return name in self._known or name in self._kinds

    def kind(self, name: str) -> int:
        """Return ONNX's number of an element type."""
        known = self._known.get(name)
        return (known or self._type(name))[0]

    def dims(self, name: str) -> Dims:
        """Return the sizes of a value."""
        known = self._known.get(name)
        return (known or self._type(name))[1]

    def scalar(self, name: str) -> Any:
        """Return the single value that fills a constant; None for anything else."""
        array = self.constants.get(name)
        if array is None or not array.size:
            return self.fills.get(name)
        if name not in self._scalars:
            flat = np.ascontiguousarray(array).reshape(-1)
            bits = flat.view(f"u{flat.itemsize}")  # -0.0 and 0.0 differ in bits
            self._scalars[name] = flat[0] if (bits == bits[0]).all() else None
        return self._scalars[name]

    def integers(self, name: str) -> list[int] | None:
        """Return a constant of integers as a list; None if it is not known."""
        array = self.constants.get(name)
        return None if array is None else [int(v) for v in array.reshape(-1)]

    def _type(self, name):
        """The type of a value that was not asked for yet."""
        kind, dims = self._kinds[name]
        found = self._known[name] = kind, tuple([self._expanded(d) for d in dims])
        return found

    def _expanded(self, d: Dim) -> Size:
        """A size in terms of names that stand for nothing else."""
        if isinstance(d, int):
            return d, ()
        return self._substituted(self._same[d]) if d in self._same else (1, (d,))

    def _substituted(self, s: Size) -> Size:
        if self._same.keys().isdisjoint(s[1]):
            return s
        return product((s[0], ()), *map(self._expanded, s[1]))

    def _unite(self, a: Size, b: Size) -> None:
        """Note that two sizes are equal, where one of them is a name."""
        for name, other in ((a, b), (b, a)):
            if name[0] == 1 and len(name[1]) == 1 and name[1][0] not in other[1]:
                self._same[name[1][0]] = other
                self._known.clear()
                return

    def _fill(self, node: NodeProto) -> None:
        """Note a value that has one number everywhere, such as the ones that sum in a product."""
        y = node.output[0]
        if node.op_type == "ConstantOfShape":
            value = next((numpy_helper.to_array(a.t) for a in node.attribute), np.zeros(1, "f"))
            self.fills[y] = value.reshape(-1)[0]
        elif node.input[0] in self:
            value = self.scalar(node.input[0])
            if value is not None and y in self and value.dtype.kind in "fiub":
                self.fills[y] = value

    def _joined(self, node: NodeProto) -> None:
        """Find the size of a concatenation: a multiple of what its parts have in common."""
        if all(x in self for x in (*node.input, *node.output)):
            axis = next(a.i for a in node.attribute if a.name == "axis")
            parts = [self.dims(x)[axis] for x in node.input]
            total = summed(parts)
            made = self.dims(node.output[0])[axis]
            if total is not None and made != total and made[0] == 1 and len(made[1]) == 1:
                self._unite(made, total)

    def _initializers(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            array = numpy_helper.to_array(tensor)
            self._kinds[tensor.name] = tensor.data_type, tuple(array.shape)
            if array.dtype.kind in "fiub":
                self.constants[tensor.name] = array
        for node in graph.node:
            for a in node.attribute:
                if a.type == a.GRAPH:
                    self._initializers(a.g)

    def _follow(self, nodes: Iterable[NodeProto]) -> None:
        """Find sizes that follow from others: those of a reshaped value, which has as many."""
        for node in nodes:
            for a in node.attribute:
                if a.type == a.GRAPH:
                    self._follow(a.g.node)
            op = node.op_type
            if op == "Concat":
                self._joined(node)
            elif op == "ConstantOfShape" or op in _FILLING:
                self._fill(node)
            if op in _KEEPING and node.input[0] in self and node.output[0] in self:
                before, dims = self.dims(node.input[0]), self.dims(node.output[0])
                named = [d for d in dims if d[0] == 1 and len(d[1]) == 1]
                if not named:
                    continue
                whole, known = product(*before), set().union(*(d[1] for d in before))
                fresh = [d for d in named if d[1][0] not in known]
                if len(fresh) == 1 and product(*dims) != whole:
                    rest = quotient(whole, product(*(d for d in dims if d is not fresh[0])))
                    if rest is not None:
                        self._unite(fresh[0], rest)
