"""Equal operators of a program are computed once, and reshapings of reshapings at once.

Gradients and passes write the same sizes, bounds and broadcast vectors for each layer anew. A
runtime finds some of them, in walks over all operators which take longer than this one. Nothing is
rebuilt: a plan says which variable stands for which, and which operators remain.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..graph.node import Node
from ..graph.size_reads import at_most, read_sizes
from ..graph.variable import Inputs, Variable, constant

_SMALL = 1 << 12  # bytes; larger constants are the same only if they are one variable
_BIG = 1 << 20  # bytes; larger fillings would be kept from their first use to their last
_FILLINGS = {"Expand", "ConstantOfShape", "Tile", "Range", "EyeLike"}
_RANDOM = {
    *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
    *("Bernoulli", "Multinomial", "Dropout"),
}
_VIEWS = {"Reshape", "Unsqueeze", "Squeeze", "Flatten"}  # their result has the elements in order
# Of sizes, which are constants where every size is known.
_FOLDED: Mapping[str, Callable[..., Any]] = {
    "Mul": np.multiply,
    "Add": np.add,
    "Sub": np.subtract,
    "Greater": np.greater,
    "Max": np.maximum,
    "Where": np.where,
}


class Merging:
    """A plan for a program: the replacement of each variable, and the remaining operators.

    `same` maps a variable to the equal one that is computed, and `reads` a node to its inputs if
    they differ otherwise from those that it has. `sizes` are run-time sizes seen so far.
    """

    def __init__(self, sizes: Mapping[str, int]):
        self.same: dict[Variable, Variable] = {}
        self.reads: dict[Node, Inputs] = {}
        self._sizes = sizes
        self._constants: dict[tuple, Variable] = {}

    def enter(self, order: Sequence[Node]) -> tuple[dict, dict]:
        """Forget what is known of the nodes of a body; return it for `leave`.

        Bodies may share nodes, and what is equal in one of them is not computed in another.
        """
        made = [y for node in order for y in node.outputs]
        same = {y: self.same.pop(y) for y in made if y in self.same}
        return same, {node: self.reads.pop(node) for node in order if node in self.reads}

    def leave(self, order: Sequence[Node], before: tuple[dict, dict]) -> None:
        """Forget a body, and know what was known when it was entered."""
        self.enter(order)
        same, reads = before
        self.same.update(same)
        self.reads.update(reads)

    def remaining(self, order: Sequence[Node], outputs: Sequence[Variable]) -> list[Node]:
        """Return the nodes of a graph, or of a body, that its outputs need once it is merged."""
        first: dict[tuple, tuple[Variable, ...]] = {}
        wanted = set(outputs)  # an operator computes each, and not a copy of something
        for node in order:
            inputs = tuple([x if x is None else self._of(x) for x in node.inputs])
            results = self._shorter(node, inputs, first)
            if results is None or not wanted.isdisjoint(node.outputs):
                inputs = self.reads.get(node, inputs)
                if not self._is_shared(node):
                    continue
                results = first.setdefault((node.kind, inputs), node.outputs)
            if results is not node.outputs:
                self.same.update(zip(node.outputs, results, strict=True))
        return self._needed(order, outputs)

    def inputs(self, node: Node) -> Inputs:
        """Return what a node reads, before what stands for it."""
        return self.reads.get(node, node.inputs)

    def _needed(self, order, outputs):
        needed = {self.same.get(v, v) for v in outputs}
        remaining = []
        for node in reversed(order):
            if not needed.isdisjoint(node.outputs):
                remaining.append(node)
                needed.update([self.same.get(x, x) for x in self.inputs(node)])
        remaining.reverse()
        return remaining

    def _of(self, x):
        """The replacement of a variable; equal small constants have one."""
        found = self.same.get(x)
        if found is None:
            found = x
            if x.value is not None and x.value.nbytes <= _SMALL:
                found = self._constants.setdefault(x.content, x)
            if x.value is not None:
                self.same[x] = found
        return found

    def _is_shared(self, node):
        """Whether a node may stand for equal ones."""
        if node.blocks or node.op_type in _RANDOM:
            return False
        return node.op_type not in _FILLINGS or self._takes(node.outputs[0], _BIG)

    def _takes(self, x, most):
        """Whether a value takes so many bytes at most, by the sizes seen so far."""
        dims = x.symbolic_dims
        sizes = [self._sizes.get(d, 1) for d in dims if isinstance(d, str)]
        return at_most(dims, most, prod(sizes) * x.dtype.itemsize)

    def _shorter(self, node, inputs, first):
        """Other variables that have the results of a node; None if it is to be computed."""
        if node.op_type == "Shape":
            return self._shape(node, inputs[0], first)
        if node.op_type in _VIEWS:
            return self._view(node, inputs)
        if node.op_type in _FOLDED and all(map(_is_small, inputs)):
            array = _FOLDED[node.op_type](*[x.value for x in inputs])
            return self._folded(node.outputs[0], array)
        if node.op_type == "Cast" and _is_small(inputs[0]):
            y, kinds = node.outputs[0], inputs[0].dtype.kind + node.outputs[0].dtype.kind
            if set(kinds) <= set("iubf") and kinds not in ("fi", "fu"):
                return self._folded(y, inputs[0].value.astype(y.dtype))
        if node.op_type == "Expand" and _is_small(inputs[0]) and node.outputs[0].is_static:
            y = node.outputs[0]
            if self._takes(y, _SMALL):
                return self._folded(y, np.broadcast_to(inputs[0].value, y.dims))
        return None

    def _folded(self, y, array):
        """A constant for the result y, if it is small."""
        return (self._of(constant(array, y.dtype)),) if array.nbytes <= _SMALL else None

    def _shape(self, node, x, first):
        """A constant, or the first Shape of the same sizes."""
        dims = x.symbolic_dims
        dims = dims[slice(node.attributes.get("start", 0), node.attributes.get("end"))]
        if all(isinstance(d, int) for d in dims):
            read_sizes(dims)
            return self._folded(node.outputs[0], np.array(dims, np.int64))
        if self._unknown(dims):
            return None
        results = first.setdefault(("Shape", dims), node.outputs)
        return None if results is node.outputs else results

    def _unknown(self, dims):
        """How many names of sizes are not those of feeds.

        In a graph that was recorded, two values may have one such name, and other sizes.
        """
        return sum(isinstance(d, str) and d not in self._sizes for d in dims)

    def _view(self, node, inputs):
        """The input itself if it has that shape, or None; a view of a view is read past that one.

        Also a reshaping of a constant to sizes that are known.
        """
        y, x = node.outputs[0], inputs[0]
        dims = y.symbolic_dims
        if x.symbolic_dims == dims and self._unknown(dims) < 2:
            return (x,)
        if _is_small(x) and y.is_static:
            return self._folded(y, x.value.reshape(y.dims))
        if node.op_type != "Reshape" or not _is_absolute(node, inputs[1]):
            return None
        if x.node is not None and x.node.op_type in _VIEWS and _always_fits(x.node):
            below = self._of(self.inputs(x.node)[0])
            if below.symbolic_dims == dims and self._unknown(dims) < 2:
                return (below,)
            self.reads[node] = (below, inputs[1])
        return None


def _always_fits(view):
    """Whether a view has as many elements as its input, whatever the sizes are at run time.

    Any other one is computed: it refuses sizes that a view of it might take, at its own line.
    """
    before, after = view.inputs[0].dims, view.outputs[0].dims
    if view.op_type in ("Unsqueeze", "Flatten") or _elements(before) == _elements(after):
        return True
    shape = view.inputs[1].value if view.op_type == "Reshape" else None
    if shape is None or not (shape < 0).any() or (shape == 0).any():
        return False
    return _elements(before)[0] % prod(shape[shape > 0].tolist()) == 0


def _elements(dims):
    """The product of sizes: that of the numbers, and the names."""
    return prod([d for d in dims if isinstance(d, int)]), sorted(d for d in dims if type(d) is str)


def _is_small(x):
    return x is not None and x.value is not None and x.value.nbytes <= _SMALL


def _is_absolute(node, shape):
    """Whether a Reshape gives the same for any shape of its input."""
    if shape.value is None:
        return False
    return bool(node.attributes.get("allowzero")) or bool((shape.value != 0).all())
