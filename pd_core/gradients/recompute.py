"""Recomputation of activations in the backward pass, to save memory (Chen et al. 2016)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .. import ops
from ..graph.arrays import is_float
from ..graph.errors import GraphError
from ..graph.nested import mapped, variables_in
from ..graph.node import Node, ancestors, composite, latest_serial
from ..graph.rewrite import rewrite
from ..graph.variable import Inputs, Variable
from .engine import gradients
from .partials import is_unwanted
from .registry import Gradients, gradient

_Result = TypeVar("_Result")


def recompute(function: Callable[..., _Result], *inputs: Any) -> _Result:
    """Return function(*inputs), whose inner values the backward pass computes a second time.

    A step then holds the inputs and outputs of the segment instead of all activations inside it,
    and computes the segment twice: `torch.utils.checkpoint` of PyTorch. `function` takes and
    returns Variables, or lists, tuples and dicts of them; it may be a layer. Random draws inside,
    such as those of dropout, are the same both times, and moving statistics are updated once.
    Values that the function reads from outside, such as parameters, get their gradients too.

    Args:
        function: a function or layer that returns Variables, or lists, tuples and dicts of them.
        inputs: what it takes.

    Returns:
        What the function returns.

    Raises:
        GraphError: it returns no float that is computed inside it.
        TypeError: `function` cannot be called.
    """
    if not callable(function):
        raise TypeError(f"recompute: function is a function or a layer, not {function!r}")
    before = latest_serial()
    result = function(*inputs)
    given = list(dict.fromkeys(variables_in(inputs)))
    outputs = list(dict.fromkeys(variables_in(result)))
    outputs = [y for y in outputs if is_float(y.dtype) and _is_inside(y, before)]
    if not outputs:
        raise GraphError(f"recompute: {_name(function)} returned no float that it has computed")
    inner = ancestors(outputs, set(given), lambda node: _inputs_inside(node, before))
    inner = [node for node in inner if node.serial > before]
    computed = {y for node in inner for y in node.outputs}
    reads = dict.fromkeys(x for node in inner for x in node.inputs if x is not None)
    captured = [x for x in reads if x not in computed and x not in given and x.value is None]
    marked = composite(
        "Recompute",
        *outputs,
        *given,
        *captured,
        types=[(y.dims, y.dtype) for y in outputs],
        given=len(given),
    )
    marked = (marked,) if len(outputs) == 1 else marked
    new = dict(zip(outputs, marked, strict=True))
    return mapped(lambda v: new.get(v, v), result)


def _is_inside(v: Variable, before: int) -> bool:
    return v.node is not None and v.node.serial > before


def _inputs_inside(node: Node, before: int) -> Inputs:
    """The inputs of a node of the segment; none of those that were built before it."""
    return node.inputs if node.serial > before else ()


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


@gradient("Recompute")
def recomputed_gradients(node: Node, *dys: Variable | None) -> Gradients:
    """Compute the segment again on inputs that wait for the output gradients, and differentiate it.

    It is differentiated on placeholders, since an input may depend on another one.
    """
    count = len(node.outputs)
    outputs, inputs = _present(node.inputs[:count]), _present(node.inputs[count:])
    given, captured = inputs[: node.attributes["given"]], inputs[node.attributes["given"] :]
    copied = [x for x in given if x.value is None] + [x for x in captured if _is_copied(x)]
    placeholders = {x: Variable.of(x.dims, x.dtype, x.name) for x in copied}
    pairs = [(y, dy) for y, dy in zip(outputs, dys, strict=True) if dy is not None]
    arrived = _always_true([v for pair in pairs for v in pair])

    def draw_later(draw: Node, operands: Sequence[Variable]) -> Sequence[Variable]:
        return _drawn_after(arrived, draw, operands)

    again = rewrite(
        [y for y, _ in pairs],
        draw_later,
        stop=set(inputs),
        replacements=placeholders,
        only={"Uniform"},
    )
    floats = [x for x in inputs if is_float(x.dtype) and not is_unwanted(x)]
    seeds = [dy for _, dy in pairs]
    partials = gradients(again, [placeholders.get(x, x) for x in floats], seeds)
    actual = {placeholder: _after(arrived, x) for x, placeholder in placeholders.items()}
    present = [g for g in partials if g is not None]
    placed = iter(
        rewrite(present, lambda *_: None, {*actual, *seeds, arrived}, replacements=actual, only=())
    )
    by_input = {
        x: None if g is None else next(placed) for x, g in zip(floats, partials, strict=True)
    }
    return [*[None] * count, *(by_input.get(x) for x in inputs)]


def _present(inputs: Inputs) -> list[Variable]:
    return [x for x in inputs if x is not None]


def _is_copied(x: Variable) -> bool:
    """Whether a copy of a captured value is read: sizes and stored values are read themselves."""
    return not x.is_persistent and (is_float(x.dtype) or x.node is None)


def _always_true(values: Sequence[Variable]) -> Variable:
    """A scalar that is true whatever the values are, and known only once all of them are.

    A magnitude is never -1, nor is NaN. ONNX Runtime merges operators with equal inputs, so the
    second computation would be the first one without an operand that only the backward pass has.
    """
    totals = [ops.cast(ops.reduce_sum(v), "float32") for v in values]
    return ops.logical_not(ops.equal(ops.abs(sum(totals[1:], totals[0])), -1.0))


def _after(arrived: Variable, x: Variable) -> Variable:
    """The value of x, as the result of an operator that runs once `arrived` is known."""
    return ops.where(arrived, x, ops.cast(0, x.dtype))


def _drawn_after(arrived: Variable, draw: Node, operands: Sequence[Variable]) -> tuple[Variable]:
    """The same draw, whose shape is known only once `arrived` is."""
    shape, *counters = operands
    return (
        composite(
            "Uniform",
            _after(arrived, shape),
            *counters,
            types=draw.types,
            key=draw.attributes["key"],
        ),
    )
