"""Arrays without elements, on which some kernels of ONNX Runtime 1.31 fail or end the process.

LSTM and GRU abort on a batch of no sequences, GRU on sequences of no steps too, Unique on rows of
nothing, and Einsum divides by zero where it transposes an operand; all of these on a CPU. Scan
fails without steps anywhere.
"""

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...graph.node import Node, apply, rebuilt, refined, retyped
from ...graph.rewrite import rebuilt_if_changed, rewrite
from ...graph.variable import Inputs, Variable, constant
from ...ops.control import as_list
from .context import Context, Outputs
from .letters import axes_of_letters, terms_of


def steps_if_any(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Run a recurrent layer, time first, only if there are sequences with steps.

    Without steps the final states are the initial ones.
    """
    x, r = inputs[0], inputs[2]
    if has_elements(x) or x.dims[2] == 0:
        return None
    initial = [*inputs[5:7], None, None][: len(node.outputs) - 1]

    def run() -> list[Variable]:
        outputs = len(node.outputs)
        return as_list(apply(node.op_type, *inputs, outputs=outputs, **node.attributes))

    def nothing() -> list[Variable]:
        steps, batch = ops.size_of(x, 0), ops.size_of(x, 1)
        each = ops.concat([ops.size_of(r, 0), batch, ops.size_of(r, 2)])
        states = [_zeros(each, x) if s is None else ops.identity(s) for s in initial]
        return [_zeros(ops.concat([steps, each]), x), *states]

    return _chosen(node, apply("Size", x) > 0, run, nothing)


def scans_if_any(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Run each Scan only if there are steps; without any, the final states are the initial ones."""
    if "Scan" not in context.before(targets).op_types:
        return list(targets)

    def rule(node: Node, inputs: Inputs) -> Outputs:
        outputs = rebuilt_if_changed(node, inputs, rule, only={"Scan"})  # those in its body
        node = node if outputs is None else outputs[0].node
        return _scan_if_any(node, node.inputs) or outputs

    return rewrite(targets, rule, only={"Scan"})


def _scan_if_any(node, inputs):
    explicit = len(inputs) - len(node.blocks["body"].captured)
    count = explicit - node.attributes["num_scan_inputs"]
    init, xs, captures = inputs[:count], inputs[count:explicit], inputs[explicit:]
    if any(isinstance(x.dims[0], int) and x.dims[0] > 0 for x in xs):
        return None

    def run() -> list[Variable]:
        return list(rebuilt(node, inputs).outputs)

    def nothing() -> list[Variable]:
        states, stacked = [ops.identity(s) for s in init], node.outputs[count:]
        sizes = {d: (x, k) for x in (*init, *xs, *captures) for k, d in enumerate(x.dims)}
        if all(isinstance(d, int) or d in sizes for y in stacked for d in y.dims):
            return [*states, *(_zeros(_sizes(y, sizes), y) for y in stacked)]
        # only a step tells what size its values have
        one = [_zeros(ops.concat([np.array([1]), apply("Shape", x, start=1)]), x) for x in xs]
        outputs = rebuilt(node, (*init, *one, *captures)).outputs[count:]
        return [*states, *(ops.slice(y, [0], [0], [0]) for y in outputs)]

    return _chosen(node, ops.size_of(xs[0], 0) > 0, run, nothing)


def _sizes(y, sizes):
    """The sizes of y without steps, of which `sizes` tells the variable and axis of each name."""
    each = [np.array([d]) if isinstance(d, int) else ops.size_of(*sizes[d]) for d in y.dims[1:]]
    return ops.concat([np.array([0]), *each])


def attention_if_any(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Run an attention only if there are queries and keys; without keys its result is zero."""
    q, k, v = inputs[:3]
    if len(node.outputs) > 1 or (has_elements(q) and has_elements(k)):
        return None

    def run() -> list[Variable]:
        return as_list(apply("Attention", *inputs, **node.attributes))

    def nothing() -> list[Variable]:
        width = ops.size_of(v, v.rank - 1)
        if q.rank == 3:
            width = width // node.attributes["kv_num_heads"] * node.attributes["q_num_heads"]
        return [_zeros(ops.concat([apply("Shape", q, end=q.rank - 1), width]), q)]

    return _chosen(node, apply("Size", q) * apply("Size", k) > 0, run, nothing)


def _chosen(node, predicate, run, nothing):
    """Return the outputs of one of two branches, with the sizes of those of the node."""
    results = as_list(ops.cond(predicate, run, nothing))
    return retyped(results, [y.dims for y in node.outputs])


def rows_if_any(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compare the slices along an axis for Unique only if they have elements: else all are equal.

    ONNX Runtime 1.31 ends the process there.
    """
    (x,), axis = inputs, node.attributes.get("axis")
    if axis is None or all(
        isinstance(d, int) and d > 0 for k, d in enumerate(x.dims) if k != axis % x.rank
    ):
        return None
    count = len(node.outputs)
    rows = ops.size_of(x, axis % x.rank)

    def run() -> list[Variable]:
        return as_list(apply("Unique", x, outputs=count, **node.attributes))

    def nothing() -> list[Variable]:
        zero = constant(np.zeros(1, np.int64))
        one = ops.slice(x, [0], [1], [axis])
        return [one, zero, ops.expand(constant(0, np.int64), rows), rows][:count]

    has_elements = ops.logical_or(apply("Size", x) > 0, ops.equal(ops.squeeze(rows), 0))
    return _chosen(node, has_elements, run, nothing)


def places_along(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Count the axis of an ArgMax or ArgMin from the front.

    From the end, ONNX Runtime 1.31 gives the shape of x itself where x is empty.
    """
    (x,), axis = inputs, node.attributes.get("axis", 0)
    if axis >= 0 or has_elements(x):
        return None
    changed = {**node.attributes, "axis": axis + x.rank}
    return (apply(node.op_type, x, known=node.outputs[0].dims, **changed),)


def nothing_expanded(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Replace an Expand to a known shape without elements, which ONNX Runtime 1.31 leaves out."""
    (y,) = node.outputs
    is_empty = y.is_static and 0 in y.symbolic_dims
    return (constant(np.zeros(y.dims), y.dtype),) if is_empty else None


def operands_in_order(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Transpose the operands of an Einsum before it, so that their letters are in one order.

    That is the kernel's own, in which it transposes nothing: dots, then letters as they appear
    first.
    """
    found, result = terms_of(node.attributes["equation"])
    order = list(dict.fromkeys(["...", *(letter for letters in found for letter in letters)]))
    new, equation = [], []
    for x, letters in zip(inputs, found, strict=True):
        indices = sorted(range(len(letters)), key=[order.index(c) for c in letters].__getitem__)
        if has_elements(x) or indices == list(range(len(letters))):
            indices = list(range(len(letters)))
        else:
            axes = axes_of_letters(letters, x.rank)
            x = ops.transpose(x, [axis for k in indices for axis in axes[k]])
        new.append(x)
        equation.append("".join(letters[k] for k in indices))
    if new == list(inputs):
        return None
    y = apply("Einsum", *new, equation=f"{','.join(equation)}->{''.join(result)}")
    return (refined(y, node.outputs[0].dims),)


def has_elements(x: Variable) -> bool:
    """Return whether a value is known to have elements."""
    return all(isinstance(d, int) and d > 0 for d in x.symbolic_dims)


def _zeros(sizes, x):
    return ops.expand(constant(0, x.dtype), sizes)
