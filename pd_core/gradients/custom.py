"""Derivatives of one's own: functions that are differentiated by a formula that the user gives."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import signature
from types import MethodType
from typing import Any, NamedTuple, overload

import numpy as np

from .. import ops
from ..graph.arrays import is_float
from ..graph.checks import differ
from ..graph.errors import DTypeError, GraphError, NoGradient, NotComputed, ShapeError
from ..graph.nested import flattened, is_nested, is_sequence, unflattened
from ..graph.node import Block, Node, ancestors, latest_serial, new_node
from ..graph.recording import deferred
from ..graph.rewrite import close, substitute
from ..graph.variable import Variable, constant, describe
from .partials import is_unwanted
from .registry import Gradients, gradient

_Vjp = Callable[..., Any]


@overload
def custom_gradient(function: Callable[..., Any], vjp: _Vjp) -> Callable[..., Any]: ...
@overload
def custom_gradient(
    function: None = None, *, vjp: _Vjp
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def custom_gradient(
    function: Callable[..., Any] | None = None, vjp: _Vjp | None = None
) -> Callable[..., Any]:
    """Return a function that computes `function` and is differentiated by `vjp`.

    `function(*inputs, **options)` takes Variables or arrays, also nested in lists, tuples and
    dicts, and returns a Variable, or a list, tuple or dict of them. `vjp(*inputs, *outputs,
    *output_gradients, **options)` gives the gradient of each input, of its shape and dtype, nested
    as the input is, or None for no gradient: alone if there is one input, else as a list. It calls
    op functions, so second derivatives go through it; output gradients are zeros for outputs that
    no cost depends on, None for outputs that are no floats. Numbers, text, None and other objects
    are given to both as they are, and have no gradient. `torch.autograd.Function` and
    `jax.custom_vjp` elsewhere. As a decorator, of methods too: `@pd.custom_gradient(vjp=...)`.
    Exported models have the operators of `function` only.

    `vjp` is called when the function is, once, and is recorded as bodies of loops are: its
    arguments have no values in Python, and what else it reads is read as of that call.

    Gradients go to the inputs alone. GraphError if the function reads a trainable parameter, or
    what was computed outside, that is not one of its inputs, if it returns no float, or if `vjp`
    gives another number of gradients; ShapeError or DTypeError if one does not fit its input,
    TypeError if `vjp` does not take these arguments.

    Args:
        function: a function of Variables.
        vjp: a function of inputs, outputs and output gradients that gives input gradients.

    Returns:
        A function.

    Raises:
        TypeError: `function` or `vjp` is no function.
    """
    if vjp is None or not callable(vjp):
        raise TypeError(
            "custom_gradient: vjp is a function of inputs, outputs and output gradients, "
            f"not {vjp!r}\n  hint: as a decorator it is @pd.custom_gradient(vjp=...)"
        )
    if function is None:
        return lambda decorated: custom_gradient(decorated, vjp)
    if not callable(function):
        raise TypeError(f"custom_gradient: takes a function, not {function!r}")
    return update_wrapper(_Custom(function, vjp), function, updated=())


class _Custom:
    """A function with its vector-Jacobian product."""

    def __init__(self, function: Callable[..., Any], vjp: _Vjp) -> None:
        self.function, self.vjp = function, vjp

    def __repr__(self) -> str:
        return f"custom_gradient({_name(self.function)})"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the method of an object, which `vjp` gets first as the function does."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        who = f"custom_gradient: {_name(self.function)}"
        given = _Arguments(inputs)
        before = latest_serial()
        result = self.function(*given.nested(given.leaves), **options)
        pattern, leaves = flattened(result, is_sequence)
        results = [_operand(v) for v in leaves]
        outputs = [v for v in results if isinstance(v, Variable)]
        floats, others = _by_kind(outputs)
        if not floats:
            raise GraphError(f"{who} returned no float")
        read = _read_besides(who, outputs, given.variables, before)
        formula = _formula(self.vjp, who, given, outputs, options)
        marked = new_node(
            "CustomGradient",
            (*floats, *given.variables, *others, *read, *formula.captures),
            {"wanted": formula.wanted, "given": len(given.variables), "others": len(others)},
            [(y.dims, y.dtype) for y in floats],
            domain="pd",
            blocks={"vjp": formula.block},
        ).outputs
        new = iter(marked)
        return unflattened(pattern, iter([next(new) if _has_gradient(v) else v for v in results]))


class _Arguments:
    """Arguments of a function: their nesting, and their leaves, of which Variables are inputs."""

    def __init__(self, values: Sequence[Any]) -> None:
        found = [flattened(x, is_nested) for x in values]
        self.patterns = [pattern for pattern, _ in found]
        self.by_argument = [[_operand(v) for v in leaves] for _, leaves in found]
        self.leaves = [v for leaves in self.by_argument for v in leaves]
        self.variables = [v for v in self.leaves if isinstance(v, Variable)]

    def nested(self, leaves: Sequence[Any]) -> list[Any]:
        """Return arguments of other leaves."""
        each = iter(leaves)
        return [unflattened(pattern, each) for pattern in self.patterns]

    def gradients(self, found: Any, who: str) -> list[Variable | None]:
        """Return what a vjp has given for each of the Variables."""
        every = list(range(len(self.patterns)))
        inputs = [k for k in every if any(isinstance(v, Variable) for v in self.by_argument[k])]
        if len(inputs) == 1 and self._fits(found, self.patterns[inputs[0]]):
            parts, of = [found], inputs
        else:
            parts = list(found) if is_sequence(found) else [found]
            of = inputs if len(parts) == len(inputs) else every
        if len(parts) != len(of):
            raise GraphError(f"{who} {len(parts)} gradients for {len(inputs)} inputs")
        by_leaf: list[Any] = []
        for part, k in zip(parts, of, strict=True):
            own = self.by_argument[k]
            gradients = _spread(part, self.patterns[k], who)
            by_leaf += [g for g, v in zip(gradients, own, strict=True) if isinstance(v, Variable)]
        pairs = zip(by_leaf, self.variables, strict=True)
        return [_checked(g, x, who) for g, x in pairs]

    @staticmethod
    def _fits(found: Any, pattern: Any) -> bool:
        """Whether what was found is the gradient of one argument, rather than a list of these."""
        if pattern is None or found is None:
            return not is_sequence(found)
        return flattened(found, is_sequence)[0] == pattern


def _operand(leaf: Any) -> Any:
    """An array or a list of numbers as a Variable; numbers and other objects as they are."""
    return constant(leaf) if isinstance(leaf, (np.ndarray, np.generic, list, tuple)) else leaf


def _has_gradient(v: Any) -> bool:
    return isinstance(v, Variable) and is_float(v.dtype)


def _by_kind(variables: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """The floats, and the others."""
    floats = [v for v in variables if is_float(v.dtype)]
    return floats, [v for v in variables if not is_float(v.dtype)]


def _read_besides(
    who: str, outputs: Sequence[Variable], given: Sequence[Variable], before: int
) -> list[Variable]:
    """Return the slots and data with floats that a function reads besides its inputs.

    GraphError for what gradients would have to reach.
    """
    known = set(given)
    order = ancestors(outputs, known, lambda node: node.inputs if node.serial > before else ())
    inner = [node for node in order if node.serial > before]
    computed = {y for node in inner for y in node.outputs} | known
    read = [x for n in inner if n.op_type != "StopGradient" for x in n.inputs if x is not None]
    found = []
    for x in dict.fromkeys([*read, *outputs]):
        owner = x if x.source is None else x.source
        if x in computed or owner in known or x.value is not None or not is_float(x.dtype):
            continue
        if x.node is not None or owner.trainable or x.tracked:
            raise GraphError(f"{who} {_lost(x)}")
        if not owner.is_persistent:
            found.append(x)
    return found


def _lost(x: Variable) -> str:
    return (
        f"reads {x.name} ({describe(x)}), which is none of its inputs, so that its gradient would "
        "be lost\n  hint: pass it as an input, or read pd.stop_gradient(...) of it"
    )


class _Formula(NamedTuple):
    """The gradients of the `wanted` inputs, of those numbers.

    The block is a function of the inputs, the outputs that are floats, the others, and output
    gradients.
    """

    block: Block
    captures: Sequence[Variable]
    wanted: Sequence[int]


def _formula(
    vjp: _Vjp, who: str, given: _Arguments, outputs: Sequence[Variable], options: dict[str, Any]
) -> _Formula:
    """Call a vjp on Variables that stand for those of a backward pass."""
    leaves = [_stand_in(v) if isinstance(v, Variable) else v for v in given.leaves]
    results = list(map(_stand_in, outputs))
    dys = [Variable.of(y.dims, y.dtype, "dy") if is_float(y.dtype) else None for y in outputs]
    arguments = [*given.nested(leaves), *results, *dys]
    try:
        with deferred():
            found = vjp(*arguments, **options)
    except TypeError:
        _check_signature(vjp, who, len(given.patterns), len(outputs), options)
        raise
    except NotComputed as error:
        raise NotComputed(
            f"{who}: its vjp is recorded for all values, and may not ask for one: {error}\n"
            "  hint: pd.where and pd.cond decide by values"
        ) from None
    gradients = given.gradients(found, f"{who}: its vjp gave")
    block_inputs = [v for v in leaves if isinstance(v, Variable)]
    for part in (*_by_kind(results), dys):
        block_inputs += [v for v in part if v is not None]
    wanted = [k for k, g in enumerate(gradients) if g is not None]
    outputs = [g for g in gradients if g is not None]
    blocks, captures = close({"vjp": outputs}, {"vjp": block_inputs})
    return _Formula(blocks["vjp"], captures, wanted)


def _check_signature(
    vjp: _Vjp, who: str, inputs: int, outputs: int, options: dict[str, Any]
) -> None:
    """Raise TypeError if a vjp does not take what it is given."""
    try:
        of_vjp = signature(vjp)
    except ValueError:  # a builtin that does not tell
        return
    try:
        of_vjp.bind(*range(inputs + 2 * outputs), **options)
    except TypeError as error:
        counts = f"{inputs} inputs, {outputs} outputs and {outputs} output gradients"
        raise TypeError(
            f"{who}: its vjp{of_vjp} does not take {counts}: {error}\n"
            "  hint: vjp(*inputs, *outputs, *output_gradients, **options)"
        ) from None


def _stand_in(v: Variable) -> Variable:
    """A Variable of the body of a vjp; what is known of the value stays known."""
    known = {} if v.value is None else {"value": v.value}
    return Variable.of(v.dims, v.dtype, v.name, **known)


def _spread(found: Any, pattern: Any, who: str) -> list[Any]:
    """Return a gradient for each leaf of an argument; None is for all of them."""
    if pattern is None:
        return [found]
    if found is not None:
        nested, leaves = flattened(found, is_sequence)
        if nested == pattern:
            return leaves
        raise GraphError(f"{who} {found!r} for an input that is nested as {pattern!r}")
    return [None] * len(flattened(pattern, is_sequence)[1])


def _checked(g: Any, x: Variable, who: str) -> Variable | None:
    """A gradient that fits its input."""
    if g is None or not is_float(x.dtype):
        return None
    of = f"the input {x.name}: {describe(x)}"
    if not isinstance(g, Variable):
        try:
            g = constant(g, x.dtype)
        except (TypeError, ValueError):
            raise DTypeError(f"{who} {g!r} for {of}") from None
    if differ(g, x):
        raise ShapeError(f"{who} {describe(g)} for {of}")
    if g.dtype != x.dtype:
        raise DTypeError(f"{who} {describe(g)} for {of}")
    return g


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


@gradient("CustomGradient")
def custom_gradients(node: Node, *dys: Variable | None) -> Gradients:
    """Apply the formula of the user to inputs, outputs and output gradients."""
    outputs, block, a = node.outputs, node.blocks["vjp"], node.attributes
    inputs = node.inputs[len(outputs) : len(node.inputs) - len(block.captured)]
    given, rest = inputs[: a["given"]], inputs[a["given"] :]
    others, read = rest[: a["others"]], rest[a["others"] :]
    present = [ops.zeros_like(y) if dy is None else dy for y, dy in zip(outputs, dys, strict=True)]
    actual = [*given, *outputs, *others, *present, *node.captures]
    meant = dict(zip(block.inputs, actual, strict=True))
    gradients = substitute(block.outputs, meant, stop=set(block.inputs))
    by_input = dict(zip(a["wanted"], gradients, strict=True))
    return [
        *[None] * len(outputs),
        *[by_input.get(k) for k in range(len(given))],
        *[None] * len(others),
        *[_refusal(x) for x in read],
        *[None] * len(block.captured),
    ]


def _refusal(x: Variable) -> Callable[[], Variable | None]:
    """A function that raises NoGradient if the gradient of a captured Variable is asked for."""

    def refuse() -> Variable | None:
        if is_unwanted(x):  # bodies are differentiated by all that they capture
            return None
        raise NoGradient(f"the function of pd.custom_gradient {_lost(x)}")

    return refuse
