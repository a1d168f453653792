"""Mixed precision: a finished graph with its large products in half precision.

The lists follow PyTorch's autocast: products of matrices and convolutions are computed in float16;
what passes values on, or changes each alone, follows the precision of its inputs; everything else,
such as exponentials, sums, norms and losses, stays in float32.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from ..graph.errors import DTypeError
from ..graph.node import Node, ancestors, apply, composite, located_at, rebuilt
from ..graph.rewrite import is_output_of
from ..graph.update import Assignment, effects
from ..graph.variable import Inputs, Variable
from .math import cast
from .mode import SEGMENTS

_Targets = TypeVar("_Targets", Variable, Sequence[Variable])

HALF = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
FOLLOWING = frozenset(
    {
        *("Abs", "Add", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Gelu"),
        *("Identity", "LeakyRelu", "MaxPool", "Max", "Min", "Mul", "Neg", "Relu", "Reshape"),
        *("Sigmoid", "Slice", "SpaceToDepth", "Split", "Squeeze", "Sub", "Tanh", "Transpose"),
        "Unsqueeze",
    }
)
# What has no bfloat16 in the opset of graphs, 21: it is computed in float32.
_NO_BFLOAT16 = frozenset({"Conv", "ConvTranspose", "MaxPool"})
# Operators of HALF that ONNX Runtime 1.31 computes in bfloat16 on CPUs: none has a kernel, and
# none is given casts, as those of float16 are.
_BFLOAT16_KERNELS: frozenset[str] = frozenset()


def autocast(targets: _Targets, dtype: DTypeLike | str = "float16") -> _Targets:
    """Return targets whose matrix products and convolutions are computed in float16.

    `targets` is a Variable, such as a cost, or a list of them; the graph behind may be built by any
    functions or be imported, and is not changed. The results keep their types. Parameters stay
    float32, and are cast where they are used; so do losses, sums and norms, and the bodies of
    loops. Gradients are computed in the precision of the operator that they belong to: small ones
    vanish in float16 without a `LossScaler`. Inside `pd.guard()` it takes the cost of each step.
    DTypeError for bfloat16, which ONNX Runtime has no kernels for on CPUs, with the operators that
    lack them, and for any other type.

    Args:
        targets: a Variable or a list of them.
        dtype: "float16".

    Returns:
        The targets, of their own dtypes.

    Raises:
        DTypeError: the dtype is another one.
        TypeError: a target is no Variable.
    """
    several = isinstance(targets, (list, tuple))
    wanted: list[Any] = list(targets) if several else [targets]
    for v in wanted:
        if not isinstance(v, Variable):
            raise TypeError(f"autocast: takes Variables, not {v!r}")
    _check_dtype(dtype, _behind(wanted))
    result: Any = Autocast(np.dtype(np.float16)).rewritten(wanted)
    return result if several else result[0]


class Autocast:
    """A rewriting of graphs that gives the same Variable for the same one in all calls.

    `dtype` is float16 or bfloat16.
    """

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype
        self._new: dict[Variable, Variable] = {}

    def rewritten(self, targets: Sequence[Variable]) -> list[Variable]:
        """Return targets, of their own dtypes, whose products are computed in the dtype."""
        order, new = _behind(targets), self._new
        borders = {x for node in order if node.op_type in SEGMENTS for x in node.inputs}
        for node in order:
            if node.outputs[0] in new:
                continue
            inputs = tuple([new.get(x, x) for x in node.inputs])
            with located_at(node):
                own = {new.get(x, x) for x in borders.intersection(node.inputs)}
                outputs = self._outputs(node, inputs, own)
            for old, output in zip(node.outputs, outputs, strict=True):
                new[old] = output
        return [new.get(v, v) for v in targets]

    def _outputs(self, node: Node, inputs: Inputs, borders: set) -> Sequence[Variable]:
        """Replacements of the outputs of a node, with their types.

        `borders` are inputs that segments which are computed again begin with: these are read as
        such.
        """
        halves = self._halves(node, inputs, borders)
        if halves is not None:
            return _in_half(node, halves)
        if node.effects:
            assigned = tuple(
                Assignment(a.variable, self._new.get(a.value, a.value), a.owner, a.is_effect)
                for a in node.effects
            )
            y = composite(
                node.op_type,
                *inputs,
                types=node.types,
                domain=node.domain,
                effects=assigned,
                **node.attributes,
            )
            return (y,) if isinstance(y, Variable) else y
        return node.outputs if inputs == node.inputs else rebuilt(node, inputs).outputs

    def _halves(self, node, inputs, borders):
        """The inputs in the dtype if the node is computed in it, else None."""
        singles = [x for x in inputs if x is not None and x.dtype == np.float32]
        if node.domain or not singles:
            return None
        if node.op_type in _NO_BFLOAT16 and self.dtype != np.float16:
            return None
        if node.op_type in FOLLOWING:
            if not any(map(self._is_widened, singles)):
                return None
            if not all(map(self._is_exchangeable, singles)):
                return None
        elif node.op_type not in HALF:
            return None
        return [x if x is None or x.dtype != np.float32 else self._half(x, borders) for x in inputs]

    def _is_widened(self, x):
        """Whether x is a value in the dtype that was cast for those who want float32."""
        return is_output_of(x, "Cast") and x.node.inputs[0].dtype == self.dtype

    def _is_exchangeable(self, x):
        """Whether the dtype is no loss: a value in it, a mask, a parameter or a small constant."""
        if x.value is not None:
            largest = np.float32(ml_dtypes.finfo(self.dtype).max)
            return bool((np.abs(x.value) <= largest).all())
        if is_output_of(x, "Cast"):
            return x.node.inputs[0].dtype in (self.dtype, np.bool_)
        return x.is_persistent or x.source is not None

    def _half(self, x, borders):
        is_widened = self._is_widened(x) and x not in borders
        return x.node.inputs[0] if is_widened else cast(x, self.dtype)


def _behind(targets):
    """The nodes behind targets and what they store, in the order of computation."""
    return ancestors([*(a.value for a in effects(list(targets))), *targets])


def _check_dtype(dtype, order):
    """Refuse what is not float16, with the operators that have no kernels."""
    if str(dtype) == "bfloat16":
        lacking = sorted({n.op_type for n in order} & HALF - _BFLOAT16_KERNELS)
        raise DTypeError(
            "autocast: ONNX Runtime has no bfloat16 kernels on CPUs for "
            f"{', '.join(lacking or sorted(HALF))}\n  hint: dtype='float16', or on a device "
            "that has them fit(precision='mixed_bfloat16')"
        )
    if str(dtype) != "float16" and np.dtype(dtype) != np.float16:
        raise DTypeError(f"autocast: the dtype is 'float16', not {dtype!r}")


def _in_half(node, inputs):
    """The outputs of a node on inputs in half precision, cast to the types of its own outputs."""
    known = [y.dims for y in node.outputs]
    count: Any = len(known)
    outputs: Any = apply(
        node.op_type, *inputs, outputs=count, known=known, opset=node.opset, **node.attributes
    )
    halves = (outputs,) if count == 1 else outputs
    return [
        y if y.dtype == old.dtype else cast(y, old.dtype)
        for y, old in zip(halves, node.outputs, strict=True)
    ]
