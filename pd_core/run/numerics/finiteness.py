"""Where NaN and infinities begin: rules for the float values that targets are computed from.

- A NaN counts in every value, an infinity in a value whose inputs have none. So the -inf of a mask
  may pass through any operator, until a NaN comes of it.
- Constants are not checked. A -inf that is fed, or stored and not trained, is a mask like one of a
  constant; +inf and NaN are not.
- What a training step stores must be finite, and a scalar that is fetched is not +inf, wherever
  the infinity comes from.
- What only a `where` may select is judged by what it selects: log(0) on its other side is nothing.
- Values of the bodies of loops and branches count as far as they leave the body.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, numpy_helper

from ... import ops
from ...backend.base import NO_SEAM, Seam
from ...graph.names import fresh_names
from ...graph.node import Node, ancestors, apply
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, Variable

# They read no element, or look for those that are not finite.
_HARMLESS = {"IsInf", "IsNaN", "Shape", "Size"}
# A reader, and the gradient that programs compute together with it: dy / p of a probability that
# underflows is never computed where p is a softmax or a sigmoid.
_FUSED = {"Mul": "BinaryCrossEntropyGrad", "SoftmaxGrad": "LogProbabilityGrad"}
# They are infinite where there is nothing to choose from, or for a class that is impossible.
_MAY_BE_INFINITE = {"LogProbability", "MaxPool", "ReduceMax", "ReduceMin", "TiedMaxPool"}


class Found(NamedTuple):
    """The indices of the values that hold a NaN, a +inf, a -inf."""

    nan: frozenset[int] = frozenset()
    plus: frozenset[int] = frozenset()
    minus: frozenset[int] = frozenset()

    @property
    def infinite(self) -> frozenset[int]:
        """Those that hold an infinity of either sign."""
        return self.plus | self.minus


class Rules:
    """What is allowed of each value; indices only, so that it keeps no graph alive.

    `inputs` are those of the operator that computes it, none for the first `leaves` values.
    `exposed` are the values that are read otherwise than by a `where`. `infinite` have an infinite
    constant among their inputs, `trained` and `stored` take none, and `scalars` no +inf.
    """

    def __init__(
        self,
        inputs: list[list[int]],
        leaves: int,
        exposed: set[int],
        infinite: set[int],
        trained: set[int],
        stored: set[int],
        scalars: set[int],
    ):
        self.inputs, self.leaves, self.exposed, self.infinite = inputs, leaves, exposed, infinite
        self.trained, self.stored, self.scalars = trained, stored, scalars

    def first_fault(self, found: Found) -> int | None:
        """Return the first value that is not as it should be; None if there is none.

        Where it only passes on what a `where` should have hidden, return where that begins.
        """
        passed: set[int] = set()  # values with infinities that do not count
        for k in sorted(found.nan | found.infinite):
            if k in found.infinite and self._passes(k, found, passed):
                passed.add(k)
            if k in self.exposed and (k in found.nan or k not in passed):
                return self.origin(k, found.nan if k in found.nan else found.infinite)
            if self._leaves_evaluation(k, found):
                return k
        return None

    def _passes(self, k: int, found: Found, passed: set[int]) -> bool:
        """Whether the infinities of a value come from a mask."""
        if k < self.leaves:
            return k not in found.plus and k not in self.trained
        return k in self.infinite or not passed.isdisjoint(self.inputs[k])

    def _leaves_evaluation(self, k: int, found: Found) -> bool:
        """Whether an infinity is stored or returned where none is allowed."""
        return (k in found.infinite and k in self.stored) or (k in found.plus and k in self.scalars)

    def origin(self, k: int, kind: Collection[int]) -> int:
        """Return the value where the NaN, or infinities, of a value begin: `kind` are all such."""
        while True:
            earlier = [i for i in self.inputs[k] if i in kind]
            if not earlier:
                return k
            k = earlier[0]


class FloatValues:
    """The float values that targets are computed from: leaves, then outputs in their order.

    `stored` are targets that a training step stores. Nothing behind `fed` belongs to them, and
    nothing that depends on `seam`; outputs that nothing reads are left out.
    """

    def __init__(
        self,
        fetches: Sequence[Variable],
        new: Sequence[Variable],
        stored: Sequence[Variable],
        fed: Mapping[Variable, Any],
        training: bool,
        seam: Seam = NO_SEAM,
    ):
        self.training, self._fed = training, fed
        targets = [*fetches, *new, *seam]
        order = ancestors(targets, fed, self.inputs_of)
        inputs = [x for node in order for x in self.inputs_of(node) if x is not None]
        read = {v: None for v in (*inputs, *targets) if v.dtype.kind == "f"}
        leaves = [v for v in read if v in fed] + [v for v in read if self._is_stored(v)]
        before = _independent(order, seam) if seam else order
        self.leaves = len(leaves)
        computed = [y for node in before for y in node.outputs if y in read and y not in fed]
        self.all = [*leaves, *computed]
        self._number = {v: k for k, v in enumerate(self.all)}
        self.rules = self._rules(fetches, stored, self._exposed(order, targets))

    def inputs_of(self, node: Node) -> Inputs:
        """Return the inputs that count in this mode."""
        if node.op_type == "ModeSwitch":
            return (node.inputs[0 if self.training else 1],)
        if node.op_type == "OnnxForm":
            return node.inputs[: len(node.outputs)]
        if node.op_type in ("StraightThrough", "GammaDraw"):  # the other one is not computed for it
            return node.inputs[:1]
        return node.inputs

    def _is_stored(self, v: Variable) -> bool:
        return v.node is None and v.value is None and v not in self._fed

    def _exposed(self, order: Sequence[Node], targets: Iterable[Variable]) -> set[Variable]:
        """The targets, and what they are computed from otherwise than through a `where`."""
        exposed = set(targets)
        for node in reversed(order):
            if node.op_type not in _HARMLESS and not exposed.isdisjoint(node.outputs):
                exposed.update(self._read_as_they_are(node))
        return exposed

    def _read_as_they_are(self, node: Node) -> Sequence[Any]:
        """The inputs of a node that its output shows as they are."""
        inputs = self.inputs_of(node)
        if node.op_type == "Where":
            return inputs[:1]
        fused = _FUSED.get(node.op_type)
        return [x for x in inputs if fused is None or not is_output_of(x, fused)]

    def _rules(
        self,
        fetches: Sequence[Variable],
        stored: Sequence[Variable],
        exposed: set[Variable],
    ) -> Rules:
        leaves, nodes = self.all[: self.leaves], {v: v.node for v in self.all[self.leaves :]}
        inputs: list[list[int]] = [[] for _ in leaves]
        inputs += [self._numbers(self.inputs_of(node)) for node in nodes.values()]
        infinite = {node: self._has_infinity(node) for node in set(nodes.values())}
        return Rules(
            inputs,
            self.leaves,
            set(self._numbers(exposed)),
            {self._number[v] for v, node in nodes.items() if infinite[node]},
            set(self._numbers(v for v in leaves if v.trainable and v not in self._fed)),
            set(self._numbers(stored)),
            set(self._numbers(v for v in fetches if not v.dims)),
        )

    def _numbers(self, variables: Iterable[Variable]) -> list[int]:
        return [self._number[v] for v in variables if v in self._number]

    def _has_infinity(self, node: Node) -> bool:
        """Whether a node has an infinite constant, also in bodies, or may be infinite."""
        attributes = node.attributes.values()
        constants = [x for x in self.inputs_of(node) if x is not None and x not in self._fed]
        return (
            node.op_type in _MAY_BE_INFINITE
            or any(x.value is not None and _is_infinite(x.value) for x in constants)
            or any(isinstance(a, TensorProto | float) and _is_infinite(a) for a in attributes)
            or any(
                self._has_infinity(inner)
                for block in node.blocks.values()
                for inner in ancestors(block.outputs, set(block.inputs))
            )
        )


def _independent(order: Sequence[Node], seam: Iterable[Variable]) -> list[Node]:
    """The nodes that do not depend on the seam."""
    later = set(seam)
    for node in order:
        if not later.isdisjoint(node.inputs):
            later.update(node.outputs)
    return [node for node in order if later.isdisjoint(node.inputs)]


def _is_infinite(value: Any) -> bool:
    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isinf(array).any())


def flags(values: Sequence[Variable], suspects: Sequence[int]) -> Variable:
    """Return a float32 vector: the sum of each value, then three numbers for each suspect.

    A value with a finite sum is finite. Of the others a sum does not say what is the matter (it may
    be too large for a float): as suspects they get the counts of NaN, +inf and -inf.
    """
    with fresh_names():
        flat = [_flat(v) for v in values]
        parts = [_sum(v) for v in flat]
        for k in suspects:
            parts.append(_sum(ops.cast(apply("IsNaN", flat[k]), np.float32)))
            plus = apply("IsInf", flat[k], detect_negative=0)
            minus = apply("IsInf", flat[k], detect_positive=0)
            parts += [_sum(ops.cast(signs, np.float32)) for signs in (plus, minus)]
        return ops.concat(parts)


def _flat(v: Variable) -> Variable:
    flat = v if v.rank == 1 else ops.reshape(v, [-1])
    # a sum of half floats is soon too large for one
    return ops.cast(flat, np.float32) if v.dtype == np.float16 else flat


def _sum(v: Variable) -> Variable:
    return ops.cast(ops.reduce_sum(v, keep_dim=True), np.float32)
