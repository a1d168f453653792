"""Which stored tensors of a file are trained: decided by what reads them, then by their values.

A tensor is a weight if a linear operator, a recurrence, a normalisation or an embedding lookup
reads it, or if it is added to their result or multiplied with it, feature by feature. All others
are constants, and so are tensors whose values were computed: masks, grids, samples of sinusoids,
filter banks, symmetric filters.
"""

from dataclasses import dataclass

import numpy as np
from onnx import FunctionProto, GraphProto

from . import patterns
from .flow import Flow
from .functions import Key

_RECURRENT = ("RNN", "GRU", "LSTM")
_NORMALISATIONS = (
    *("BatchNormalization", "InstanceNormalization", "LayerNormalization"),
    *("GroupNormalization", "RMSNormalization"),
)
_ROLES = (  # (role, operators, indices of their inputs)
    ("weight", ("Conv", "ConvTranspose", "DeformConv", "CausalConvWithState"), (1,)),
    ("weight", ("Gemm", "MatMul"), (0, 1)),
    ("weight", ("Einsum",), range(8)),
    ("weight", _RECURRENT, (1, 2)),
    ("bias", ("Conv", "ConvTranspose", "Gemm", "CausalConvWithState"), (2,)),
    ("bias", ("DeformConv", *_RECURRENT), (3,)),
    ("initial state", _RECURRENT, (5,)),
    ("initial state", ("LSTM",), (6,)),
    ("peepholes", ("LSTM",), (7,)),
    ("embedding", ("Gather", "GatherND"), (0,)),
    ("slope", ("PRelu",), (1,)),
    ("scale", _NORMALISATIONS, (1,)),
    ("shift", _NORMALISATIONS[:-1], (2,)),
)
ROLES = {(op, k): role for role, ops, inputs in _ROLES for op in ops for k in inputs}
STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
_LINEAR = {op for (op, _), role in ROLES.items() if role == "weight"}
_STANDARDISED = {*_NORMALISATIONS, "MeanVarianceNormalization", "LpNormalization"}
_DEVIATION = {"Sqrt", "ReduceL2", "Pow"}

# Operators that move, convert or copy the elements of their first input.
_MOVES = {
    *("Identity", "Cast", "CastLike", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"),
    *("Expand", "Tile", "Slice", "Split", "Pad", "Dropout", "Pass"),
    *("QuantizeLinear", "DequantizeLinear"),
}
_ADDS = {("Add", 0), ("Add", 1), ("Sub", 0)}


@dataclass
class Decision:
    """Whether a stored tensor is trained, the operator and role of its use, and the reason."""

    name: str
    shape: tuple
    dtype: str
    use: str
    trained: bool
    why: str
    statistic: bool = False


def decisions(
    graph: GraphProto,
    functions: dict[Key, FunctionProto],
    arrays: dict[str, np.ndarray],
) -> dict[str, Decision]:
    """Return {name: Decision} for float arrays by name, also the outputs of DequantizeLinear."""
    return _Decider(Flow(graph, functions, arrays), arrays).all()


class _Decider:
    def __init__(self, flow, arrays):
        self.flow, self.arrays = flow, arrays
        self.derived = self._derived()
        self.uses = {name: self._uses(name) for name in arrays}
        self.decisions = {}

    def all(self):
        """Decide on every tensor: first by role, then by arithmetic with learnt features."""
        for name in self.arrays:
            if name not in self.decisions:
                self._by_role(name)
        trained = {id(s) for n, d in self.decisions.items() if d.trained for s, _ in self.uses[n]}
        self.learnt = self._downstream(trained)
        self.upstream = self._upstream(trained)
        for name in self.arrays:
            if name not in self.decisions:
                self._by_arithmetic(name)
        return self.decisions

    def _derived(self):
        """Return the names of values whose elements are computed from stored tensors alone.

        Where a step moves elements, sizes of other values may say where to: exporters cut the
        gates of an LSTM by the size of its state.
        """
        known = set(self.arrays)
        for step in self.flow.steps:
            read = step.inputs[:1] if step.op_type in _MOVES else step.inputs
            inputs = [x for x in read if x]
            constant = step.op_type in ("Constant", "DequantizeLinear") and not inputs
            if constant or (inputs and step.op_type != "Pass" and known.issuperset(inputs)):
                known.update(step.outputs)
        return known

    def _uses(self, name):
        """Return [(step, index of its input)] that read a tensor.

        Steps that only move it, or compute with stored tensors alone, are followed further.
        """
        uses, stack, seen = [], [name], {name}
        while stack:
            for step, k in self.flow.readers[stack.pop()]:
                if self._is_transparent(step, k):
                    stack += [y for y in step.outputs if y and y not in seen]
                    seen.update(step.outputs)
                else:
                    uses.append((step, k))
        return uses

    def _is_transparent(self, step, k):
        if step.op_type in _MOVES:
            return k == 0
        return bool(step.outputs) and self.derived.issuperset(y for y in step.outputs if y)

    # ---- by role

    def _by_role(self, name):
        """Decide on a tensor that is an input of ROLES or STATISTICS."""
        roles = [(s, ROLES[s.op_type, k]) for s, k in self.uses[name] if (s.op_type, k) in ROLES]
        if roles:
            step, role = roles[0]
            self._decide(name, f"{step.op_type} {role}", self._against(name, step, role))
        elif any((s.op_type, k) in STATISTICS for s, k in self.uses[name]):
            use = "BatchNormalization statistic"
            self._decide(name, use, "moved by training=True, not by gradients")
            self.decisions[name].statistic = True

    def _against(self, name, step, role):
        """Return why a tensor in the role of a weight is not trained, or None."""
        array = self.arrays[name]
        if step.op_type in ("Gather", "GatherND"):
            if array.ndim < 2 or array.shape[-1] < 2:
                return "a list of numbers"
            return patterns.computed(array)
        if role == "bias" and step.op_type not in _RECURRENT:
            return self._against_weight_of(step)
        if role == "initial state":
            return "one value everywhere" if patterns.uniform(array) else None
        if step.op_type == "InstanceNormalization":
            return self._only_normalises(step)
        if role != "weight" or step.op_type in _RECURRENT:
            return None
        if array.ndim == 0 or (array.ndim == 1 and array.size == 1):
            return "a single number"
        if step.op_type.startswith("Conv"):
            return patterns.fixed_filters(array)
        return patterns.fixed_matrix(array)

    def _against_weight_of(self, step):
        """Return why a bias is not trained: it is trained only with its weight."""
        name = step.inputs[1]
        if name in self.arrays and name not in self.decisions:
            self._by_role(name)
        fixed = name in self.decisions and not self.decisions[name].trained
        return "its weight is not trained" if fixed else None

    def _only_normalises(self, step):
        """Return why scale and shift of an InstanceNormalization without effect are not trained.

        Exporters write GroupNormalization as such a one, scaled by 1 and shifted by 0.
        """
        scale, shift = (self.arrays.get(x) for x in step.inputs[1:3])
        if scale is None or shift is None or (scale != 1).any() or shift.any():
            return None
        return "ones and zeros, which leave the result as it is"

    # ---- by arithmetic

    def _by_arithmetic(self, name):
        """Decide on a tensor that is only added to, multiplied with or joined to features."""
        against = "read by no operator"
        for step, k in self.uses[name]:
            use = f"{step.op_type} operand"
            role, against = self._role(name, step, k)
            if against is None:
                return self._decide(name, f"{step.op_type} {role}", None)
        use = f"{self.uses[name][0][0].op_type} operand" if self.uses[name] else "none"
        return self._decide(name, use, against)

    def _role(self, name, step, k):
        """Return (role, why it is not trained or None) for one reader of a tensor."""
        array, op = self.arrays[name], step.op_type
        adds = (op, k) in _ADDS
        if not adds and op not in ("Mul", "Concat"):
            return "", f"operand {k} of {op}, which holds no weights"
        if op == "Concat":
            return "token", self._against_token(array, step)
        origin = self._origin(step.inputs[1 - k])
        if adds and self._is_bias(array, origin):
            return "bias", None
        if array.size < 2:
            return "", "a single number"
        role = "shift" if adds else "scale"
        if sum(d > 1 for d in array.shape) == 1 and self._is_standardised(origin, adds):
            return role, None
        against = patterns.computed(array) or patterns.grid(array)
        if against is None and step.inputs[1 - k] not in self.learnt:
            against = "its other operand holds no learnt features"
        if against is None and self.upstream.isdisjoint(step.outputs):
            against = "no weights behind it"
        return role, against

    def _against_token(self, array, step):
        if array.ndim < 2 or array.size < 2:
            return "a list of numbers"
        if self.upstream.isdisjoint(step.outputs):
            return "no weights behind it"
        if patterns.uniform(array):
            return "one value everywhere"
        return patterns.computed(array) or patterns.grid(array)

    def _origin(self, name):
        """Return the operator that computes a value, behind operators that only move it."""
        for _ in range(64):
            step = self.flow.producer.get(name)
            if step is None or step.op_type not in _MOVES:
                return step
            name = step.inputs[0] if step.inputs else ""
        return None

    def _is_bias(self, array, origin):
        """Check whether an array has an element for each output feature of a linear operator."""
        if origin is None or origin.op_type not in _LINEAR:
            return False
        if self.derived.isdisjoint(x for x in origin.inputs if x):
            return False
        if self._against_weight_of(origin):
            return False
        width = self._width(origin)
        axes = [d for d in array.shape if d > 1] or [1]
        return len(axes) == 1 and array.ndim > 0 and axes[0] == (width or axes[0])

    def _width(self, step):
        """Return the number of output features of a linear operator, None if it is not known."""
        stored = self.arrays.get(step.inputs[1])
        if stored is None or step.op_type not in ("Conv", "MatMul", "Gemm"):
            return None
        shape = stored.shape
        if step.op_type == "Conv" or step.attributes.get("transB"):
            return shape[0]
        return shape[-1]

    def _is_standardised(self, origin, adds):
        """Check whether features are the output of a normalisation, or of its scale."""
        if origin is None:
            return False
        if origin.op_type in _STANDARDISED:
            return True
        if origin.op_type == "Mul":
            scaled = adds and any(self._is_scale(x) for x in origin.inputs)
            return scaled or any(self._is_deviation(x) for x in origin.inputs)
        if origin.op_type in ("Reciprocal", "Div"):
            return self._is_deviation(origin.inputs[-1])
        return False

    def _is_scale(self, name):
        decision = self.decisions.get(name)
        if decision is None and name in self.arrays:
            self._by_arithmetic(name)
            decision = self.decisions[name]
        return decision is not None and decision.trained and decision.use == "Mul scale"

    def _is_deviation(self, name, depth=4):
        """Check whether a value is a standard deviation, perhaps with an epsilon, or inverted."""
        step = self._origin(name)
        if step is None or not depth:
            return False
        if step.op_type in _DEVIATION:
            return True
        through = step.op_type in ("Add", "Max", "Clip", "Reciprocal", "Div")
        return through and any(self._is_deviation(x, depth - 1) for x in step.inputs if x)

    # ---- over the graph

    def _downstream(self, trained):
        """Return the values that depend on weights; `trained` are the ids of steps with weights."""
        values: set[str] = set()
        for step in self.flow.steps:
            if id(step) in trained or not values.isdisjoint(step.inputs):
                values.update(step.outputs)
        return values

    def _upstream(self, trained):
        """Return the values that steps with weights depend on."""
        values: set[str] = set()
        for step in reversed(self.flow.steps):
            if id(step) in trained or not values.isdisjoint(step.outputs):
                values.update(step.inputs)
        return values

    def _decide(self, name, use, against):
        array = self.arrays[name]
        trained = against is None
        self.decisions[name] = Decision(
            name, array.shape, str(array.dtype), use, trained, against or "a weight by its use"
        )
