"""Which stored tensors of a file are trained: decided by what reads them, then by their values.

What a linear operator, a recurrence, a normalisation or a table of embeddings reads is a weight;
so is what is added to its result, or multiplied with it, feature by feature. Everything else is a
constant, and so is a tensor in the place of a weight whose values say that it was computed:
masks, grids, samples of sinusoids, filter banks, symmetric filters.
"""

from dataclasses import dataclass

from . import patterns
from .flow import Flow

_RECURRENT = ("RNN", "GRU", "LSTM")
_NORMALISATIONS = (
    *("BatchNormalization", "InstanceNormalization", "LayerNormalization"),
    *("GroupNormalization", "RMSNormalization"),
)
_ROLES = (  # what stands at these inputs of these operators
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
PLACES = {(op, k): role for role, ops, places in _ROLES for op in ops for k in places}
STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
_LINEAR = {op for (op, _), role in PLACES.items() if role == "weight"}
_STANDARDISED = {*_NORMALISATIONS, "MeanVarianceNormalization", "LpNormalization"}
_DEVIATION = {"Sqrt", "ReduceL2", "Pow"}

# Operators whose result is their first input elsewhere or in another form.
_MOVES = {
    *("Identity", "Cast", "CastLike", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"),
    *("Expand", "Tile", "Slice", "Split", "Pad", "Dropout", "Pass"),
    *("QuantizeLinear", "DequantizeLinear"),
}
_ADDS = {("Add", 0), ("Add", 1), ("Sub", 0)}


@dataclass
class Decision:
    """Whether a stored tensor is trained: `use` says which operator reads it, `why` gives the
    reason.
    """

    name: str
    shape: tuple
    dtype: str
    use: str
    trained: bool
    why: str
    statistic: bool = False


def decisions(graph, functions, arrays):
    """{name: Decision} for float arrays by name, those that come out of DequantizeLinear too."""
    return _Decider(Flow(graph, functions, arrays), arrays).all()


class _Decider:
    def __init__(self, flow, arrays):
        self.flow, self.arrays = flow, arrays
        self.derived = self._derived()
        self.uses = {name: self._followed(name) for name in arrays}
        self.found = {}

    def all(self):
        for name in self.arrays:
            if name not in self.found:
                self._by_place(name)
        trained = {id(s) for n, d in self.found.items() if d.trained for s, _ in self.uses[n]}
        self.learnt = self._behind(trained)
        self.needed = self._before(trained)
        for name in self.arrays:
            if name not in self.found:
                self._by_arithmetic(name)
        return self.found

    def _derived(self):
        """Values that are computed of stored tensors alone."""
        known = set(self.arrays)
        for step in self.flow.steps:
            inputs = [x for x in step.inputs if x]
            constant = step.op_type in ("Constant", "DequantizeLinear") and not inputs
            if constant or (inputs and step.op_type != "Pass" and known.issuperset(inputs)):
                known.update(step.outputs)
        return known

    def _followed(self, name):
        """[(step, number of its input)] that read a tensor, behind moves and expressions of
        stored tensors alone.
        """
        found, left, seen = [], [name], {name}
        while left:
            for step, k in self.flow.readers[left.pop()]:
                if self._passes(step, k):
                    left += [y for y in step.outputs if y and y not in seen]
                    seen.update(step.outputs)
                else:
                    found.append((step, k))
        return found

    def _passes(self, step, k):
        if step.op_type in _MOVES:
            return k == 0
        return bool(step.outputs) and self.derived.issuperset(y for y in step.outputs if y)

    # ---- by place

    def _by_place(self, name):
        """The decision for a tensor in a place of PLACES or STATISTICS, if it is in one."""
        places = [(s, PLACES[s.op_type, k]) for s, k in self.uses[name] if (s.op_type, k) in PLACES]
        if places:
            step, role = places[0]
            self._decide(name, f"{step.op_type} {role}", self._against(name, step, role))
        elif any((s.op_type, k) in STATISTICS for s, k in self.uses[name]):
            use = "BatchNormalization statistic"
            self._decide(name, use, "moved by training=True, not by gradients")
            self.found[name].statistic = True

    def _against(self, name, step, role):
        """Why a tensor in the place of a weight is none, or None."""
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
        """A bias is trained with its weight."""
        name = step.inputs[1]
        if name in self.arrays and name not in self.found:
            self._by_place(name)
        fixed = name in self.found and not self.found[name].trained
        return "its weight is not trained" if fixed else None

    def _only_normalises(self, step):
        """Exporters write normalisation by groups as one of instances, scaled by 1, moved by 0."""
        scale, shift = (self.arrays.get(x) for x in step.inputs[1:3])
        if scale is None or shift is None or (scale != 1).any() or shift.any():
            return None
        return "ones and zeros, which leave the result as it is"

    # ---- by arithmetic

    def _by_arithmetic(self, name):
        """The decision for a tensor that is only added, multiplied or joined to features."""
        against = "read by no operator"
        for step, k in self.uses[name]:
            use = f"{step.op_type} operand"
            role, against = self._role(name, step, k)
            if against is None:
                return self._decide(name, f"{step.op_type} {role}", None)
        use = f"{self.uses[name][0][0].op_type} operand" if self.uses[name] else "none"
        return self._decide(name, use, against)

    def _role(self, name, step, k):
        """(what it is, why it is not trained or None) for one reader of a tensor."""
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
        if against is None and self.needed.isdisjoint(step.outputs):
            against = "no weights behind it"
        return role, against

    def _against_token(self, array, step):
        if array.ndim < 2 or array.size < 2:
            return "a list of numbers"
        if self.needed.isdisjoint(step.outputs):
            return "no weights behind it"
        if patterns.uniform(array):
            return "one value everywhere"
        return patterns.computed(array) or patterns.grid(array)

    def _origin(self, name):
        """The operator that computes a value, before it is moved."""
        for _ in range(64):
            step = self.flow.maker.get(name)
            if step is None or step.op_type not in _MOVES:
                return step
            name = step.inputs[0] if step.inputs else ""
        return None

    def _is_bias(self, array, origin):
        """Whether it has a number for each result of a linear operator with stored weights."""
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
        """The output features of a linear operator, None if they are not known."""
        stored = self.arrays.get(step.inputs[1])
        if stored is None or step.op_type not in ("Conv", "MatMul", "Gemm"):
            return None
        shape = stored.shape
        if step.op_type == "Conv" or step.attributes.get("transB"):
            return shape[0]
        return shape[-1]

    def _is_standardised(self, origin, adds):
        """Whether features come out of a normalisation, or out of its scale."""
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
        decided = self.found.get(name)
        if decided is None and name in self.arrays:
            self._by_arithmetic(name)
            decided = self.found[name]
        return decided is not None and decided.trained and decided.use == "Mul scale"

    def _is_deviation(self, name, depth=4):
        """Whether a value is a root of squares, something small added, or one over it."""
        step = self._origin(name)
        if step is None or not depth:
            return False
        if step.op_type in _DEVIATION:
            return True
        through = step.op_type in ("Add", "Max", "Clip", "Reciprocal", "Div")
        return through and any(self._is_deviation(x, depth - 1) for x in step.inputs if x)

    # ---- over the graph

    def _behind(self, trained):
        """Values that weights went into; `trained` are the operators that read some."""
        found = set()
        for step in self.flow.steps:
            if id(step) in trained or not found.isdisjoint(step.inputs):
                found.update(step.outputs)
        return found

    def _before(self, trained):
        """Values that go where weights are."""
        found = set()
        for step in reversed(self.flow.steps):
            if id(step) in trained or not found.isdisjoint(step.outputs):
                found.update(step.inputs)
        return found

    def _decide(self, name, use, against):
        array = self.arrays[name]
        trained = against is None
        self.found[name] = Decision(
            name, array.shape, str(array.dtype), use, trained, against or "a weight by its use"
        )
