"""One ONNX operator with samples: its values by a runtime, its gradients by slopes.

For operators that no function of `pd_core.ops` adds: the node is made by hand.
"""

from dataclasses import dataclass, field

import numpy as np
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

import pd_core as pd
from pd_core.gradients.expression import expressed
from pd_core.graph.inference import Call
from pd_core.graph.node import Node

EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class Row:
    """An operator, a sample or None for each input, and its attributes; `kept` outputs are read."""

    op_type: str
    samples: tuple
    attributes: dict = field(default_factory=dict)
    kept: tuple = (0,)
    opset: int = 21
    label: str = ""

    def __str__(self):
        options = ",".join(f"{k}={v}" for k, v in self.attributes.items()).replace(" ", "")
        return "-".join(part for part in (self.op_type, self.label, options) if part)

    def arrays(self, dtype="float32"):
        """The samples, floats in this element type with values that float32 holds exactly."""
        rng = np.random.default_rng(7)
        drawn = [None if sample is None else np.asarray(sample(rng)) for sample in self.samples]
        return [
            a if a is None or a.dtype.kind != "f" else a.astype("float32").astype(dtype)
            for a in drawn
        ]


def row(op_type, samples, *, kept=(0,), opset=21, label="", **attributes):
    """A row; the other keywords are attributes."""
    return Row(op_type, tuple(samples), attributes, tuple(kept), opset, label)


def inputs_of(arrays, unknown=None):
    """A feed slot for each float, a constant for each other array; `unknown(k, rank)` says which
    axes of a slot have no size, if they are longer than 1."""
    return [None if a is None else _input(k, a, unknown) for k, a in enumerate(arrays)]


def _input(k, array, unknown):
    if array.dtype.kind != "f":
        return pd.constant(array)
    free = unknown(k, array.ndim) if unknown else ()
    shape = [None if axis in free and d > 1 else d for axis, d in enumerate(array.shape)]
    return pd.Variable(shape, dtype=array.dtype)


def all_of_the_first(k, rank):
    """Every axis of the first input has no size."""
    return range(rank) if k == 0 else ()


def node_of(row, inputs):
    """A node of the operator, whose outputs have the types of its expression."""
    call = Call(row.op_type, tuple(inputs), dict(row.attributes), row.opset)
    types = [(y.dims, y.dtype) for y in expressed(call)]
    return Node(call.op_type, call.inputs, call.attributes, types, opset=row.opset)


def by_runtime(row, arrays, reference=False):
    """The kept outputs of the operator itself, by ONNX Runtime or by ONNX's evaluator."""
    names = ["" if a is None else f"x{k}" for k, a in enumerate(arrays)]
    outputs = [f"y{k}" if k in row.kept else "" for k in range(max(row.kept) + 1)]
    node = helper.make_node(row.op_type, names, outputs, **row.attributes)
    feeds = {name: a for name, a in zip(names, arrays, strict=True) if name}
    typed = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    results = [helper.make_tensor_value_info(y, 1, None) for y in outputs if y]
    graph = helper.make_graph([node], "one", typed, results)
    opsets = [helper.make_opsetid("", row.opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    if reference:
        return ReferenceEvaluator(model).run(None, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def by_expression(row, arrays, unknown=None):
    """The Variables of the kept outputs of the expression, and their values."""
    inputs = inputs_of(arrays, unknown)
    found = expressed(Call(row.op_type, tuple(inputs), dict(row.attributes)))
    kept = [found[k] for k in row.kept]
    return kept, pd.eval(kept, feeds_of(inputs, arrays))


def feeds_of(inputs, arrays):
    """The arrays of the slots."""
    return {x: a for x, a in zip(inputs, arrays, strict=True) if x is not None and x.value is None}


def slopes(row, order=2):
    """[(numeric, analytic)] slopes in double precision of a random projection of the outputs,
    then of one of its gradients, …: of the expression and of what the rule gives for the node."""
    arrays = row.arrays("float64")
    inputs = inputs_of(arrays)
    outputs = node_of(row, inputs).outputs  # differences say little of statistics in float32
    kept = [k for k in row.kept if outputs[k].dtype == outputs[0].dtype]
    levels = _levels(row, inputs, arrays, order, kept)
    feeds, rng = feeds_of(inputs, arrays), np.random.default_rng(12)
    return compared(levels, feeds, {x: rng.standard_normal(x.dims) for x in _floats(feeds)})


def gradients(row, dtype, session, unknown=None, order=2):
    """The values of those gradients, of every order, in one element type and session."""
    arrays = row.arrays(dtype)
    inputs = inputs_of(arrays, unknown)
    partials = [g for _, level in _levels(row, inputs, arrays, order, row.kept) for g in level]
    return session.eval([g for g in partials if g is not None], feeds_of(inputs, arrays))


def _levels(row, inputs, arrays, order, kept):
    """(value, its gradients): of the outputs, weighted; of those gradients, weighted; …"""
    rng = np.random.default_rng(11)
    node, feeds = node_of(row, inputs), feeds_of(inputs, arrays)
    floats, formulas = _floats(feeds), expressed(node)
    outputs, formulas = ([ys[k] for k in kept] for ys in (node.outputs, formulas))
    static = node_of(row, inputs_of(arrays)).outputs
    seeds = [rng.standard_normal(static[k].dims).astype(static[k].dtype) for k in kept]
    value = _sum(y * s for y, s in zip(formulas, seeds, strict=True))
    partials = pd.gradients(outputs, floats, seeds)
    levels = [(value, partials)]
    for _ in range(1, order):
        pairs = [
            (g, feeds[x].shape) for g, x in zip(partials, floats, strict=True) if g is not None
        ]
        value = _sum(g * rng.standard_normal(shape) for g, shape in pairs)
        partials = pd.gradients(value, floats)
        levels.append((value, partials))
    return levels


def _floats(feeds):
    return [x for x in feeds if x.dtype.kind == "f"]


def _sum(terms):
    total = None
    for term in terms:
        term = pd.reduce_sum(term)
        total = term if total is None else total + pd.cast(term, total.dtype)
    return total


def compared(levels, feeds, direction):
    """[(numeric, analytic)] slopes along a direction, of (value, its gradients) each."""
    session = pd.Session("reference")
    above, below = (
        session.eval(
            [value for value, _ in levels],
            {**feeds, **{x: feeds[x] + sign * EPSILON * v for x, v in direction.items()}},
        )
        for sign in (1, -1)
    )
    wanted = [g for _, partials in levels for g in partials if g is not None]
    values = dict(zip(wanted, session.eval(wanted, feeds), strict=True))
    pairs = []
    for (_, partials), a, b in zip(levels, above, below, strict=True):
        parts = zip(partials, direction.values(), strict=True)
        analytic = sum(np.vdot(values[g], v) for g, v in parts if g is not None)
        pairs.append(((a - b) / (2 * EPSILON), analytic))
    return pairs
