"""Loops and branches of a file, built as our own."""

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...graph.errors import ModelError
from ...graph.loop import loop_node
from ...graph.node import apply, refined
from ...graph.rewrite import close
from ...graph.variable import Dim, Variable, constant, describe, fresh_dim
from .loading import dims_of
from .protocol import GraphReader, UnfitSizes, Value
from .versions import Operator

_END = np.iinfo(np.int64).min  # of a slice with step -1 down to the first element


def branch(reader: GraphReader, op: Operator) -> Sequence[Value]:
    """Build an If; of a constant condition only the branch that runs."""
    condition = op.inputs[0]
    bodies = [op.attributes[key] for key in ("then_branch", "else_branch")]
    if condition.value is not None:
        return reader.read_body(bodies[0 if condition.value.all() else 1], (), inside=False)
    if condition.rank:  # of one element, as the condition of ONNX may be of any rank
        condition = ops.reshape(condition, [])
    both: list[Sequence[Variable]] = []
    lengths: list[int | None] = []

    def first():
        results = _branches(reader, bodies, condition)
        lengths.extend(_lengths_of_both(results))
        declared = op.declared if lengths and lengths[0] is None else None
        both.extend(_match_ranks([_flat(outputs) for outputs in results], declared))
        return both[0]

    return _grouped(ops.cond(condition, first, lambda: both[1]), lengths)


def _lengths_of_both(results):
    """Return the length of each output that is a sequence, None for others; both have to agree."""
    first, second = ([len(y) if isinstance(y, list) else None for y in r] for r in results)
    if len(first) == len(second) and first != second:
        raise ModelError(
            f"its branches give sequences of other lengths, {first} and {second}, which has to be "
            "known outside of them"
        )
    return first


def _flat(outputs):
    """Return outputs with the elements of sequences in the place of these."""
    return [x for y in outputs for x in (y if isinstance(y, list) else [y])]


def _grouped(flat, lengths):
    """Return outputs from what `_flat` made of them."""
    rest = iter(flat)
    return [next(rest) if n is None else [next(rest) for _ in range(n)] for n in lengths]


def _branches(reader, bodies, condition):
    """Read both branches; one that does not fit the sizes at hand becomes an error when it runs.

    Exporters branch on ranks, and what a branch for another rank does need not fit this one.
    """
    results, unfit = [], []
    for body in bodies:
        try:
            results.append(reader.read_body(body, ()))
        except UnfitSizes as error:
            results.append(None)
            unfit.append(error)
    if len(unfit) == len(bodies):
        raise unfit[0]
    if unfit:
        fits = results[1] if results[0] is None else results[0]
        failing = [
            [_failing(condition, x) for x in y] if isinstance(y, list) else _failing(condition, y)
            for y in fits
        ]
        results = [failing if outputs is None else outputs for outputs in results]
    return results


def _failing(condition, y):
    """Return a value like y whose computation fails: an element that there is not is taken."""
    nothing = ops.reshape(ops.cast(condition, y.dtype), [1])
    return apply("Expand", apply("Gather", nothing, np.array([1])), ops.shape_of(y), known=y.dims)


def _match_ranks(results, declared):
    """Return the outputs of both branches, brought to one rank where their ranks differ."""
    if len(results[0]) != len(results[1]):
        raise ModelError(f"its branches give {len(results[0])} and {len(results[1])} values")
    pairs = []
    for k, (a, b) in enumerate(zip(*results, strict=True)):
        rank = len(declared) if declared is not None and k == 0 else min(a.rank, b.rank)
        pairs.append((a, b) if a.rank == b.rank else _with_rank(rank, a, b))
    return [list(outputs) for outputs in zip(*pairs, strict=True)]


def _with_rank(rank, a, b):
    """Bring two values to one rank.

    Exporters write `squeeze` as a branch on whether a size is 1, and go on with the squeezed value;
    if it is not 1, the Squeeze fails when it runs.
    """
    longer, shorter = (a, b) if a.rank > b.rank else (b, a)
    axes = _extra_axes(longer.dims, shorter.dims)
    if axes is None or rank not in (a.rank, b.rank):
        raise ModelError(
            f"its branches give {describe(a)} and {describe(b)}, and which one runs is not known\n"
            "  hint: known sizes of the inputs, or a constant, may settle the condition"
        )
    if rank == longer.rank:
        matched = {shorter: ops.unsqueeze(shorter, axes)}
    else:
        matched = {longer: apply("Squeeze", longer, np.array(axes, np.int64), known=shorter.dims)}
    return matched.get(a, a), matched.get(b, b)


def _extra_axes(longer, shorter):
    """Return the axes to squeeze so that the longer dims become the shorter ones, or None."""
    axes, rest = [], list(shorter)
    for k, d in enumerate(longer):
        if rest and d == rest[0]:
            rest.pop(0)
        elif d == 1 or isinstance(d, str):
            axes.append(k)
        else:
            return None
    return None if rest else axes


def scan(reader: GraphReader, op: Operator) -> list[Variable]:
    """Build a Scan along any axes and in any directions."""
    a, count = op.attributes, op.attributes["num_scan_inputs"]
    if op.version < 9:
        raise ModelError("the Scan of opset 8, over batches with lengths, has no successor")
    states, xs = op.inputs[: len(op.inputs) - count], op.inputs[len(op.inputs) - count :]
    axes = a.get("scan_input_axes") or [0] * count
    backward = a.get("scan_input_directions") or [0] * count
    xs = [_reversed(_axis_first(x, k), r) for x, k, r in zip(xs, axes, backward, strict=True)]

    def step(states, slices):
        outputs = _as_declared(a["body"], reader.read_body(a["body"], [*states, *slices]))
        return outputs[: len(states)], outputs[len(states) :]

    final, ys = ops.scan(step, states, xs)
    axes = a.get("scan_output_axes") or [0] * len(ys)
    backward = a.get("scan_output_directions") or [0] * len(ys)
    ys = [_first_to(_reversed(y, r), k) for y, k, r in zip(ys, axes, backward, strict=True)]
    return [*final, *ys]


def _reversed(x, backward):
    return ops.slice(x, [-1], [_END], [0], [-1]) if backward else x


def _axis_first(x, axis):
    """Move an axis to the front."""
    axis %= x.rank
    return ops.transpose(x, [axis, *(k for k in range(x.rank) if k != axis)]) if axis else x


def _first_to(x, axis):
    """Move the first axis to another position."""
    axis %= x.rank
    order = list(range(1, x.rank))
    order.insert(axis, 0)
    return ops.transpose(x, order) if axis else x


def loop(reader: GraphReader, op: Operator) -> list[Variable]:
    """Build a Loop, with states whose sizes may change from step to step.

    One whose state is a sequence is written out, step by step.
    """
    limit, condition, init = op.input(0), op.input(1), op.inputs[2:]
    if any(isinstance(x, list) for x in init):
        return _written_out(reader, op, limit, condition, init)
    dims, changing = [x.dims for x in init], set[Dim]()
    while True:
        blocks, captures, new, ys = _body(reader, op, init, dims)
        widened = [_widened(d, y.dims, changing) for d, y in zip(dims, new, strict=True)]
        if widened == dims:
            break
        dims = widened
    # a size that changes from step to step has a name for its steps, and one for the last of them
    last = [tuple([fresh_dim() if d in changing else d for d in own]) for own in dims]
    types = [(d, x.dtype) for d, x in zip(last, init, strict=True)]
    types += [((fresh_dim(), *y.dims), y.dtype) for y in ys]
    condition = constant(True) if condition is None else condition
    return list(loop_node(limit, condition, init, captures, blocks["body"], types))


def _written_out(reader, op, limit, condition, states):
    """Build the steps of a loop one after the other; how many there are has to be known."""
    if limit is not None and limit.value is None:
        raise ModelError("its state is a sequence, and how often it runs is not known before")
    count = None if limit is None else int(limit.value.reshape(()))
    going, number, rows = condition, 0, []
    while (count is None or number < count) and _goes_on(going):
        inputs = [constant(np.int64(number)), constant(True), *states]
        going, *rest = reader.read_body(op.attributes["body"], inputs, inside=False)
        states, row = rest[: len(states)], rest[len(states) :]
        rows.append(row)
        number += 1
    stacked = len(op.attributes["body"].output) - 1 - len(states)
    if stacked and not rows:
        raise ModelError("its state is a sequence, and it gives no elements of its other outputs")
    columns = zip(*rows, strict=True)
    return [*states, *(ops.concat([ops.unsqueeze(y, [0]) for y in ys], 0) for ys in columns)]


def _goes_on(condition):
    """Check whether a loop goes on, by its condition, which is None where there is none."""
    if condition is not None and condition.value is None:
        raise ModelError("its state is a sequence, and when it ends is not known before it runs")
    return condition is None or bool(condition.value.all())


def _body(reader, op, init, dims):
    """Read the body for states of these dims: (blocks, captures, new states, stacked outputs)."""
    number, going = Variable.of((), np.int64, "step"), Variable.of((), np.bool_, "going")
    states = [Variable.of(d, x.dtype, "state") for d, x in zip(dims, init, strict=True)]
    condition, *rest = reader.read_body(op.attributes["body"], [number, going, *states])
    if any(isinstance(y, list) for y in rest):
        raise ModelError("its body gives a sequence, which has a known length only outside")
    condition, *rest = _as_declared(op.attributes["body"], [condition, *rest])
    new, ys = rest[: len(states)], rest[len(states) :]
    bodies, block_inputs = {"body": [condition, *rest]}, {"body": [number, going, *states]}
    blocks, captures = close(bodies, block_inputs)
    return blocks, captures, new, ys


def _as_declared(body, outputs):
    """Return the outputs of a body with the sizes that it declares, where they are not known.

    The runtime takes them for what is stacked over no steps.
    """
    return [_refined(y, i) for y, i in zip(outputs, body.output, strict=True)]


def _refined(y, info):
    if not isinstance(y, Variable) or y.node is None or not info.type.HasField("tensor_type"):
        return y
    dims = dims_of(info.type.tensor_type, info.name)
    if dims is None or len(dims) != y.rank:
        return y
    pairs = zip(y.dims, dims, strict=True)
    return refined(y, [d if isinstance(d, int) or e is None else e for d, e in pairs])


def _widened(dims, after, changing):
    """Return dims that hold before and after a step, with names of their own for what changes.

    A name of the graph around the loop is none of them: there it is one number. The names that
    have been chosen are in the set `changing`.
    """
    if len(dims) != len(after):
        raise ModelError(f"a state of rank {len(dims)} has rank {len(after)} after a step")
    own = [d if d == e or d in changing else fresh_dim() for d, e in zip(dims, after, strict=True)]
    changing.update([a for a, d in zip(own, dims, strict=True) if a != d])
    return tuple(own)


readers = {"If": branch, "Loop": loop, "Scan": scan}
